"""Devices that take part at the rate of their answer, and dummies: drawn once, like any other report to whoever looks.

The coins' own law is tested in ``draw_answer``, by itself; agents get coins that say what the test needs.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binomtest
from sqlalchemy import create_engine, text

from client_agent import answering
from client_agent.answering import draw_answer
from client_agent.coin import COIN_BITS, coin, coin_threshold
from client_agent.journal import Entry, MemoryAgentStore, State
from client_agent.store import SqlAgentStore
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import changed, with_sampling
from tacit.messages import UploadRequest
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder_specs import Boolean
from tacit.recipe.model import Question, Recipe
from tests.http.agent_world import KIT, SLOT, World, give_token, leaves_of, only

ALPHA = 1e-6
DUMMIES = {"intensity": "1000", "population": 20_000}
IMPORTANCE = {"default": 0, "default_rate": "0.4"}
CROWD = KIT.recipe(population=20_000, epsilon=Decimal("0.6"))
QUIET = with_sampling(CROWD, dummies=DUMMIES)
UNEQUAL = with_sampling(CROWD, dummies=DUMMIES, importance=IMPORTANCE)
SMOKES = Question(text="?", metric="mdvis", encoder=Boolean(kind="boolean"), statistic="count")
DRAWS = 4000
BEGIN = UNEQUAL.interval.start - 60.0


# The coins


def test_a_fraction_is_tossed_to_128_bits() -> None:
    third = Fraction(1, 3)
    assert coin_threshold(third) == (1 << COIN_BITS) // 3
    edge = iter((coin_threshold(third) - 1, coin_threshold(third)))
    assert [coin(third, lambda size: next(edge).to_bytes(size, "big")) for _ in range(2)] == [True, False]


def test_the_probability_of_a_dummy_is_the_exact_quotient_of_the_recipes_numbers() -> None:
    odd = with_sampling(CROWD, dummies={"intensity": "0.1", "population": 3})
    assert odd.sampling.dummy_rate == Fraction(1, 30)
    assert CROWD.sampling.dummy_rate == 0
    design = design_of(UNEQUAL)
    assert (design.default, design.default_rate, design.dummy_probability) == (0, 0.4, 0.05)
    for answer in range(3):
        assert float(UNEQUAL.sampling.rate_of(answer)) == design.rate_of(answer)


@pytest.mark.parametrize(("answer", "rate"), [(0, 0.4), (1, 0.5), (15, 0.5)])
def test_devices_take_part_at_the_rate_of_their_answer_and_send_dummies_at_theirs(answer: int, rate: float) -> None:
    """With e^-40 of noise a real report is the answer itself; a dummy is it once in 16 times."""
    recipe = changed(UNEQUAL, "randomizer.epsilon0", "40")
    entropy = SeededEntropy(f"rates {answer}".encode())
    sent = Counter(draw_answer(recipe, answer, entropy)[0] for _ in range(DRAWS))
    dummies = (1 - rate) * 0.05
    assert binomtest(sent[answer], DRAWS, rate + dummies / 16).pvalue > ALPHA
    others = sum(sent[cell] for cell in range(16) if cell != answer)
    assert binomtest(others, DRAWS, dummies * 15 / 16).pvalue > ALPHA
    assert sum(sent.values()) == DRAWS


def test_an_output_beyond_the_bound_leaves_the_chance_of_a_dummy() -> None:
    """Devices that send no report of their own send dummies with one probability, whatever kept them from it."""
    recipe = changed(
        with_sampling(KIT.recipe(randomizer="rappor"), dummies={"intensity": "1", "population": 4}),
        "randomizer.max_weight",
        4,
    )
    beyond = randomizer_of(recipe).reject_probability
    assert 0.02 < beyond < 0.9
    entropy = SeededEntropy(b"beyond")
    found = [draw_answer(recipe, 3, entropy) for _ in range(DRAWS)]
    silent = sum(measurement is None for measurement, _ in found)
    assert binomtest(silent, DRAWS, (1 - 0.5 * (1 - beyond)) * 0.75).pvalue > ALPHA
    why = Counter(why for measurement, why in found if measurement is None)
    assert set(why) == {"", "randomised beyond the bound"}
    assert all(why == "" for measurement, why in found if measurement is not None)


def test_without_dummies_a_silent_device_draws_nothing_after_its_coin() -> None:
    sizes: list[int] = []

    def no(size: int, /) -> bytes:
        sizes.append(size)
        return bytes([255]) * size

    assert draw_answer(CROWD, 1, no) == (None, "")
    assert sizes == [COIN_BITS // 8]
    assert draw_answer(QUIET, 1, no) == (None, "")
    assert sizes == [COIN_BITS // 8] * 3


# A dummy and a report


class Tosses:
    """Coins that say no to taking part and yes to a dummy, or the other way round."""

    def __init__(self) -> None:
        self.dummy = True
        self.tossed = 0

    def __call__(self, rate: Decimal | Fraction, _entropy: Any) -> bool:
        self.tossed += 1
        return isinstance(rate, Fraction) is self.dummy


@pytest.fixture
def tosses(monkeypatch: pytest.MonkeyPatch) -> Tosses:
    found = Tosses()
    monkeypatch.setattr(answering, "coin", found)
    return found


def shape(entry: Entry) -> dict[str, Any]:
    """Of every member the value, or its length where it is drawn for each report anew; of the report every length that
    its encoding shows."""
    found = {one.name: getattr(entry, one.name) for one in fields(entry)}
    (report,) = UploadRequest.decode(entry.report).reports
    sealed = (report.leader_encrypted_input_share, report.helper_encrypted_input_share)
    found["report"] = (
        len(entry.report),
        len(report.report_metadata.report_id),
        len(report.public_share),
        [(one.config_id, len(one.enc), len(one.payload)) for one in sealed],
    )
    assert UNEQUAL.interval.start <= found["send_at"] < UNEQUAL.interval.end
    assert found.pop("deadline") == found.pop("send_at") + 1e6
    del found["decided_at"]
    return found


RECIPES: dict[str, Recipe] = {
    "krr": UNEQUAL,
    "rappor": with_sampling(KIT.recipe(randomizer="rappor", population=20_000), dummies=DUMMIES),
    "rr": with_sampling(KIT.recipe(question=SMOKES, population=20_000, epsilon=Decimal("0.6")), dummies=DUMMIES),
    "flips": with_sampling(
        KIT.recipe(question=SMOKES, population=20_000, randomizer="flips", epsilon=Decimal("0.5")), dummies=DUMMIES
    ),
}


@pytest.fixture
def permissive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices that accept recipes without a local guarantee."""
    monkeypatch.setattr(type(KIT), "policy", KIT.policy.model_copy(update={"allow_unbounded_local": True}))


