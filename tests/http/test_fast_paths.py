"""An ordinary run takes every fast path with every item: what falls back gives the same results, only later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.lab.kit.aggregators import GATEWAY_TOKEN, AggregatorPair
from infra.lab.kit.recipes import RecipeKit
from infra.lab.kit.reports import TaskKit, make_task_kit
from relay.app import create_app as create_relay
from relay.config import RelayConfig
from services.gateway.targets import http_date
from services.helper.store import HelperStore
from services.leader.store import LeaderStore
from tacit import fast_paths, hpke, ohttp
from tacit.fast_paths import FastPath
from tacit.media_types import OHTTP_REQ, dap
from tacit.messages import Role
from tacit.multibuffer.library import kernels
from tacit.multibuffer.sealing import BatchSealer
from tacit.service.app import ServiceEnv
from tacit.service.base.config_files import parse_config
from tacit.service.base.secret_files import write_secret
from tacit.tlog.canonical import canonical_bytes, parse_canonical
from tacit.vdaf.native import level
from tacit.vdaf.native.batch import BatchProver
from tests.conftest import skip_or_fail
from tests.http.aggregator_pair import both_aggregators
from tests.http.gateway_stage import GATEWAY_URL, RELAY_URL, Running, entropy, opened, starting
from tests.kit.postgres import MakeDatabase
from tests.unit.test_native_batch import INSTANCES

REPORTS = 12
KINDS = ("count", "sum", "sumvec", "histogram", "multihot", "noisy vector", "bounded bits")
"""What recipes ask of two aggregators: counts, totals, vectors, choices of one and of several, and proofs of a norm."""
ALL = {name: one for name, one in vars(fast_paths).items() if isinstance(one, FastPath)}
BATCHES = {"TOKENS", "OPENED", "SEALED"}


@contextmanager
def require_counts(**expected: int) -> Iterator[None]:
    """Within the block, each path that is named gets so many items, and none falls back."""
    if level() == "off":
        skip_or_fail("cc", "there are no kernels here")
    before = {name: (one.items, one.fallbacks) for name, one in ALL.items()}
    yield
    found = {name: (one.items - before[name][0], one.fallbacks - before[name][1]) for name, one in ALL.items()}
    if kernels() is None:  # this processor has not the instructions
        expected = {name: number for name, number in expected.items() if name not in BATCHES}
    assert {name: found[name] for name in expected} == {name: (number, 0) for name, number in expected.items()}


def kit_of(name: str) -> tuple[TaskKit, list[bytes]]:
    """A task for the kind of measurement, and encoded reports."""
    vdaf, draw = INSTANCES[name]
    kit, numbers = make_task_kit(vdaf, min_batch_size=REPORTS), random.Random(name)
    factory = kit.reports(7)
    return kit, [factory.valid(draw(numbers)).encode() for _ in range(REPORTS)]


async def relay_to(gateway: Running, folder: Path) -> None:
    """A relay that sends frames to the gateway."""
    data = {
        "state_dir": str(folder / "relay"),
        "gateway_url": GATEWAY_URL,
        "gateway_bearer": str(folder / "bearer"),
        "frames": {"max_messages": REPORTS, "max_bytes": 1 << 20, "max_delay": 0.05},
    }
    deps = ServiceEnv(gateway.clock, entropy, gateway.network, gateway.observed, background=False)
    await gateway.network.mount(RELAY_URL, create_relay(parse_config(data, RelayConfig), deps))


async def contribute(gateway: Running, kit: TaskKit, reports: Sequence[bytes]) -> None:
    """Every report in an encapsulated request of its own, at the same time, through the relay."""
    fields = (("date", http_date(gateway.clock.now())), ("content-type", dap("upload-req")))
    authority = kit.task.configuration.leader_aggregator_endpoint.removeprefix("http://")
    path = f"/tasks/{kit.task.task_id_text}/reports"
    made = [
        ohttp.padded_request(
            gateway.config, gateway.request(authority=authority, path=path, fields=fields, content=one), entropy
        )
        for one in reports
    ]
    answers = await asyncio.gather(
        *(
            gateway.network.request("POST", RELAY_URL + "/", headers={"Content-Type": OHTTP_REQ}, body=message)
            for message, _ in made
        )
    )
    assert {opened(context, answer).status for (_, context), answer in zip(made, answers, strict=True)} == {200}


async def aggregate(pair: AggregatorPair) -> None:
    """Jobs, and the release of the batch."""
    await pair.work()
    await pair.end_interval()
    assert pair.opened(await pair.collect()).report_count == REPORTS


@pytest.mark.parametrize("name", KINDS)
async def test_every_report_takes_the_fast_paths_from_the_relay_to_the_release(name: str, tmp_path: Path) -> None:
    kit, reports = kit_of(name)
    write_secret(tmp_path / "leader.token", GATEWAY_TOKEN.encode())
    origin = kit.task.configuration.leader_aggregator_endpoint
    rule = {"origin": origin, "path_prefix": "/tasks/", "bearer": str(tmp_path / "leader.token"), "frames": True}
    pair = both_aggregators(kit, tmp_path / "pair")
    for settings in pair.settings.values():
        settings["batch_crypto"] = True
    async with starting(tmp_path) as start, pair:
        gateway = await start(targets=[rule], batch_crypto=True)
        gateway.deps = ServiceEnv(gateway.clock, entropy, pair.network, gateway.observed, background=False)
        await gateway.restart()
        await relay_to(gateway, tmp_path)
        both = 2 * REPORTS
        with require_counts(
            RELAYED=REPORTS,
            FORWARDED=REPORTS,
            UPLOADS=REPORTS,
            REPORTS=REPORTS,
            JOBS=REPORTS,
            PLAINTEXTS=both,
            ANSWERS=REPORTS,
            VERIFIED=both,
            AGGREGATED=both,
            TOKENS=both,
            OPENED=REPORTS + both,
            REQUESTS=REPORTS + 2,  # the devices' to the relay, and a frame each to gateway and leader
        ):
            await contribute(gateway, kit, reports)
            await aggregate(pair)


async def test_postgresql_stores_reports_in_one_statement_and_takes_outcomes_by_copy(
    tmp_path: Path, make_postgres_url: MakeDatabase
) -> None:
    kit, reports = kit_of("histogram")
    databases = {Role.LEADER: make_postgres_url(LeaderStore), Role.HELPER: make_postgres_url(HelperStore)}
    async with both_aggregators(kit, tmp_path, databases=databases) as pair:
        with require_counts(STORED=REPORTS, COPIED=2 * REPORTS + 1):  # the outcomes of both, and the leader's job
            assert (await pair.post_reports(b"".join(reports))).status == 200
            await aggregate(pair)


@pytest.mark.parametrize("name", KINDS)
def test_a_device_shards_with_the_kernels(name: str) -> None:
    vdaf, draw = INSTANCES[name]
    with require_counts(SHARDED=1):
        BatchProver(vdaf, b"context", alone=True).shard(
            [draw(random.Random(1))], [bytes(vdaf.NONCE_SIZE)], [bytes(range(32)) * (vdaf.RAND_SIZE // 32)]
        )


def test_a_simulated_fleet_seals_in_batches() -> None:
    task = make_task_kit().task
    config = task.hpke_config(Role.LEADER)
    sealer = BatchSealer(config.public_key, hpke.Suite(config.kem_id, config.kdf_id, config.aead_id), b"info")
    with require_counts(SEALED=REPORTS):
        sealer.seal_all([(b"aad", b"plaintext")] * REPORTS, entropy)


def test_documents_of_the_log_are_written_and_read_by_the_interpreter_s_own_code() -> None:
    body = RecipeKit().recipe().body()
    with require_counts(CANONICAL=2):
        assert parse_canonical(canonical_bytes(body), "recipe") == body
