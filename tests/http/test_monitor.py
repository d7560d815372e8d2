"""A monitor reads a whole log and says in words what should not be in it."""

from __future__ import annotations

import json
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.base.log_watch import LogReport, Place, Watch
from infra.commands.log_service import Monitor, create_app
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, KEY_PERIOD, KEY_ROTATION, NOW
from tacit.adapters.disk.folder import FolderTransport, SavingTransport
from tacit.codec import b64url
from tacit.errors import Refusal, UsageError
from tacit.logview.whole import Tick, WholeState
from tacit.monitor.audit import DAY
from tacit.monitor.findings import Finding
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, Policy, WitnessLimit
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.tlog.checkpoint import NoteSignature
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tests.http.witness_world import KIT, LOG_URL, LyingLog, Stage, hostile_leaves

RECIPE = KIT.recipe(start=NOW // 60 * 60 + 3600)
START = [KIT.directory_leaf(EPOCH), KIT.ohttp_leaf(), KIT.recipe_leaf(RECIPE)]
OPT_INS = [KIT.opt_in_leaf(RECIPE, role) for role in ("leader", "helper")]


@contextmanager
def no_bar(_name: str, _total: int) -> Iterator[Tick]:
    yield lambda _pieces: None


class World(Stage):
    """A log, and a monitor of it that remembers in a file."""

    log: LyingLog
    policy: Policy = KIT.policy

    async def show(self, *entries: SignedLeaf | bytes) -> LyingLog:
        self.log = LyingLog(entries)
        await self.serve(self.log)
        return self.log

    def watch(self, kept: str | None = "monitor.json") -> Watch:
        place = Place(LOG_URL, KIT.log_policy.log_key, self.policy)
        return Watch(place, self.network, self.clock, None if kept is None else self.folder / kept)

    async def look(self) -> LogReport:
        return await self.watch().look(no_bar)

    async def found(self) -> list[tuple[str, int | None]]:
        return [(one.kind, one.index) for one in (await self.look()).findings]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    running = World(tmp_path)
    yield running
    await running.network.close()


def spoiled(leaf: SignedLeaf) -> SignedLeaf:
    return replace(leaf, signature=bytes(64))


async def test_nothing_is_found_in_an_honest_log_and_what_was_seen_is_kept_to_oneself(world: World) -> None:
    await world.show(*START, *OPT_INS)
    report = await world.look()
    assert report.findings == []
    assert (report.size, report.recipes) == (5, 1)
    kept = world.folder / "monitor.json"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert WholeState.decode(kept.read_bytes()).sightings == ((5, NOW),)
    again = await world.look()
    assert "it extends the 5 entries seen before" in again.passed


async def test_single_leaves_that_should_not_be_there_are_named(world: World) -> None:
    newer = json.loads(START[0].encode()) | {"type": "telepathy"}
    await world.show(
        *START,
        spoiled(KIT.directory_leaf(EPOCH + 1)),
        b"{}",
        json.dumps(newer, separators=(",", ":"), sort_keys=True).encode(),
        KIT.directory_leaf(EPOCH, slots=3),
        KIT.recipe_leaf(KIT.recipe(name="another")),
        sign_leaf(LeafType.OPT_IN, KIT.opt_in(RECIPE, "leader"), "stranger.example", KIT.keys["analyst"]),
    )
    assert await world.found() == [
        ("leaf-signature", 3),
        ("leaf-malformed", 4),
        ("leaf-unknown", 5),
        ("second-leaf", 6),
        ("second-leaf", 7),
        ("leaf-signer", 8),
    ]
    verified = await world.watch(None).verify(no_bar)
    assert [one.index for one in verified.findings] == [3, 4, 5, 6, 7, 8]


async def test_no_leaf_stops_the_monitor(world: World) -> None:
    """Signed by whoever it says, and nothing like what its type says."""
    hostile = hostile_leaves()
    await world.show(*START, *hostile)
    found = await world.found()
    assert [index for _, index in found] == list(range(3, 3 + len(hostile)))
    assert {kind for kind, _ in found} == {"leaf-signer", "leaf-malformed"}
    world.policy = Policy()  # which names nobody: keys are those that the recipes name
    log = await world.show(KIT.recipe_leaf(RECIPE), *OPT_INS, KIT.directory_leaf(EPOCH), *hostile)
    assert {one.index for one in (await world.watch(None).look(no_bar)).findings} == {*range(4, 4 + len(hostile))}
    assert log.tree.size == 4 + len(hostile)


async def test_keys_that_nobody_pins_are_those_that_a_recipe_names_wherever_it_stands(world: World) -> None:
    world.policy = Policy()
    filling = [b"entry %d" % number for number in range(300)]
    log = await world.show(*START[:2], *filling)
    early = [one for one in (await world.watch(None).look(no_bar)).findings if one.kind != "leaf-malformed"]
    assert [(one.kind, one.index) for one in early] == [("leaf-signer", 0), ("leaf-signer", 1)]
    assert early[0].what == "issuer-directory of issuer.example, whose key is named by no recipe or policy"
    log.add(START[2])
    assert {one.kind for one in (await world.watch(None).look(no_bar)).findings} == {"leaf-malformed"}


async def test_an_understated_claim_that_a_log_admitted_is_recomputed(world: World) -> None:
    body = RECIPE.body()
    body["privacy"]["epsilon"]["aggregator"] = "0.01"
    await world.show(*START[:2], KIT.recipe_leaf(Recipe.from_body(body)))
    (finding,) = (await world.look()).findings
    assert finding.kind == "recipe"
    assert "doctor-visits: claim-understated: " in finding.what


async def test_an_account_that_the_log_overdraws_is_found(world: World) -> None:
    epsilon = RECIPE.privacy.epsilon["aggregator"]
    limit = AccountLimit(epsilon=epsilon, delta="0.00001", window_seconds=DAY)
    world.policy = KIT.policy.model_copy(update={"accounts": {RECIPE.privacy.account: limit}})
    log = await world.show(*START, *OPT_INS)
    assert await world.found() == []
    log.add(KIT.recipe_leaf(KIT.recipe(slot=1, name="one-more", start=RECIPE.interval.start)))
    (finding,) = (await world.look()).findings
    assert finding.kind == "ledger"
    assert finding.what.startswith(f"account {RECIPE.privacy.account}: epsilon ")


async def test_leaves_that_an_earlier_look_missed_are_late(world: World) -> None:
    late = KIT.directory_leaf(EPOCH + 1)
    log = await world.show(*START)
    assert await world.found() == []
    await world.clock.advance(RECIPE.interval.start - NOW + 1)
    log.add(OPT_INS[0])  # it may have come in time: nobody looked since
    assert await world.found() == []
    log.add(OPT_INS[1], late)
    assert await world.found() == [("late", 4), ("late", 5)]
    text = next(one.what for one in (await world.look()).findings if one.index == 4)
    assert text.startswith(f"the helper's opt-in to doctor-visits was due before {RECIPE.interval.start}")


async def test_a_recipe_without_an_end_and_parties_without_keys_are_silent(world: World) -> None:
    log = await world.show(*START, *OPT_INS)
    assert await world.found() == []
    await world.clock.advance(32 * DAY)
    report = await world.look()
    assert [one.kind for one in report.findings] == ["silent"] * 3
    said = " | ".join(one.what for one in report.findings)
    assert "doctor-visits: ended 31 days ago" in said
    assert "issuer.example: no directory since" in said
    assert "gateway.example: no key set since" in said
    log.released.append(RECIPE.hash_text)
    assert not any("doctor-visits" in one.what for one in (await world.look()).findings)
    log.add(*(KIT.void_leaf(RECIPE, role) for role in ("leader", "helper")))
    kinds = {kind for kind, _ in await world.found()}
    assert "void-released" in kinds
    assert "late" in kinds


@pytest.mark.parametrize("size", [1, 3, 5])
async def test_a_log_that_changes_its_past_is_found_and_the_proof_kept(world: World, size: int) -> None:
    log = await world.show(*START)
    await world.look()
    fork = log.fork(1, b"{}", b"[]", b"1", b"2")
    fork = LyingLog(fork.tree.entries[:size])
    await world.serve(fork)
    report = await world.look()
    rule = "log-rollback" if size < 3 else "log-split-view"
    assert [one.kind for one in report.findings] == [rule]
    state = WholeState.decode((world.folder / "monitor.json").read_bytes())
    assert (state.size, state.root) == (3, log.tree.root())
    assert state.evidence == (b"" if size < 3 else fork.note())
    await world.serve(log)
    again = [one.kind for one in (await world.look()).findings]
    assert again == ([] if size < 3 else ["log-split-view"]), "a proof is not forgotten when the log is whole again"


@pytest.mark.parametrize("more", [0, 2])
async def test_a_second_history_is_seen_by_a_monitor_that_follows_even_if_it_is_shown_once(
    world: World, more: int
) -> None:
    log, watch = await world.show(*START), world.watch()
    assert (await watch.look(no_bar)).findings == []
    fork = log.fork(1, b"{}", b"[]", *(b"1", b"2")[:more])
    await world.serve(fork)
    assert [one.kind for one in (await watch.look(no_bar)).findings] == ["log-split-view"]
    assert WholeState.decode((world.folder / "monitor.json").read_bytes()).evidence == fork.note()
    await world.serve(log)
    note = log.note()
    log.tree = LyingLog([START[0], b"another", START[2]]).tree
    log.note = lambda *_: note  # type: ignore[method-assign]
    assert [one.kind for one in (await watch.look(no_bar)).findings] == ["log-inclusion"]
    assert WholeState.decode((world.folder / "monitor.json").read_bytes()).evidence == fork.note()


async def test_keys_of_later_periods_do_not_hide_that_those_of_this_one_are_missing(world: World) -> None:
    await world.show(*START, KIT.directory_leaf(EPOCH + 999), KIT.ohttp_leaf(KEY_PERIOD + 99))
    assert await world.found() == []
    await world.clock.advance(2 * max(KEY_ROTATION, EPOCH_SECONDS))
    said = " | ".join(one.what for one in (await world.look()).findings)
    assert f"issuer.example: no directory since that of epoch {EPOCH}" in said
    assert f"gateway.example: no key set since that of period {KEY_PERIOD}" in said


async def test_a_list_of_results_that_cannot_be_read_hides_no_other_finding(world: World) -> None:
    log = await world.show(*START, b"{}")
    for status, kinds in ((500, {"results", "leaf-malformed"}), (404, {"leaf-malformed"})):
        log.results_status = status
        assert {kind for kind, _ in await world.found()} == kinds


async def test_results_are_read_page_by_page_and_each_full_page_once(world: World) -> None:
    log = await world.show(*START, *OPT_INS)
    watch = world.watch()
    log.results_a_page, log.released = 2, [b64url(bytes([number]) * 32) for number in range(5)]
    assert (await watch.look(no_bar)).findings == []
    assert log.results_read == [0, 2, 4]
    log.released += log.released[:2]
    assert (await watch.look(no_bar)).findings == []
    assert log.results_read == [0, 2, 4, 4, 6]


async def test_pages_of_results_that_lead_nowhere_end(world: World) -> None:
    log = await world.show(*START, *OPT_INS)
    log.results_a_page, log.released = 0, ["x"]
    assert "lead nowhere" in (await world.look()).findings[0].what


async def test_an_issuer_that_joins_a_log_is_not_late(world: World) -> None:
    log = await world.show(START[1])
    assert await world.found() == []
    log.add(KIT.directory_leaf(EPOCH), KIT.directory_leaf(EPOCH + 1))
    assert await world.found() == []
    await world.clock.advance(EPOCH_SECONDS)
    assert [kind for kind, _ in await world.found() if kind == "late"] == []
    log.add(KIT.directory_leaf(EPOCH + 2))
    assert ("late", 3) in await world.found()


async def test_entries_that_do_not_lead_to_the_signed_root_are_found(world: World) -> None:
    log = await world.show(*START)
    note = log.note()
    log.tree = LyingLog([START[0], b"another", START[2]]).tree
    log.note = lambda *_: note  # type: ignore[method-assign]
    report = await world.watch().verify(no_bar)
    assert "log-inclusion" in [one.kind for one in report.findings]


async def test_a_tile_that_lies_is_found_by_verify(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.show(*(b"entry %d" % number for number in range(300)))
    monkeypatch.setattr("tests.http.witness_world.tile_bytes", lambda tile, _read: bytes(32 * tile.width))
    report = await world.watch(None).verify(no_bar)
    assert [one.what.split()[0] for one in report.findings if one.kind == "log-tile"] == [
        "tile/0/000",
        "tile/0/001.p/44",
        "tile/1/000.p/1",
    ]


async def test_missing_cosignatures_are_found_where_the_policy_demands_them(world: World) -> None:
    log = await world.show(*START)
    key = await world.start()
    limit = WitnessLimit(keys=(key.encode(),), k=1, max_age_seconds=60)
    world.policy = KIT.policy.model_copy(update={"witnesses": limit})
    report = await world.look()
    assert [one.kind for one in report.findings] == ["witnesses"]
    assert [one.age for one in report.witnesses] == [None]
    log.lines = (NoteSignature.parse((await world.ask(log.request(0))).body.decode().rstrip()),)
    await world.clock.advance(30)
    report = await world.look()
    assert (report.findings, [one.age for one in report.witnesses]) == ([], [30])


async def test_a_copy_of_a_log_is_read_like_the_log(world: World) -> None:
    log = await world.show(*START, *OPT_INS, *(b"entry %d" % number for number in range(300)))
    place = Place(LOG_URL, KIT.log_policy.log_key, KIT.policy)
    copy = world.folder / "copy"
    copy.mkdir()
    saving = SavingTransport(world.network, copy)
    first = await Watch(place, saving, world.clock, None).verify(no_bar)
    folder = replace(place, url="file://")
    again = await Watch(folder, FolderTransport(copy), world.clock, None).verify(no_bar)
    assert (again.root, again.findings) == (log.tree.root(), first.findings)
    judged = await Watch(folder, FolderTransport(copy), world.clock, None).look(no_bar)
    assert {one.kind for one in judged.findings} == {"leaf-malformed"}


async def test_the_state_of_another_log_is_not_taken_for_this_ones(world: World) -> None:
    await world.show(*START)
    (world.folder / "monitor.json").write_bytes(WholeState("other.example").encode())
    (world.folder / "monitor.json").chmod(0o600)
    with pytest.raises(Refusal, match=r"other\.example"):
        world.watch()
    (world.folder / "monitor.json").write_bytes(b"{}")
    with pytest.raises(UsageError, match="move it away"):
        world.watch()


async def test_as_a_service_it_says_each_finding_once_and_counts(world: World) -> None:
    log = await world.show(*START)
    told: list[Finding] = []
    deps = ServiceEnv(world.clock, SeededEntropy(3), world.network, background=False)
    monitor = Monitor(world.watch(), no_bar, told.append)
    app = create_app(monitor, deps, 60.0)
    await world.network.mount("https://monitor.example", app)

    async def page(path: str) -> Any:
        return (await world.network.request("GET", f"https://monitor.example{path}")).body.decode()

    (driver,) = app[DRIVERS]
    await driver.step()
    assert json.loads(await page("/healthz"))["status"] == "ok"
    log.add(KIT.directory_leaf(EPOCH, slots=2))
    for _ in range(3):
        await driver.step()
    assert [(one.kind, one.index) for one in told] == [("second-leaf", 3), ("late", 3)]
    metrics = await page("/metrics")
    assert "tacit_monitor_findings 2.0\n" in metrics
    assert 'tacit_monitor_findings_by_kind{kind="second-leaf"} 1.0\n' in metrics
    assert json.loads(await page("/healthz"))["trouble"] == "2 findings"
    await world.network.unmount(LOG_URL)
    await driver.step()
    assert 'tacit_monitor_looks_total{outcome="failed"} 1.0\n' in await page("/metrics")
    assert "cannot be read" in json.loads(await page("/healthz"))["trouble"]
    assert monitor.found