@pytest.mark.parametrize("name", RECIPES)
async def test_nothing_that_a_device_keeps_or_sends_tells_a_dummy_from_a_report(
    permissive: None, world: World, tosses: Tosses, name: str
) -> None:
    recipe = RECIPES[name]
    world.log.add(*leaves_of(recipe))
    shapes: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for number in range(16):
        tosses.dummy = number % 2 == 0
        agent, store = await world.device(number % 2)
        await agent.step()
        entry = await only(store)
        assert entry.state is State.SCHEDULED, entry.detail
        shapes[tosses.dummy].append(shape(entry))
        before = len(world.relayed())
        await world.clock.advance(entry.send_at - world.clock.now())
        await agent.send_due()
        assert len(world.relayed()) == before + 1
        shapes[tosses.dummy][-1]["relayed"] = world.relayed()[-1]
        assert (await only(store)).state is State.SENT
        world.clock.set_back(world.clock.now() - BEGIN)
    assert len(world.uploads) == 16
    first = shapes[False][0]
    assert all(found == first for found in itertools.chain(*shapes.values()))


def rows(path: Path) -> Iterator[dict[str, Any]]:
    """Every row of a device's file, column by column, as it is kept."""
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        for query in ("SELECT * FROM entries", "SELECT * FROM prefetches", "SELECT * FROM facts"):
            yield from (dict(row) for row in connection.execute(text(query)).mappings())
    engine.dispose()


def sizes(row: dict[str, Any]) -> dict[str, tuple[str, int]]:
    """Type and length of every column."""
    return {name: (type(value).__name__, len(value) if isinstance(value, bytes) else 0) for name, value in row.items()}


async def test_the_file_of_a_device_looks_the_same_with_a_dummy_and_it_is_sent_after_a_crash(
    world: World, tosses: Tosses, tmp_path: Path
) -> None:
    world.log.add(*leaves_of(UNEQUAL))
    kept = []
    for dummy in (True, False):
        tosses.dummy = dummy
        path = tmp_path / f"{dummy}.sqlite3"
        store = await SqlAgentStore.open(path)
        await give_token(store)
        await world.agent(store, 0).step()
        entry = await only(store)
        await store.close()
        kept.append([sizes(row) for row in rows(path)])
        store = await SqlAgentStore.open(path)
        agent = world.agent(store, 0)
        before = tosses.tossed
        await agent.step()
        assert (await only(store)).report == entry.report
        assert tosses.tossed == before, "one recipe is drawn for once"
        await world.clock.advance(entry.send_at - world.clock.now())
        await agent.step()
        assert world.uploads[-1] == entry.report
        assert (await only(store)).state is State.SENT
        await store.close()
        world.clock.set_back(world.clock.now() - BEGIN)
    assert kept[0] == kept[1]


async def test_a_dummy_is_charged_and_spends_the_token_of_the_slot(world: World, tosses: Tosses) -> None:
    world.log.add(*leaves_of(QUIET))
    agent, store = await world.device()
    await agent.step()
    entry = await only(store)
    assert (entry.charged_epsilon, entry.charged_delta) == (QUIET.privacy.epsilon["aggregator"], QUIET.privacy.delta)
    assert next(row for row in await store.prefetches() if row.slot == SLOT).spent


@pytest.mark.parametrize("value", [None, -1, 3])
async def test_a_device_tosses_the_same_coins_with_and_without_a_datum(
    world: World, tosses: Tosses, value: int | None
) -> None:
    world.log.add(*leaves_of(QUIET))
    agent, store = await world.device(value)
    await agent.step()
    assert (await only(store)).state is State.SCHEDULED
    assert tosses.tossed == 2


async def test_a_device_without_a_token_tosses_no_coin_and_sends_no_dummy(world: World, tosses: Tosses) -> None:
    world.log.add(*leaves_of(QUIET))
    store = MemoryAgentStore()
    await world.agent(store).step()
    assert all(entry.state is State.INELIGIBLE for entry in await store.entries())
    assert tosses.tossed == 0
