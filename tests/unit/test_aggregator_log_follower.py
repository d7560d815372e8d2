"""How an aggregator follows the log: what it opts in to, what it refuses, and what it does not believe."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from infra.lab.kit.bundles import paged, signed_bundle
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import EPOCH, NOW, RecipeKit, changed
from services.leader.store import LeaderStore
from tacit.aggregator.config import LogConfig
from tacit.aggregator.credentials import Identity
from tacit.aggregator.keys import HpkeKey, PeerSecrets
from tacit.aggregator.log_follower import LogFollower
from tacit.aggregator.participant import AggregatorParticipant
from tacit.aggregator.parties import Parties
from tacit.aggregator.records import ACCEPTED, OutcomeRow, TaskRow, TaskState
from tacit.aggregator.store import SqlStore
from tacit.codec import b64url
from tacit.dap_errors import DapAbort, DapProblem
from tacit.errors import Fatal, Refusal
from tacit.logview.live import LiveLog
from tacit.logview.stored import stored_live
from tacit.messages import Role
from tacit.ports import HttpResponse, TransportError
from tacit.recipe.derive import task_id
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AggregatorPin, Policy, WitnessLimit
from tacit.service.app import ServiceEnv
from tacit.time_format import date_field
from tacit.tlog.checkpoint import COSIGNATURE, NoteKey
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.statements import OptIn

KIT = RecipeKit()
URL = "http://127.0.0.1:8090"


class Log:
    """A log that keeps every leaf, reached as a ``Transport``."""

    def __init__(self, *leaves: SignedLeaf) -> None:
        self.tree = MemoryTree()
        self.entries: list[bytes] = []
        self.posted: list[bytes] = []
        self.status = 201
        self.headers: dict[str, str] = {}
        self.answer = b"{}"
        self.now: Callable[[], float] = lambda: NOW
        self.key = KIT.keys["log"]
        for leaf in leaves:
            self.add(leaf)

    def add(self, leaf: SignedLeaf) -> None:
        self.entries.append(leaf.encode())
        self.tree.append(self.entries[-1])

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        parts = urlsplit(url)
        if method == "POST" and parts.path == "/v1/leaves":
            self.posted.append(body)
            return HttpResponse(self.status, self.headers, self.answer)
        found = paged(self.tree, signed_bundle(self.tree, 0, self.key), parts.path)
        date = {"date": date_field(int(self.now()))}
        return HttpResponse(404 if found is None else 200, date, found or b"")


def identity(role: Role = Role.LEADER, *peers: PeerSecrets) -> Identity:
    name = role.name.lower()
    return Identity(
        role,
        f"{name}.example",
        KIT.keys[name],
        (HpkeKey(KIT.hpke_config(role), KIT.key_pairs[role]),),
        peers or (PeerSecrets("seed-1", KIT.verify_key_seed, "token"),),
    )


def pins_of(recipe: Recipe) -> dict[str, AggregatorPin]:
    """Both aggregators of a recipe as a policy names them."""
    both = recipe.parties.servers().values()
    return {one.operator: AggregatorPin(url=one.url, signing_key=one.signing_key) for one in both}


class Subject:
    """A follower over a store and a log."""

    def __init__(
        self,
        store: SqlStore[Any],
        log: Log,
        who: Identity | None = None,
        policy: Policy = KIT.policy,
        *,
        coordinates: bool = True,
        void_after: float | None = None,
    ) -> None:
        self.store = store
        self.parties = Parties()
        self.clock = SimClock(float(NOW))
        log.now = self.clock.now
        deps = ServiceEnv(self.clock, SeededEntropy(1), log)
        config = LogConfig(url=URL, key=KIT.log_policy.log_key.encode())
        who = who or identity()
        options: dict[str, Any] = {"coordinates": coordinates, "void_after": void_after}
        self.follower = LogFollower(
            store, self.parties, AggregatorParticipant(who), config, policy, deps, 86_400.0, **options
        )

    async def rows(self) -> dict[bytes, TaskRow]:
        async with self.store.read() as tx:
            return {row.recipe_hash: row for row in await tx.tasks()}

    async def row(self, recipe: Recipe) -> TaskRow:
        return (await self.rows())[recipe.hash]


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[LeaderStore]:
    found = LeaderStore(f"sqlite+aiosqlite:///{tmp_path / 'leader.sqlite3'}")
    await found.open()
    yield found
    await found.close()


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return KIT.recipe()


async def serve(store: LeaderStore, recipe: Recipe) -> Log:
    """Follow a log until the recipe is active."""
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    subject = Subject(store, log)
    await subject.follower.step()
    for role in ("leader", "helper"):
        log.add(KIT.opt_in_leaf(recipe, role))
    await subject.follower.step()
    assert (await subject.row(recipe)).state is TaskState.ACTIVE
    return log


async def test_good_recipe_is_opted_in_to_and_served_once_both_did(store: LeaderStore, recipe: Recipe) -> None:
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    subject = Subject(store, log)
    assert await subject.follower.step() == 1
    (posted,) = log.posted
    assert SignedLeaf.decode(posted) == KIT.opt_in_leaf(recipe, "leader")
    assert subject.parties.active() == []
    log.add(SignedLeaf.decode(posted))
    await subject.follower.step()
    assert (await subject.row(recipe)).state is TaskState.OPTED_IN
    assert (await subject.row(recipe)).rule == "opt-in-missing"
    log.add(KIT.opt_in_leaf(recipe, "helper"))
    assert await subject.follower.step() == 1
    assert (await subject.row(recipe)).state is TaskState.ACTIVE
    (party,) = subject.parties.active()
    assert party.task.task_id == task_id(recipe)
    assert len(log.posted) == 1
    assert await subject.follower.step() == 0


async def test_nothing_is_opted_in_to_on_the_word_of_a_log_without_its_witnesses(
    store: LeaderStore, recipe: Recipe
) -> None:
    key = NoteKey("w.example", KIT.keys["issuer"].public, COSIGNATURE)
    limit = WitnessLimit(keys=(key.encode(),), k=1)
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    subject = Subject(store, log, policy=KIT.policy.model_copy(update={"witnesses": limit}))
    with pytest.raises(Refusal, match="0 recent cosignatures"):
        await subject.follower.step()
    assert (await subject.rows(), log.posted) == ({}, [])


async def test_opt_in_is_sent_until_the_log_shows_it(store: LeaderStore, recipe: Recipe) -> None:
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    log.status = 503
    subject = Subject(store, log)
    await subject.follower.step()
    await Subject(store, log).follower.step()
    assert len(log.posted) == 2
    assert len(set(log.posted)) == 1


async def test_active_tasks_survive_a_restart(store: LeaderStore, recipe: Recipe) -> None:
    await serve(store, recipe)
    again = Subject(store, Log())
    await again.follower.load()
    (party,) = again.parties.active()
    assert party.task.recipe_hash == recipe.hash
    assert len(party.verify_key) == 32
    lost = Subject(store, Log(), identity(Role.LEADER, PeerSecrets("seed-2", bytes(32), "token")))
    with pytest.raises(Fatal, match="missing"):
        await lost.follower.load()


async def test_a_process_that_does_not_lead_keeps_in_step_with_the_database(store: LeaderStore, recipe: Recipe) -> None:
    other = Subject(store, Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe)), coordinates=False)
    assert await other.follower.step() == 0
    assert (await other.rows(), other.parties.active()) == ({}, [])
    log = await serve(store, recipe)
    assert await other.follower.step() == 0
    (party,) = other.parties.active()
    assert party.task.recipe_hash == recipe.hash
    leading = Subject(store, log)
    await leading.follower.load()
    leading.clock.jump(recipe.interval.end - NOW + 86_400)
    await leading.follower.step()
    await other.follower.step()
    assert other.parties.active() == []


async def test_a_task_that_nobody_here_knows_is_looked_up_once_a_second_at_most(
    store: LeaderStore, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Subject(store, Log(), coordinates=False)
    own, looks = task_id(recipe), []
    load = other.follower.load

    async def counted() -> None:
        looks.append(other.clock.now())
        await load()

    monkeypatch.setattr(other.follower, "load", counted)
    for _ in range(3):
        with pytest.raises(DapAbort):
            await other.parties.demand(b64url(own))
    assert len(looks) == 1
    await serve(store, recipe)
    assert await other.parties.look_up(own) is None
    other.clock.jump(1.0)
    assert (await other.parties.demand(b64url(own))).task.task_id == own
    assert (await other.parties.demand(b64url(own))).task.recipe_hash == recipe.hash
    assert len(looks) == 2
    for malformed in ("", "AAAA", b64url(own) + "="):
        with pytest.raises(DapAbort) as refused:
            await other.parties.demand(malformed)
        assert refused.value.problem is DapProblem.UNRECOGNIZED_TASK
    assert len(looks) == 2


async def test_task_is_forgotten_when_its_retention_is_over(store: LeaderStore, recipe: Recipe) -> None:
    log = await serve(store, recipe)
    subject = Subject(store, log)
    await subject.follower.load()
    own = task_id(recipe)
    async with store.transaction() as tx:
        await tx.record(own, [OutcomeRow(bytes(16), bytes(32), ACCEPTED)])
        await tx.record(bytes(32), [OutcomeRow(bytes(16), b"\x01" * 32, ACCEPTED)])
        await tx.count_rejections(own, {"proof": 1})
    subject.clock.jump(recipe.interval.end - NOW + 86_399)
    assert await subject.follower.step() == 0
    subject.clock.jump(1)
    assert await subject.follower.step() == 1
    assert subject.parties.active() == []
    assert (await subject.row(recipe)).state is TaskState.ENDED
    async with store.read() as tx:
        assert await tx.rejections(own) == {}
        left = await tx.connection.exec_driver_sql("select task_id from outcomes")
        assert [row[0] for row in left] == [bytes(32)]
    again = Subject(store, log)
    await again.follower.load()
    await again.follower.step()
    assert again.parties.active() == []


async def test_a_log_that_is_read_again_from_the_start_opens_no_task_that_has_ended(
    store: LeaderStore, recipe: Recipe
) -> None:
    log = await serve(store, recipe)
    ending = Subject(store, log)
    await ending.follower.load()
    before = ending.clock.now()
    ending.clock.jump(recipe.interval.end - NOW + 86_400)
    await ending.follower.step()
    async with store.transaction() as tx:
        await tx.connection.exec_driver_sql("delete from log_state")
        await tx.connection.exec_driver_sql("delete from leaves")
    for clock in (before, before + 2 * 86_400):
        again = Subject(store, log)
        again.clock.jump(clock - again.clock.now())
        await again.follower.load()
        await again.follower.step()
        assert again.parties.active() == []
        assert (await again.row(recipe)).state is TaskState.ENDED
    assert [SignedLeaf.decode(leaf).type for leaf in log.posted].count(LeafType.OPT_IN) == 1


async def test_whoever_decided_before_a_task_ended_opens_it_no_more(
    store: LeaderStore, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes believe to lead for a moment: one reads the task as opted in or due for its void leaf, and comes
    to write that when the other has ended the task."""
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    late = Subject(store, log, void_after=0.0)
    await late.follower.step()
    for role in ("leader", "helper"):
        log.add(KIT.opt_in_leaf(recipe, role))
    before = await late.row(recipe)
    async with store.transaction() as tx:
        await tx.put_task(dataclasses.replace(before, state=TaskState.ENDED))
    find = late.follower._reviewed_rows
    monkeypatch.setattr(
        late.follower, "_reviewed_rows", lambda live, _rows, closed: find(live, {before.recipe_hash: before}, closed)
    )
    await late.follower.step()
    late.clock.jump(recipe.interval.end - NOW)
    await late.follower._voids.step(await live_of(late), [before])
    assert (await late.row(recipe)).state is TaskState.ENDED
    assert (await late.row(recipe)).void == b""
    assert late.parties.active() == []
    async with store.read() as tx:
        assert not (await tx.connection.exec_driver_sql("select * from releases")).all()


