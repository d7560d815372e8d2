"""A witness cosigns one history of a log, and only one that holds nothing twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infra.lab.kit.recipes import NOW
from services.witness.handlers import WITNESS
from tacit.adapters.databases.recovery import Recovery
from tacit.codec import b64url
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.logview.view import LogView
from tacit.ports import HttpResponse
from tacit.service.app import METRICS
from tacit.service.base.vouched import VouchedTime
from tacit.tlog.canonical import canonical_bytes
from tacit.tlog.checkpoint import LogPolicy, Note, NoteKey, NoteSignature
from tacit.tlog.cosignature import Quorum, cosigned_at
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.merkle import prove_consistency
from tacit.tlog.witnessing import AddCheckpoint
from tests.http.witness_world import KIT, LyingLog, Stage, hostile_leaves, url_of

RECIPE = KIT.recipe_leaf(KIT.recipe(slot=1))
OTHER_RECIPE = KIT.recipe_leaf(KIT.recipe(slot=1, name="another"))
DIRECTORY = KIT.directory_leaf()


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    running = Stage(tmp_path)
    yield running
    await running.network.close()


def line_of(answer: HttpResponse) -> NoteSignature:
    assert answer.status == 200, answer.body
    return NoteSignature.parse(answer.body.decode().rstrip("\n"))


def rule_of(answer: HttpResponse) -> str:
    assert answer.status == 422, answer.body
    return str(json.loads(answer.body)["type"]).rpartition(":")[2]


def reader(stage: Stage, *keys: NoteKey, k: int = 1) -> LogView:
    quorum = Quorum(keys, k, 3600, stage.clock.now)
    return LogView(LogPolicy(KIT.log_policy.log_key, quorum))


def with_line(note: bytes, *lines: NoteSignature) -> bytes:
    parsed = Note.decode(note)
    return Note(parsed.text, (*parsed.signatures, *lines)).encode()


async def test_a_log_that_shows_two_devices_two_histories_gets_one_of_them_cosigned(stage: Stage) -> None:
    log = LyingLog([DIRECTORY, RECIPE])
    fork = log.fork(1, KIT.recipe_leaf(KIT.recipe(slot=2)))
    for shown in (log, fork):  # without witnesses each device believes what it is shown
        LogView(KIT.log_policy).advance(shown.note(), ())

    await stage.serve(log)
    key = await stage.start()
    line = line_of(await stage.ask(log.request(0)))
    assert cosigned_at(Note.decode(log.note()).text, line, key) == NOW
    reader(stage, key).advance(with_line(log.note(), line), ())

    await stage.serve(fork)
    refused = await stage.ask(fork.request(2, 2))
    assert (refused.status, refused.headers["content-type"], refused.body) == (409, "text/x.tlog.size", b"2\n")
    fork.add(b"more")
    await stage.serve(fork)
    proof = tuple(prove_consistency(fork.tree.read, 2, 3))
    assert rule_of(await stage.ask(AddCheckpoint(2, proof, fork.note()).encode())) == "log-consistency"
    assert (await stage.ask(fork.request(0))).status == 409
    for note in (fork.note(), with_line(fork.note(), line)):
        with pytest.raises(Refusal, match="cosignature"):
            reader(stage, key).advance(note, ())


@pytest.mark.parametrize(
    "pair",
    [
        (RECIPE, OTHER_RECIPE),
        (DIRECTORY, KIT.directory_leaf(slots=3)),
        (KIT.opt_in_leaf(KIT.recipe(), "leader"), KIT.opt_in_leaf(KIT.recipe(), "leader")),
    ],
    ids=["slot", "directory", "opt-in"],
)
@pytest.mark.parametrize("together", [True, False])
async def test_a_log_that_holds_something_twice_is_not_cosigned(
    stage: Stage, pair: tuple[SignedLeaf, SignedLeaf], together: bool
) -> None:
    log = LyingLog([pair[0]])
    await stage.serve(log)
    await stage.start()
    if not together:
        line_of(await stage.ask(log.request(0)))
    log.add(b"{}", pair[1])
    answer = await stage.ask(log.request(0 if together else 1))
    assert rule_of(answer) == "log-twice"
    assert json.loads(answer.body)["detail"].startswith("leaf 2 takes what leaf 0 holds")
    again = await stage.ask(log.request(0 if together else 1))
    assert rule_of(again) == "log-twice"


async def test_a_leaf_of_a_later_version_takes_its_place_too(stage: Stage) -> None:
    later = {**json.loads(KIT.directory_leaf(slots=3).encode()), "version": 2}
    log = LyingLog([DIRECTORY])
    await stage.serve(log)
    await stage.start()
    line_of(await stage.ask(log.request(0)))
    log.add(canonical_bytes(later))
    assert rule_of(await stage.ask(log.request(1))) == "log-twice"


async def test_two_key_sets_of_one_period_are_evidence(stage: Stage) -> None:
    def key_set(period: int, active: bytes) -> bytes:
        body = {"gateway": "gateway.example", "period": period, "active": b64url(active)}
        return sign_leaf(LeafType.OHTTP_CONFIG, body, "gateway.example", KIT.keys["gateway"]).encode()

    log = LyingLog([key_set(7, b"one"), key_set(8, b"two")])
    await stage.serve(log)
    await stage.start()
    line_of(await stage.ask(log.request(0)))
    log.add(key_set(8, b"three"))
    assert rule_of(await stage.ask(log.request(2))) == "log-twice"


async def test_a_round_of_a_series_has_one_recipe(stage: Stage) -> None:
    series = KIT.series()
    first, second = KIT.round(series, 0), KIT.round(series, 1)
    body = second.body() | {"series": first.body()["series"]}
    log = LyingLog([KIT.series_leaf(series), KIT.recipe_leaf(first), KIT.recipe_leaf(second)])
    await stage.serve(log)
    await stage.start()
    line_of(await stage.ask(log.request(0)))
    log.add(sign_leaf(LeafType.RECIPE, body, "analyst.example", KIT.keys["analyst"]))
    assert rule_of(await stage.ask(log.request(3))) == "log-twice"


async def test_of_two_forks_asked_for_at_once_one_is_cosigned(stage: Stage) -> None:
    trunk = LyingLog([DIRECTORY])
    await stage.serve(trunk)
    await stage.start()
    line_of(await stage.ask(trunk.request(0)))
    forks = [trunk.fork(1, b"left"), trunk.fork(1, b"right")]
    for fork in forks:  # the log shows each fork's entries to the request that is about it
        await stage.serve(fork)
        answers = await asyncio.gather(*(stage.ask(one.request(1)) for one in forks))
        statuses = [answer.status for answer in answers]
        if fork is forks[0]:
            assert statuses[0] == 200
            assert statuses[1] in {409, 422}
    assert sorted(answer.status for answer in answers) == [409, 409]


async def test_what_was_cosigned_is_remembered_over_a_restart(stage: Stage) -> None:
    log = LyingLog([RECIPE])
    await stage.serve(log)
    key = await stage.start()
    line_of(await stage.ask(log.request(0)))
    await stage.start()
    assert (await stage.ask(log.fork(0, b"another").request(0))).body == b"1\n"
    log.add(OTHER_RECIPE)
    assert rule_of(await stage.ask(log.request(1))) == "log-twice"
    await stage.clock.advance(1000)
    text = Note.decode(log.note(1)).text
    assert cosigned_at(text, line_of(await stage.ask(log.request(1, 1))), key) == NOW + 1000


async def test_a_witness_with_an_older_database_cosigns_no_other_history(stage: Stage) -> None:
    log = LyingLog([DIRECTORY])
    await stage.serve(log)
    key = await stage.start()
    line_of(await stage.ask(log.request(0)))
    await stage.network.unmount("https://witness.example")
    database, mark = (stage.folder / "witness" / f"witness.{kind}" for kind in ("sqlite3", "mark"))
    backup, old_mark = database.read_bytes(), mark.read_bytes()
    await stage.start()
    log.add(RECIPE)
    log.lines = (line_of(await stage.ask(log.request(1))),)
    await stage.network.unmount("https://witness.example")
    newest = database.read_bytes(), mark.read_bytes()

    database.write_bytes(backup)
    with pytest.raises(UsageError, match="the database is older"):
        await stage.start()
    with pytest.raises(UsageError, match="new signing_key"):
        await stage.start(recovery=Recovery.ACCEPT)
    database.unlink()
    with pytest.raises(UsageError, match="--accept-rollback"):
        await stage.start()

    database.write_bytes(backup)
    mark.write_bytes(old_mark)  # the whole folder, and an honest log
    await stage.start()
    fork = log.fork(1, OTHER_RECIPE)
    fork.lines, fork.note = log.lines, log.note  # type: ignore[method-assign]
    await stage.serve(fork)
    honest = AddCheckpoint(1, tuple(prove_consistency(log.tree.read, 1, 2)), log.note()).encode()
    assert rule_of(await stage.ask(honest)) == "witness-forgot"

    for path, data in zip((database, mark), newest, strict=True):
        path.write_bytes(data)
    await stage.serve(log)
    assert await stage.start() == key
    line_of(await stage.ask(log.request(2, 2)))


async def test_a_witness_says_why_it_does_not_cosign(stage: Stage) -> None:
    log = LyingLog([DIRECTORY])
    await stage.serve(log)
    await stage.start()
    assert (await stage.ask(b"old x\n\n" + log.note())).status == 400
    assert (await stage.ask(b"nothing")).status == 400
    assert (await stage.ask(log.request(0)[:-5])).status == 400
    assert (await stage.ask(AddCheckpoint(0, (), log.note(key="issuer")).encode())).status == 403
    assert (await stage.ask(AddCheckpoint(0, (), log.note(origin="other.example")).encode())).status == 404
    assert (await stage.ask(AddCheckpoint(2, (), log.note()).encode())).status == 400
    assert (await stage.ask(b"x" * 100_000)).status == 413
    line_of(await stage.ask(log.request(0)))
    assert (await stage.ask(log.request(0))).body == b"1\n"


async def test_a_log_with_a_wrong_clock_is_not_cosigned_and_stops_no_other(stage: Stage) -> None:
    log = LyingLog([DIRECTORY])
    await stage.serve(log)
    await stage.start()
    times, readyz = stage.apps["witness"][WITNESS].times, f"{url_of('witness')}/readyz"
    (own,) = times
    times["another"] = VouchedTime(stage.clock)
    for known, ahead in enumerate((70 * 86_400, -70 * 86_400)):
        times["another"].hear("another log", stage.clock.now() + ahead)
        times[own].hear("its log", stage.clock.now())
        assert line_of(await stage.ask(log.request(known)))
        assert (await stage.network.request("GET", readyz)).status == 200
        times[own].hear("its log", stage.clock.now() + ahead)
        refused = await stage.ask(log.request(1))
        assert (refused.status, "retry-after" in refused.headers) == (503, True)
        answer = await stage.network.request("GET", readyz)
        assert (answer.status, b"this machine's clock says" in answer.body) == (503, True), "all logs contradict it"


async def test_a_log_that_hides_its_entries_is_not_cosigned(stage: Stage) -> None:
    log = LyingLog([DIRECTORY, RECIPE])
    await stage.start()
    await stage.serve(LyingLog())
    assert (await stage.ask(log.request(0))).status == 502
    await stage.serve(log.fork(1, b"something else"))
    assert rule_of(await stage.ask(log.request(0))) == "log-entries"
    await stage.serve(log)
    line_of(await stage.ask(log.request(0)))


async def test_no_leaf_stops_a_witness(stage: Stage) -> None:
    log = LyingLog([DIRECTORY, *hostile_leaves(), RECIPE])
    await stage.serve(log)
    await stage.start()
    line_of(await stage.ask(log.request(0)))
    log.add(OTHER_RECIPE)
    assert rule_of(await stage.ask(log.request(log.tree.size - 1))) == "log-twice"


async def test_long_logs_are_read_in_steps_across_tiles(stage: Stage) -> None:
    log = LyingLog([b"entry %d" % number for number in range(700)])
    await stage.serve(log)
    await stage.start(max_step=400)
    assert rule_of(await stage.ask(log.request(0))) == "witness-step"
    for old, size in ((0, 300), (300, 512), (512, 513), (513, 700)):
        line_of(await stage.ask(log.request(old, size)))
    assert (await stage.network.request("GET", "https://witness.example/metrics")).status == 404
    metrics = (await stage.apps["witness"][METRICS].page()).decode()
    assert "tacit_witness_cosigned_total 4.0\n" in metrics
    assert "tacit_witness_leaves_read_total 700.0\n" in metrics
    health = json.loads((await stage.network.request("GET", "https://witness.example/healthz")).body)
    assert health["status"] == "ok"


async def test_policies_want_fresh_lines_of_enough_different_witnesses(stage: Stage) -> None:
    log = LyingLog([DIRECTORY])
    await stage.serve(log)
    keys = [await stage.start(name) for name in ("first", "second", "third")]
    lines = [line_of(await stage.ask(log.request(0), name)) for name in ("first", "second", "third")]
    note = log.note()
    reader(stage, *keys, k=2).advance(with_line(note, lines[2], lines[0]), ())
    for too_few in ([], lines[:1], [lines[0], lines[0]]):
        with pytest.raises(Refusal, match="recent cosignatures"):
            reader(stage, *keys, k=2).advance(with_line(note, *too_few), ())
    await stage.clock.advance(3601)
    with pytest.raises(Refusal, match="0 recent cosignatures of witnesses \\(3 of any age\\)"):
        reader(stage, *keys, k=2).advance(with_line(note, *lines), ())
    fresh = [line_of(await stage.ask(log.request(1, 1), name)) for name in ("first", "second")]
    reader(stage, *keys, k=2).advance(with_line(note, *lines, *fresh), ())
    behind = Quorum(tuple(keys), 2, 3600, lambda: stage.clock.now() - 1000)
    with pytest.raises(
        Refusal, match=r"the log's newest checkpoint is of .*, this machine's clock says"
    ):  # to a clock far behind those lines would never grow old
        LogView(LogPolicy(KIT.log_policy.log_key, behind)).advance(with_line(note, *fresh), ())


async def test_half_of_the_witnesses_are_no_quorum(stage: Stage) -> None:
    keys = tuple([await stage.start(name) for name in ("first", "second")])
    with pytest.raises(DecodeError, match="more than half"):
        Quorum(keys, 1, 3600, stage.clock.now)
    with pytest.raises(DecodeError, match="the same name or the same key"):
        Quorum((keys[0], keys[0]), 2, 3600, stage.clock.now)
