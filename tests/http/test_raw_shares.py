"""What is left of single contributions in the aggregators' tables, at every stage (paper section 4.8: sub-aggregates
are formed soon, and raw shares are discarded).

Every table of both is read in full and searched for each report's sealed shares, opened shares, verifier shares, output
shares and token. Report ids, nullifiers, digests and counts may stay.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from infra.lab.kit.aggregators import PEER_TOKEN, AggregatorPair
from infra.lab.kit.network import LOSE_RESPONSE, matching, no_faults
from infra.lab.kit.reports import TaskKit, make_task_kit
from services.helper import app as helper_app
from services.helper.store import HelperStore
from services.leader import app as leader_app
from services.leader.store import LeaderStore
from tacit.messages import Report, Role
from tacit.task import BatchClose
from tests.http.aggregator_pair import both_aggregators
from tests.kit.oracles.sealing import open_input_share
from tests.kit.postgres import MakeDatabase

BOTH = (Role.LEADER, Role.HELPER)
WINDOW = 16
GOOD = 6
INTERVAL_END = make_task_kit(min_batch_size=GOOD)
AT_B = make_task_kit(min_batch_size=GOOD, batch_close=BatchClose.AT_B)
JOBS = "/aggregation_jobs"

Secrets = dict[str, list[bytes]]


@pytest.fixture(params=["file", "postgres"])
def databases(request: pytest.FixtureRequest) -> dict[Role, str]:
    """URLs of PostgreSQL databases, or none for files of SQLite."""
    if request.param == "file":
        return {}
    make: MakeDatabase = request.getfixturevalue("make_postgres_url")
    return {Role.LEADER: make(LeaderStore), Role.HELPER: make(HelperStore)}


def pair_of(tmp_path: Path, kit: TaskKit, databases: dict[Role, str]) -> AggregatorPair:
    return both_aggregators(kit, tmp_path, storage="file", databases=databases)


def secrets_of(kit: TaskKit, reports: Iterable[Report]) -> Secrets:
    """Everything of these reports that is to be discarded, recomputed with both aggregators' keys."""
    found: Secrets = {"sealed": [], "input share": [], "verifier share": [], "output share": [], "token": []}
    vdaf, task = kit.task.vdaf, kit.task
    for report in reports:
        metadata = report.report_metadata
        public = vdaf.decode_public_share(report.public_share)
        sealed = (report.leader_encrypted_input_share, report.helper_encrypted_input_share)
        for number, (role, ciphertext) in enumerate(zip(BOTH, sealed, strict=True)):
            share = open_input_share(task, role, kit.key_pairs[role], metadata, report.public_share, ciphertext)
            opened = vdaf.decode_input_share(number, share.payload)
            state, verifier = vdaf.verify_init(
                kit.verify_key, task.ctx, number, None, metadata.report_id, public, opened
            )
            found["sealed"] += [ciphertext.payload, ciphertext.enc]
            found["input share"].append(share.payload)
            found["verifier share"].append(vdaf.field.encode_vec(verifier.verifiers_share))
            found["output share"].append(vdaf.encode_out_share(state.out_share))
            found["token"] += [extension.extension_data[:-64] for extension in share.private_extensions]
    return found


async def tables(pair: AggregatorPair, role: Role) -> dict[str, bytes]:
    """Every value of every row of an aggregator's database, by table (a partition counts as its table)."""
    store: Any = pair.apps[role][leader_app.STORE if role is Role.LEADER else helper_app.STORE]
    found = {}
    async with store.read() as tx:
        names = await tx.connection.run_sync(lambda connection: sa.inspect(connection).get_table_names())
        for name in (name for name in names if not name.startswith("reports_slice_")):
            rows = await tx.connection.execute(sa.text(f'SELECT * FROM "{name}"'))  # noqa: S608 - own tables
            values = [value for row in rows for value in row]
            found[name] = b"\n".join(v if isinstance(v, bytes) else str(v).encode() for v in values)
    return found


def pieces(data: bytes) -> Iterable[bytes]:
    return (data[at : at + WINDOW] for at in range(len(data) - WINDOW + 1))


async def left(pair: AggregatorPair, role: Role, secrets: Secrets) -> dict[str, set[str]]:
    """Which kinds of secrets (also a piece of one) are in which tables of an aggregator."""
    stored = await tables(pair, role)
    assert len(stored) >= 9
    kinds = {kind: {piece for value in values for piece in pieces(value)} for kind, values in secrets.items()}
    assert all(kinds.values())
    found: dict[str, set[str]] = {}
    for table, data in stored.items():
        here = set(pieces(data))
        for kind, wanted in kinds.items():
            if not wanted.isdisjoint(here):
                found.setdefault(table, set()).add(kind)
    return found