async def test_whoever_decided_on_what_another_process_has_changed_meanwhile_looks_again(
    store: LeaderStore, recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    late, other = Subject(store, log), Subject(store, log)
    find, loop = late.follower._reviewed_rows, asyncio.get_running_loop()

    def slowly(live: LiveLog, rows: Mapping[bytes, TaskRow], closed: int) -> list[TaskRow]:
        monkeypatch.setattr(late.follower, "_reviewed_rows", find)
        asyncio.run_coroutine_threadsafe(other.follower.step(), loop).result()
        for role in ("leader", "helper"):
            log.add(KIT.opt_in_leaf(recipe, role))
        asyncio.run_coroutine_threadsafe(other.follower.step(), loop).result()
        return find(live, rows, closed)

    monkeypatch.setattr(late.follower, "_reviewed_rows", slowly)
    await late.follower.step()
    assert (await late.row(recipe)).state is TaskState.ACTIVE
    await late.follower.step()
    assert len(late.parties.active()) == len(other.parties.active()) == 1


async def live_of(subject: Subject) -> LiveLog:
    async with subject.store.read() as tx:
        return await stored_live(tx)


async def test_recipe_whose_records_were_lost_is_refused(tmp_path: Path, store: LeaderStore, recipe: Recipe) -> None:
    log = await serve(store, recipe)
    empty = LeaderStore(f"sqlite+aiosqlite:///{tmp_path / 'new.sqlite3'}")
    await empty.open()
    try:
        subject = Subject(empty, log)
        await subject.follower.step()
        row = await subject.row(recipe)
        assert (row.state, row.rule) == (TaskState.REFUSED, "own-records-lost")
        assert subject.parties.active() == []
    finally:
        await empty.close()


@pytest.mark.parametrize(
    ("rule", "path", "value"),
    [
        ("claim-understated", "privacy.epsilon.aggregator", "0.1"),
        ("batch-floor", "batch.min_batch_size", 50),
        ("operators-equal", "parties.attester.operator", "issuer.example"),
        ("own-signing-key", "parties.leader.signing_key", b64url(RecipeKit(2).keys["helper"].public)),
    ],
)
async def test_bad_recipe_is_refused_with_its_rule(
    store: LeaderStore, recipe: Recipe, rule: str, path: str, value: Any
) -> None:
    bad = changed(recipe, path, value)
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(bad))
    subject = Subject(store, log, policy=KIT.policy.model_copy(update={"aggregators": pins_of(bad)}))
    await subject.follower.step()
    row = await subject.row(bad)
    assert (row.state, row.rule) == (TaskState.REFUSED, rule)
    assert row.detail
    assert log.posted == []


