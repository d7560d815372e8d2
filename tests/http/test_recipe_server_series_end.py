"""A series is ended by a leaf of its analyst or of the log's operator, which frees the slots and room
that it has not used."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW
from tacit.codec import b64url
from tacit.ledger.account import ChargeState
from tacit.logview.live import LiveLog, charges_of
from tacit.logview.signers import LeafSigners
from tacit.logview.view import LogView
from tacit.recipe.charges import series_charge
from tacit.recipe.policy import AccountLimit
from tacit.recipe.series import LOG_SIGNER, Ended
from tacit.rules.table import check
from tacit.service.base.secret_files import write_secret
from tacit.signing import SigningKey
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import SeriesEnd
from tests.http.test_recipe_server import COLLECTOR, Server
from tests.http.test_recipe_server_shares import (
    FIRST,
    KIT,
    OTHER,
    OTHER_KEY,
    SLOTS,
    asked,
    leaf_of,
    long_series,
    of_other,
    policy,
    reach,
    series_leaf,
    series_of_other,
)

LIMITS = {"default": AccountLimit(epsilon="2", delta="0.00001", window_seconds=366 * 86_400)}
ROLES: Sequence[Literal["analyst", "log"]] = ("analyst", "log")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start(policy=policy(FIRST, accounts=LIMITS))
    await running.publish(*(KIT.directory_leaf(EPOCH + ahead, SLOTS) for ahead in range(2)))
    yield running
    await running.network.close()


async def read(server: Server) -> LiveLog:
    signers = LeafSigners(KIT.policy, (), KIT.log_policy.log_key.public)
    return await server.read(LogView(KIT.log_policy), signers)


def end_leaf(series_hash: str, role: Literal["analyst", "log"], signer: str, key: SigningKey) -> SignedLeaf:
    return sign_leaf(LeafType.SERIES_END, SeriesEnd(series_hash=series_hash, role=role), signer, key)


@pytest.mark.parametrize("role", ROLES)
async def test_a_mistyped_number_of_rounds_no_longer_locks_its_author_out(
    server: Server, role: Literal["analyst", "log"]
) -> None:
    """Slots and account are free at once; the same series with fewer rounds takes the same slots."""
    mistyped = long_series(2_912, 8)
    await server.publish(series_leaf(mistyped))
    assert await server.refused(leaf_of(asked(EPOCH + 1, 0))) == "slot-taken"
    assert await server.refused(series_leaf(long_series(16, 8, name="meant"))) in {"budget-spent", "slot-taken"}
    await server.publish(KIT.series_end_leaf(mistyped, role))
    assert await server.refused(leaf_of(KIT.round(mistyped, 0))) == "series-ended"
    await server.publish(series_leaf(long_series(16, 8, name="meant")))


async def test_rounds_before_the_end_go_on_and_later_ones_are_refused_by_everybody(server: Server) -> None:
    series = long_series(400, 4)
    rounds = [KIT.round(series, index) for index in range(3)]
    await server.publish(series_leaf(series), leaf_of(rounds[0]))
    await server.publish(*(KIT.opt_in_leaf(rounds[0], role) for role in ("leader", "helper")))
    await server.publish(leaf_of(rounds[1]))
    (index,) = await server.publish(KIT.series_end_leaf(series))
    assert await server.refused(leaf_of(rounds[2])) == "series-ended"
    await server.publish(*(KIT.opt_in_leaf(rounds[1], role) for role in ("leader", "helper")))
    log = await read(server)
    assert log.ended(series.hash) == Ended(index, rounds[1].interval.end)
    for item in log.recipes:
        assert check(item.recipe, KIT.policy, log.context(item, float(item.recipe.interval.start))) == []
        assert log.round_of(item.recipe) == series
    late = replace(log.recipes[1], index=index + 1)
    refused = [one.rule for one in check(late.recipe, KIT.policy, log.context(late, NOW + EPOCH_SECONDS))]
    assert refused == ["series-ended"], "a log that holds it shows it to no effect"


async def test_the_slots_of_rounds_to_come_are_free_and_those_of_published_rounds_stay(server: Server) -> None:
    series = long_series(1_456, 4)
    await server.publish(series_leaf(series), leaf_of(KIT.round(series, 0)), KIT.series_end_leaf(series))
    assert await server.refused(leaf_of(asked(EPOCH + 1, 0))) == "slot-taken"
    await server.network.unmount("http://127.0.0.1:8084")
    await server.start(policy=policy())
    await server.publish(*(leaf_of(of_other(asked(EPOCH + 1, slot))) for slot in (1, 2, 3)))
    await reach(server, EPOCH + 2)
    await server.publish(*(leaf_of(of_other(asked(EPOCH + 2, slot))) for slot in range(4)))


async def test_nobody_else_ends_a_series(server: Server) -> None:
    series = long_series(400, 4)
    await server.publish(series_leaf(series))
    strangers = [
        end_leaf(series.hash_text, "analyst", OTHER, OTHER_KEY),
        end_leaf(series.hash_text, "log", OTHER, OTHER_KEY),
        end_leaf(series.hash_text, "log", FIRST, KIT.keys["analyst"]),
        end_leaf(series.hash_text, "analyst", LOG_SIGNER, KIT.keys["log"]),
    ]
    forged = [
        end_leaf(series.hash_text, "analyst", FIRST, OTHER_KEY),
        end_leaf(series.hash_text, "log", LOG_SIGNER, KIT.keys["analyst"]),
        end_leaf(series.hash_text, "log", LOG_SIGNER, KIT.keys["leader"]),
    ]
    for leaf in strangers:
        assert await server.refused(leaf) == "series-end-signer"
    for leaf in forged:
        assert await server.refused(leaf) == "leaf-signature"
    unknown = end_leaf(b64url(bytes(32)), "analyst", FIRST, KIT.keys["analyst"])
    assert await server.refused(unknown) == "series-end-series"
    odd = sign_leaf(
        LeafType.SERIES_END, {"series_hash": series.hash_text, "role": "helper"}, FIRST, KIT.keys["analyst"]
    )
    assert await server.refused(odd) == "leaf-malformed"
    signers = LeafSigners(KIT.policy, [series_leaf(series)], KIT.log_policy.log_key.public)
    assert signers.keys_of(strangers) == [None] * len(strangers), "no reader counts them either"
    assert LeafSigners(KIT.policy, [series_leaf(series)]).keys_of([KIT.series_end_leaf(series, "log")]) == [None]
    await server.publish(leaf_of(KIT.round(series, 0)))


async def test_a_series_is_ended_once_and_only_while_it_goes_on(server: Server) -> None:
    series, over = long_series(400, 4), KIT.series(name="over")
    await server.publish(series_leaf(series))
    (first,) = await server.publish(KIT.series_end_leaf(series))
    for leaf, index in ((KIT.series_end_leaf(series), first), (series_leaf(series), first - 1)):
        assert json.loads((await server.post(leaf)).body) == {"index": index}, "a replay changes nothing"
    assert await server.refused(KIT.series_end_leaf(series, "log")) == "series-end-exists"
    await server.publish(series_leaf(over))
    server.clock.jump(over.interval.end - NOW)
    assert await server.refused(KIT.series_end_leaf(over)) == "series-end-late"
    assert (await read(server)).ended(series.hash) == Ended(first, 0)


async def test_an_ended_series_is_charged_its_total_until_its_rounds_are_over(server: Server) -> None:
    """Also with independent coins: who ends a series has seen what its rounds released."""
    free, donated = KIT.series(rounds=3, donation_slots=None, name="free", slot=0), KIT.series(name="donated", slot=4)
    leaves = []
    for series in (free, donated):
        leaves += [series_leaf(series), leaf_of(KIT.round(series, 0))]
        leaves += [KIT.opt_in_leaf(KIT.round(series, 0), role) for role in ("leader", "helper")]
        leaves += [KIT.series_end_leaf(series)]
    log = LiveLog.from_leaves(enumerate(leaves))
    charges = {one.name: one for one in charges_of(log, NOW) if one.counts}
    assert charges.keys() == {"free", "donated"}
    for series, name in ((free, "free"), (donated, "donated")):
        whole = series_charge(series, ChargeState.ACTIVE)
        assert charges[name].end == KIT.round(series, 0).interval.end < whole.end
        assert charges[name].cost == whole.cost
        assert charges[name].epsilon_with_relay == whole.epsilon_with_relay


async def test_an_ended_series_without_rounds_is_shown_for_two_days_so_that_all_learn_of_it(server: Server) -> None:
    series = long_series(400, 4)
    await server.publish(series_leaf(series), KIT.series_end_leaf(series))
    grace = server.config().ended_seconds
    server.clock.jump(2 * 86_400 + grace - 1)
    assert [item.ended for item in (await read(server)).series] == [Ended(3, 0)]
    server.clock.jump(1)
    assert (await read(server)).series == ()


async def test_an_analyst_whose_room_is_full_can_still_end_its_series(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = [long_series(40, 1, slot=slot, name=f"s{slot}") for slot in range(SLOTS)]
    monkeypatch.setattr("recipe_server.page_capacity.CAPACITY", 60_000)
    await server.network.unmount("http://127.0.0.1:8084")
    await server.start(policy=policy(FIRST))
    answers = [await server.post(series_leaf(one)) for one in series]
    taken = [one for one, answer in zip(series, answers, strict=True) if answer.status == 201]
    assert 1 <= len(taken) < len(series)
    await server.publish(*map(KIT.series_end_leaf, taken))
    server.clock.jump(2 * 86_400 + server.config().ended_seconds)
    left = next(one for one in series if one not in taken)
    await server.publish(series_leaf(left))


async def test_series_of_different_analysts_are_ended_each_by_its_own(server: Server) -> None:
    await server.network.unmount("http://127.0.0.1:8084")
    await server.start(policy=policy())
    body = series_of_other(long_series(40, 2, slot=4))
    await server.publish(body)
    log = LiveLog.from_leaves([(0, body)])
    (item,) = log.series
    assert await server.refused(KIT.series_end_leaf(item.series)) == "leaf-signature"
    await server.publish(end_leaf(item.series.hash_text, "analyst", OTHER, OTHER_KEY))