@pytest.mark.parametrize("kit", [INTERVAL_END, AT_B], ids=["interval-end", "at-b"])
async def test_raw_shares_lie_at_the_leader_until_they_are_decided_and_nowhere_after(
    tmp_path: Path, databases: dict[Role, str], kit: TaskKit
) -> None:
    factory = kit.reports(31)
    good = [factory.valid(number % 4) for number in range(GOOD)]
    rejected = [factory.bad_proof(2), factory.without_token(1), factory.truncated_share(3, roles={Role.HELPER})]
    secrets = secrets_of(kit, good)
    bad = {"sealed": [one.leader_encrypted_input_share.payload for one in rejected]}
    bad["sealed"] += [one.helper_encrypted_input_share.payload for one in rejected]
    async with pair_of(tmp_path, kit, databases) as pair:
        await pair.upload([*rejected, *good])
        assert await left(pair, Role.LEADER, secrets) == {"reports": {"sealed"}}
        assert await left(pair, Role.LEADER, bad) == {"reports": {"sealed"}}

        pair.network.plan = matching(JOBS, LOSE_RESPONSE)
        await pair.work()
        assert await left(pair, Role.LEADER, secrets) == {"reports": {"sealed"}}
        assert await left(pair, Role.HELPER, secrets | bad) == {}

        pair.network.plan = no_faults
        await pair.clock.advance(61)
        await pair.work()
        for role in BOTH:
            assert (await pair.status(role))["aggregated"] == GOOD
            assert await left(pair, role, secrets) == {}
            assert await left(pair, role, bad) == {}

        await pair.end_interval()
        answer = await pair.collect()
        assert sum(pair.opened(answer).values) == GOOD
        for role in BOTH:
            rows = await tables(pair, role)
            assert await left(pair, role, secrets) == {}
            assert rows["outcomes"]
        if not databases:
            assert in_files(tmp_path, secrets) == set()


def in_files(folder: Path, secrets: Secrets) -> set[str]:
    """Names of files below ``folder`` with a secret in them."""
    wanted = {piece for values in secrets.values() for value in values for piece in pieces(value)}
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {path.suffix for path in files} >= {".sqlite3"}
    return {path.name for path in files if not wanted.isdisjoint(pieces(path.read_bytes()))}


async def test_a_helper_repeats_its_answer_from_what_it_kept_without_the_shares(
    tmp_path: Path, databases: dict[Role, str]
) -> None:
    """The request is gone on both sides; the leader of this test remembers it and sends it again (P14)."""
    kit = INTERVAL_END
    factory = kit.reports(32)
    reports = [factory.valid(1) for _ in range(GOOD)]
    async with pair_of(tmp_path, kit, databases) as pair:
        await pair.upload(reports)
        await pair.work()
        (request,) = [one.body for one in pair.network.exchanges if one.url.endswith(JOBS)]
        before = await tables(pair, Role.HELPER)
        answers = []
        for _ in range(2):
            again = await pair.send(
                Role.HELPER, "POST", JOBS, token=PEER_TOKEN, message="aggregation-job-init-req", body=request
            )
            answers.append((again.status, again.body))
        assert answers[0] == answers[1]
        assert answers[0][0] == 201
        assert await tables(pair, Role.HELPER) == before
        assert await left(pair, Role.HELPER, secrets_of(kit, reports)) == {}


async def test_jobs_that_are_never_answered_leave_nothing_after_the_grace(
    tmp_path: Path, databases: dict[Role, str]
) -> None:
    kit = INTERVAL_END
    factory = kit.reports(33)
    reports = [factory.valid(1) for _ in range(GOOD)]
    secrets = secrets_of(kit, reports)
    async with pair_of(tmp_path, kit, databases) as pair:
        await pair.upload(reports)
        pair.network.partition(kit.task.configuration.helper_aggregator_endpoint)
        await pair.work()
        assert await left(pair, Role.LEADER, secrets) == {"reports": {"sealed"}}
        await pair.end_interval()
        await pair.clock.advance(8 * 86400)
        await pair.work()
        assert (await pair.status(Role.LEADER))["jobs"] == {"failed": 1}
        assert await left(pair, Role.LEADER, secrets) == {}


async def test_a_job_of_which_other_bytes_would_be_made_is_shown_and_not_sent_again(
    tmp_path: Path, databases: dict[Role, str]
) -> None:
    kit = INTERVAL_END
    factory = kit.reports(34)
    async with pair_of(tmp_path, kit, databases) as pair:
        await pair.upload([factory.valid(1) for _ in range(GOOD)])
        pair.network.plan = matching(JOBS, LOSE_RESPONSE)
        await pair.work()
        pair.network.plan = no_faults
        sent = [one.body for one in pair.network.exchanges if one.url.endswith(JOBS)]
        async with pair.apps[Role.LEADER][leader_app.STORE].transaction() as tx:
            (digest,) = (await tx.connection.execute(sa.text("SELECT digest FROM aggregation_jobs"))).scalars()
            assert digest == hashlib.sha256(sent[-1]).digest()
            await tx.connection.execute(
                sa.text("UPDATE aggregation_jobs SET digest = :other").bindparams(other=bytes(32))
            )
        await pair.start(Role.LEADER)
        await pair.clock.advance(61)
        await pair.work()
        assert [one.body for one in pair.network.exchanges if one.url.endswith(JOBS)] == sent
        status = await pair.status(Role.LEADER)
        assert (status["jobs"], status["aggregated"]) == ({"sent": 1}, 0)
        assert [job["cause"] for job in status["failing_jobs"]] == ["broken"]