async def test_leader_with_pins_serves_no_helper_to_which_its_credential_must_not_go(
    store: LeaderStore, recipe: Recipe
) -> None:
    """An opt-in proves no verify key: a stranger copies the leader's confirmation. Only the pin keeps it out."""
    stranger = changed(recipe, "parties.helper.url", "https://stranger.example")
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(stranger))
    subject = Subject(store, log)
    await subject.follower.step()
    row = await subject.row(stranger)
    assert (row.state, row.rule) == (TaskState.REFUSED, "aggregator-unknown")
    assert (log.posted, subject.parties.active()) == ([], [])


async def test_a_task_taken_up_before_gets_no_credential_once_its_helper_is_not_named_any_more(
    store: LeaderStore, recipe: Recipe
) -> None:
    """Its row is active in the database; the leader would send its credential to the address in that row."""
    log = await serve(store, recipe)
    elsewhere = pins_of(changed(recipe, "parties.helper.url", "https://elsewhere.example"))
    for pins, served in ((pins_of(recipe), 1), (elsewhere, 0), ({}, 0)):
        again = Subject(store, log, policy=KIT.policy.model_copy(update={"aggregators": pins}))
        await again.follower.load()
        await again.follower.step()
        assert len(again.parties.active()) == served


async def test_recipe_sealed_to_a_key_that_we_do_not_hold_is_refused(store: LeaderStore, recipe: Recipe) -> None:
    own = identity()
    other = RecipeKit(5).key_pairs[Role.LEADER]
    stranger = dataclasses.replace(own, hpke_keys=(HpkeKey(KIT.hpke_config(Role.HELPER), other),))
    subject = Subject(store, Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe)), stranger)
    await subject.follower.step()
    assert (await subject.row(recipe)).rule == "own-hpke-key"


