"""An aggregator publishes what it released of a census: only that, signed, and until the log has it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from infra.lab.kit.recipes import CENSUS_ATTRIBUTES, RecipeKit
from services.helper.store import HelperStore
from tacit.aggregator.own_leaves import PAUSES
from tacit.codec import b64url, unb64url
from tacit.messages import Role
from tacit.recipe.derive import task_id, vdaf_of
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.statements import CensusShare
from tests.unit.test_aggregator_log_follower import Log, Subject, identity

KIT = RecipeKit()
POLICY = KIT.policy.model_copy(update={"attributes": dict(CENSUS_ATTRIBUTES)})
CENSUS = KIT.census()
SHARE = vdaf_of(CENSUS).encode_agg_share([1, 2, 3, 4, 5, 6])


@pytest.fixture
async def store() -> AsyncIterator[HelperStore]:
    found = HelperStore("sqlite+aiosqlite:///:memory:")
    await found.open()
    yield found
    await found.close()


def census_log() -> Log:
    opt_ins = (KIT.opt_in_leaf(CENSUS, role) for role in ("leader", "helper"))
    return Log(KIT.directory_leaf(), KIT.recipe_leaf(CENSUS), *opt_ins)


async def serving(store: HelperStore, log: Log) -> Subject:
    """A helper that serves the census, its opt-in in the log since."""
    own = log.entries.pop()
    log.tree = type(log.tree)(log.entries)
    subject = Subject(store, log, identity(Role.HELPER), POLICY)
    await subject.follower.step()
    log.add(SignedLeaf.decode(own))
    await subject.follower.step()
    assert subject.parties.find(task_id(CENSUS)) is not None
    log.posted.clear()
    return subject


async def release(store: HelperStore) -> None:
    async with store.transaction() as tx:
        await tx.keep_census_share(task_id(CENSUS), 500, SHARE)


async def test_the_kept_share_is_signed_and_sent_until_the_log_shows_it(store: HelperStore) -> None:
    log = census_log()
    subject = await serving(store, log)
    await subject.follower.step()
    assert log.posted == []
    await release(store)
    for status in (503, 422, 201):
        log.status = status
        await subject.follower.step()
        subject.clock.jump(PAUSES.most)
    first, *others = log.posted
    assert others == [first, first], "the same bytes, also after a refusal that a clock may lift"
    leaf = SignedLeaf.decode(first)
    leaf.verify(KIT.keys["helper"].public)
    body = leaf.body_as(CensusShare)
    assert (leaf.type, leaf.signer, body.role) == (LeafType.CENSUS_SHARE, "helper.example", "helper")
    assert (body.recipe_hash, body.task_id) == (CENSUS.hash_text, b64url(task_id(CENSUS)))
    assert (body.report_count, unb64url(body.aggregate_share)) == (500, SHARE)
    await subject.follower.step()
    assert len(log.posted) == 3


async def test_a_share_that_the_log_shows_is_not_sent_again_by_the_next_start(store: HelperStore) -> None:
    log = census_log()
    subject = await serving(store, log)
    await release(store)
    await subject.follower.step()
    (sent,) = log.posted
    again = Subject(store, log, identity(Role.HELPER), POLICY)
    await again.follower.step()
    assert log.posted == [sent, sent], "the log had not shown it yet"
    log.add(SignedLeaf.decode(sent))
    last = Subject(store, log, identity(Role.HELPER), POLICY)
    await last.follower.step()
    assert len(log.posted) == 2


async def test_nobody_publishes_a_share_of_an_ordinary_recipe(store: HelperStore) -> None:
    log = census_log()
    subject = await serving(store, log)
    party = subject.parties.find(task_id(CENSUS))
    assert party is not None
    assert party.task.publishes_share
    ordinary = KIT.recipe(slot=1)
    log.add(KIT.recipe_leaf(ordinary))
    await subject.follower.step()
    log.add(KIT.opt_in_leaf(ordinary, "leader"))
    log.add(KIT.opt_in_leaf(ordinary, "helper"))
    await subject.follower.step()
    served = subject.parties.find(task_id(ordinary))
    assert served is not None
    assert not served.task.publishes_share
