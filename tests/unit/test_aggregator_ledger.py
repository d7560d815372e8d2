"""An aggregator's own account, and its void leaves: closed first, said afterwards, never of what was released."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from infra.lab.kit.recipes import NOW, with_sampling
from services.helper.store import HelperStore
from services.leader.store import LeaderStore
from tacit.aggregator.own_leaves import PAUSES, own_charges
from tacit.aggregator.records import TaskState
from tacit.ledger.account import ChargeState
from tacit.logview.live import LiveLog, charges_of
from tacit.messages import Role
from tacit.ports import HttpResponse, TransportError
from tacit.recipe.derive import task_id, task_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit, Policy
from tacit.task import Task
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.statements import Void
from tests.unit.test_aggregator_log_follower import KIT, Log, Subject, identity

GRACE = 3600.0
Store = LeaderStore | HelperStore
ROLES: dict[Role, type[LeaderStore] | type[HelperStore]] = {Role.LEADER: LeaderStore, Role.HELPER: HelperStore}


def policy(epsilon: str) -> Policy:
    limit = AccountLimit(epsilon=epsilon, delta="0.00001", window_seconds=86_400)
    return KIT.policy.model_copy(update={"accounts": {"default": limit}})


@pytest.fixture(params=list(ROLES), ids=["leader", "helper"])
async def party(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Role, Store]]:
    role: Role = request.param
    store = ROLES[role](f"sqlite+aiosqlite:///{tmp_path / 'store.sqlite3'}")
    await store.open()
    yield role, store
    await store.close()


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return KIT.recipe()


def subject(party: tuple[Role, Store], log: Log, rules: Policy = KIT.policy) -> Subject:
    role, store = party
    return Subject(store, log, identity(role), rules, void_after=GRACE)


async def serve(party: tuple[Role, Store], recipe: Recipe) -> tuple[Subject, Log]:
    """Follow a log until the recipe is active."""
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    found = subject(party, log)
    await found.follower.step()
    for role in ("leader", "helper"):
        log.add(KIT.opt_in_leaf(recipe, role))
    await found.follower.step()
    assert (await found.row(recipe)).state is TaskState.ACTIVE
    log.posted.clear()
    return found, log


def after_grace(recipe: Recipe) -> float:
    return recipe.interval.end - NOW + GRACE


def voids(log: Log) -> list[Void]:
    leaves = [SignedLeaf.decode(data) for data in log.posted]
    assert all(leaf.type is LeafType.VOID for leaf in leaves)
    return [leaf.body_as(Void) for leaf in leaves]


async def test_each_aggregator_refuses_a_recipe_over_its_own_budget(party: tuple[Role, Store], recipe: Recipe) -> None:
    second, third = KIT.recipe(name="second", slot=1), KIT.recipe(name="third", slot=2, epsilon="0.2")
    log = Log(KIT.directory_leaf(), *(KIT.recipe_leaf(one) for one in (recipe, second, third)))
    found = subject(party, log, policy("1.5"))
    await found.follower.step()
    rows = await found.rows()
    assert [rows[one.hash].state for one in (recipe, second, third)] == [
        TaskState.OPTED_IN,
        TaskState.REFUSED,
        TaskState.OPTED_IN,
    ]
    assert rows[second.hash].rule == "budget-spent"
    assert "at most epsilon 0.6" in rows[second.hash].detail
    for one in (recipe, third):
        for role in ("leader", "helper"):
            log.add(KIT.opt_in_leaf(one, role))
    await found.follower.step()
    rows = await found.rows()
    assert [rows[one.hash].state for one in (recipe, third)] == [TaskState.ACTIVE] * 2
    assert rows[second.hash].rule == "budget-spent"


async def test_a_recipe_that_the_peer_never_took_gives_the_budget_back(
    party: tuple[Role, Store], recipe: Recipe
) -> None:
    later = KIT.recipe(name="later", slot=1, start=recipe.interval.end)
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe), KIT.recipe_leaf(later))
    found = subject(party, log, policy("1"))
    await found.follower.step()
    assert (await found.row(later)).rule == "budget-spent"
    found.clock.jump(recipe.interval.end - NOW)
    log.add(KIT.ohttp_leaf())
    await found.follower.step()
    assert (await found.row(later)).state is TaskState.OPTED_IN


async def test_what_was_never_released_is_closed_for_good_and_then_said(
    party: tuple[Role, Store], recipe: Recipe
) -> None:
    found, log = await serve(party, recipe)
    role, store = party
    found.clock.jump(after_grace(recipe) - 1)
    await found.follower.step()
    assert log.posted == []
    found.clock.jump(1)
    await found.follower.step()
    (void,) = voids(log)
    name = role.name.lower()
    assert void == KIT.void_leaf(recipe, name).body_as(Void)
    assert log.posted == [KIT.void_leaf(recipe, name).encode()]
    async with store.read() as tx:
        assert await tx.is_released(task(recipe), None)
        assert await tx.release_count(task_id(recipe)) == 0
    await found.follower.step()
    assert len(log.posted) == 1
    for other in ("leader", "helper"):
        log.add(KIT.void_leaf(recipe, other))
    await found.follower.step()
    live = LiveLog.from_leaves(enumerate(map(SignedLeaf.decode, log.entries)))
    assert [charge.state for charge in charges_of(live, found.clock.now())] == [ChargeState.VOID]


def task(recipe: Recipe) -> Task:
    spki = KIT.directory().spki(recipe.token.slot)
    assert spki is not None
    return task_of(recipe, spki)


async def test_what_was_released_once_is_charged_for_ever(party: tuple[Role, Store], recipe: Recipe) -> None:
    found, log = await serve(party, recipe)
    async with party[1].transaction() as tx:
        await tx.release(task_id(recipe), b"batch")
    found.clock.jump(after_grace(recipe) + 40_000)
    await found.follower.step()
    found.clock.jump(86_400)
    await found.follower.step()
    assert (await found.row(recipe)).state is TaskState.ENDED
    assert (log.posted, (await found.row(recipe)).void) == ([], b"")
    async with party[1].transaction() as tx:
        assert await tx.release_count(task_id(recipe)) == 1, "kept when all else is forgotten"
        assert not await tx.close_unreleased(task_id(recipe))


async def test_a_crash_between_closing_and_saying_loses_nothing(party: tuple[Role, Store], recipe: Recipe) -> None:
    class Dead(Log):
        """A log that cannot be written to."""

        async def request(
            self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
        ) -> HttpResponse:
            if method == "POST":
                raise TransportError("the process ends here")
            return await super().request(method, url, headers=headers, body=body)

    _, log = await serve(party, recipe)
    dead = Dead(*(SignedLeaf.decode(entry) for entry in log.entries))
    crashed = subject(party, dead)
    await crashed.follower.load()
    crashed.clock.jump(after_grace(recipe))
    with pytest.raises(TransportError):
        await crashed.follower.step()
    async with party[1].read() as tx:
        assert await tx.is_released(task(recipe), None), "closed before anything is said"
    again = subject(party, log)
    await again.follower.load()
    again.clock.jump(after_grace(recipe) + 86_400)
    await again.follower.step()
    assert len(voids(log)) == 1
    assert (await again.row(recipe)).state is TaskState.ENDED
    once_more = subject(party, log)
    once_more.clock.jump(after_grace(recipe) + 90_000)
    await once_more.follower.step()
    assert len(set(log.posted)) == 1, "the same bytes, also after the task was forgotten"


async def test_a_log_that_is_down_is_told_later_and_one_that_refuses_is_not_pressed(
    party: tuple[Role, Store], recipe: Recipe
) -> None:
    found, log = await serve(party, recipe)
    found.clock.jump(after_grace(recipe))
    exists = b'{"type": "urn:tacit:refusal:void-exists"}'
    for status, posted, answer in (
        (503, 1, b""),
        (429, 2, exists),
        (404, 3, b"<html>"),
        (422, 4, exists),
        (422, 4, exists),
    ):
        log.status, log.answer = status, answer
        await found.follower.step()
        assert len(log.posted) == posted
        await found.follower.step()
        assert len(log.posted) == posted, "not at once"
        found.clock.jump(PAUSES.most)


@pytest.mark.parametrize("status", [429, 503])
async def test_a_log_that_asks_for_it_is_left_alone_for_so_long(
    party: tuple[Role, Store], recipe: Recipe, status: int
) -> None:
    found, log = await serve(party, recipe)
    found.clock.jump(after_grace(recipe))
    log.status, log.headers = status, {"retry-after": "600"}
    for seconds, posted in ((0, 1), (300, 1), (299, 1), (152, 2)):
        found.clock.jump(seconds)
        await found.follower.step()
        assert len(log.posted) == posted


async def test_without_an_opt_in_in_the_log_there_is_nothing_to_say(party: tuple[Role, Store], recipe: Recipe) -> None:
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    found = subject(party, log)
    log.status = 503
    await found.follower.step()
    log.posted.clear()
    found.clock.jump(after_grace(recipe))
    await found.follower.step()
    assert all(SignedLeaf.decode(data).type is LeafType.OPT_IN for data in log.posted)


async def test_a_void_leaf_of_the_peer_alone_changes_nothing(party: tuple[Role, Store], recipe: Recipe) -> None:
    found, log = await serve(party, recipe)
    peer = "helper" if party[0] is Role.LEADER else "leader"
    found.clock.jump(recipe.interval.end - NOW)
    log.add(KIT.void_leaf(recipe, peer))
    later = KIT.recipe(name="later", slot=1, start=recipe.interval.end)
    log.add(KIT.recipe_leaf(later))
    strict = subject(party, log, policy("1"))
    strict.clock.jump(recipe.interval.end - NOW)
    await strict.follower.step()
    assert (await strict.row(later)).rule == "budget-spent"
    await closed(strict, party, recipe)
    log.add(KIT.void_leaf(recipe, party[0].name.lower()))
    await strict.follower.step()
    assert (await strict.row(later)).state is TaskState.OPTED_IN


async def closed(found: Subject, party: tuple[Role, Store], recipe: Recipe) -> None:
    """The row of a task that the aggregator has closed without a release, before it says so."""
    row = replace(await found.row(recipe), void=KIT.void_leaf(recipe, party[0].name.lower()).encode())
    async with found.store.transaction() as tx:
        assert await tx.put_task(row)


async def voided(found: Subject, party: tuple[Role, Store], recipe: Recipe, log: Log) -> LiveLog:
    """The log in which both aggregators have opted in and closed the recipe without a release, as ours has read it."""
    await closed(found, party, recipe)
    for role in ("leader", "helper"):
        log.add(KIT.opt_in_leaf(recipe, role))
        log.add(KIT.void_leaf(recipe, role))
    await found.follower.step()
    return LiveLog.from_leaves(enumerate(map(SignedLeaf.decode, log.entries)))


async def test_an_aggregator_is_charged_once_for_a_series_and_waits_for_its_leaf(party: tuple[Role, Store]) -> None:
    series = KIT.series()
    rounds = [KIT.round(series, index) for index in range(2)]
    log = Log(KIT.directory_leaf(), *(KIT.recipe_leaf(one) for one in rounds))
    found = subject(party, log, policy(series.claim.epsilon["aggregator"]))
    await found.follower.step()
    rows = await found.rows()
    assert {(row.state, row.rule) for row in rows.values()} == {(TaskState.WAITING, "series-missing")}
    log.add(KIT.series_leaf(series))
    alone = KIT.recipe(name="alone", slot=3)
    log.add(KIT.recipe_leaf(alone))
    await found.follower.step()
    rows = await found.rows()
    assert [rows[one.hash].state for one in (*rounds, alone)] == [
        TaskState.OPTED_IN,
        TaskState.OPTED_IN,
        TaskState.REFUSED,
    ]
    assert rows[alone.hash].rule == "budget-spent"


async def test_an_aggregator_gives_nothing_back_where_answers_decide_who_sends(party: tuple[Role, Store]) -> None:
    crowd = KIT.recipe(population=20_000, epsilon=Decimal("0.6"))
    recipe = with_sampling(crowd, importance={"default": 0, "default_rate": "0.4"})
    log = Log(KIT.directory_leaf(), KIT.recipe_leaf(recipe))
    found = subject(party, log, policy("2"))
    await found.follower.step()
    live = await voided(found, party, recipe, log)
    (charge,) = own_charges(live, await found.rows(), found.clock.now())
    assert (charge.state, charge.counts) == (ChargeState.UNREFUNDED, True)


async def test_an_aggregator_refuses_every_round_of_a_series_over_its_budget(party: tuple[Role, Store]) -> None:
    series = KIT.series()
    log = Log(KIT.directory_leaf(), KIT.series_leaf(series), KIT.recipe_leaf(KIT.round(series)))
    one = series.probe.privacy.epsilon["aggregator"]
    found = subject(party, log, policy(one))
    await found.follower.step()
    row = await found.row(KIT.round(series))
    assert (row.state, row.rule) == (TaskState.REFUSED, "budget-spent"), "one round alone would fit"


async def test_a_series_is_void_for_an_aggregator_when_its_time_is_over_and_its_rounds_are(
    party: tuple[Role, Store],
) -> None:
    series = KIT.series()
    recipe = KIT.round(series)
    log = Log(KIT.directory_leaf(), KIT.series_leaf(series), KIT.recipe_leaf(recipe))
    found = subject(party, log, policy("1"))
    await found.follower.step()
    live = await voided(found, party, recipe, log)
    rows = await found.rows()
    during, after = (own_charges(live, rows, now) for now in (recipe.interval.end + 1, series.interval.end))
    assert [charge.state for charge in during] == [ChargeState.PENDING]
    assert [charge.state for charge in after] == [ChargeState.VOID]
    assert {charge.recipe_hash for charge in during} == {series.hash}