async def test_second_recipe_for_a_slot_is_refused(store: LeaderStore, recipe: Recipe) -> None:
    second = changed(recipe, "name", "another-question")
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe), KIT.recipe_leaf(second))
    subject = Subject(store, log)
    await subject.follower.step()
    assert (await subject.row(recipe)).state is TaskState.OPTED_IN
    assert (await subject.row(second)).rule == "slot-taken"


async def test_recipe_waits_for_the_directory_of_its_slot(store: LeaderStore, recipe: Recipe) -> None:
    log = Log(KIT.recipe_leaf(recipe))
    subject = Subject(store, log)
    await subject.follower.step()
    assert (await subject.row(recipe)).state is TaskState.WAITING
    log.add(KIT.directory_leaf(EPOCH + 1))
    await subject.follower.step()
    assert (await subject.row(recipe)).rule == "slot-key-missing"
    log.add(KIT.directory_leaf())
    await subject.follower.step()
    assert (await subject.row(recipe)).state is TaskState.OPTED_IN


async def test_recipes_of_other_aggregators_are_left_alone(store: LeaderStore, recipe: Recipe) -> None:
    other = changed(recipe, "parties.leader.operator", "someone.example")
    subject = Subject(store, Log(KIT.directory_leaf(), KIT.recipe_leaf(other)))
    await subject.follower.step()
    assert await subject.rows() == {}


async def test_unequal_verify_keys_never_serve(store: LeaderStore, recipe: Recipe) -> None:
    body = KIT.opt_in(recipe, "helper").model_copy(
        update={"verify_key_confirmation": KIT.opt_in(recipe, "helper").task_id}
    )
    wrong = sign_leaf(LeafType.OPT_IN, body, "helper.example", KIT.keys["helper"])
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    subject = Subject(store, log)
    await subject.follower.step()
    log.add(KIT.opt_in_leaf(recipe, "leader"))
    log.add(wrong)
    await subject.follower.step()
    row = await subject.row(recipe)
    assert (row.state, row.rule) == (TaskState.OPTED_IN, "opt-in-mismatch")
    assert subject.parties.active() == []


async def test_peer_that_was_first_chooses_among_the_seeds_that_we_hold(store: LeaderStore, recipe: Recipe) -> None:
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe), KIT.opt_in_leaf(recipe, "helper"))
    current = PeerSecrets("seed-2", bytes(32), "token")
    old = PeerSecrets("seed-1", KIT.verify_key_seed, "token")
    subject = Subject(store, log, identity(Role.LEADER, current, old))
    await subject.follower.step()
    assert SignedLeaf.decode(log.posted[0]).body_as(OptIn).seed_id == "seed-1"


async def test_helper_follows_the_log_in_the_same_way(store: LeaderStore, recipe: Recipe) -> None:
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe), KIT.opt_in_leaf(recipe, "leader"))
    subject = Subject(store, log, identity(Role.HELPER))
    await subject.follower.step()
    assert SignedLeaf.decode(log.posted[0]) == KIT.opt_in_leaf(recipe, "helper")
    log.add(KIT.opt_in_leaf(recipe, "helper"))
    await subject.follower.step()
    assert subject.parties.active()[0].role is Role.HELPER


async def test_log_that_rolls_back_or_splits_is_not_believed_again(store: LeaderStore, recipe: Recipe) -> None:
    await Subject(store, Log(KIT.directory_leaf(), KIT.ohttp_leaf())).follower.step()
    with pytest.raises(Refusal, match="log-rollback"):
        await Subject(store, Log(KIT.directory_leaf())).follower.step()
    split = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    for _ in range(2):
        with pytest.raises(Refusal, match="log-split-view"):
            await Subject(store, split).follower.step()
    assert await Subject(store, split).rows() == {}


async def test_log_with_another_key_is_not_believed(store: LeaderStore, recipe: Recipe) -> None:
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    log.key = KIT.keys["analyst"]
    with pytest.raises(Refusal, match="log-checkpoint"):
        await Subject(store, log).follower.step()


async def test_log_that_does_not_answer_is_asked_again_later(store: LeaderStore) -> None:
    class Down(Log):
        async def request(
            self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
        ) -> HttpResponse:
            return HttpResponse(503, {}, b"")

    with pytest.raises(TransportError, match="503"):
        await Subject(store, Down()).follower.step()
