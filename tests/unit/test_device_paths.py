"""Whole device paths by exact enumeration where a device answers more than once: two recipes behind a shuffler, the
rounds of a search, and recipes that were voided."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from client_agent.answering import AnswerSources, Data, KeptStates
from client_agent.coin import coin_threshold
from client_agent.config import Timing
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv, Decider, Decision
from client_agent.journal import Entry, MemoryAgentStore, State
from client_agent.panprivate.watches import Watches
from client_agent.wallet import HeldToken
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import SLOT
from infra.lab.kit.recipes import NOW, RecipeKit
from infra.lab.kit.reports import issuer_key, token_source
from infra.lab.kit.shuffled import ShuffledKit
from tacit.ledger.account import ChargeState
from tacit.logview.live import LiveLog, charges_of
from tacit.methods.base.draws import BYTES, ONE
from tacit.methods.bounded import DRAW_BITS, DRAW_BYTES, weight_thresholds
from tacit.methods.shuffled_few import Unbiased
from tacit.models.interfaces.device import Submission
from tacit.models.secure_aggregation.device import DapChannel
from tacit.recipe.model import Recipe
from tacit.task.one_server import OneServerTask
from tacit.task.shuffled import Bundling
from tacit.tlog.leaves import SignedLeaf
from tacit.tokens.slots import Slot
from tests.unit.device_path import Enumerated, Law, classes, log_ratio, telling
from tests.unit.test_search_privacy import METHOD, RATE, SERIES, VALUES, messages, round_0, round_1
from tests.unit.test_shuffled_laws import KIT, bounded_law, recipe_of

SEARCHING = RecipeKit()
UNBIASED = Unbiased("histogram", 3, Decimal("0.25"), 1)
KEEP = ONE - math.ceil(Fraction(1, 4) * ONE)
_LOOSE = KIT.stated({"name": "unbiased", "categories": 3, "noise_rate": "0.25", "max_weight": 3}).body()
BOUNDED = Recipe.from_body({**_LOOSE, "randomizer": {**_LOOSE["randomizer"], "max_weight": 1}})
"""Its claim is that of a looser bound, because so tight a one gives none."""
ZSUM = recipe_of(2, "0.5")
TOKEN = token_source(issuer_key(), SeededEntropy(b"wallet"))(SLOT)
WORDS = ("c0", "c1", "c2", None, "another", 7)


class Draws(Enumerated):
    """Draws of 16 bytes that are compared with nothing are noise of one cell of ``ZSUM``; those of ``BOUNDED`` are a
    weight and places, as ``tacit.methods.bounded`` makes them."""

    def __call__(self, size: int, /) -> bytes:
        if size != DRAW_BYTES * (UNBIASED.max_weight + 1):
            return super().__call__(size)
        limits = (0, *weight_thresholds(3, KEEP, UNBIASED.max_weight), 1 << DRAW_BITS)
        places = (0, *(-(-(part << DRAW_BITS) // 3) for part in (1, 2)), 1 << DRAW_BITS)
        return b"".join(self.pick(_parts(one)) for one in (limits, places))

    def _choices(self, size: int) -> Any:
        return classes((ONE // 4,), 1) if size == BYTES and self._told is None else super()._choices(size)


def _parts(limits: Sequence[int]) -> list[tuple[bytes, Fraction]]:
    """One number of each part between two limits, with the part's share of all numbers."""
    pairs = itertools.pairwise(limits)
    return [(low.to_bytes(DRAW_BYTES, "big"), Fraction(high - low, 1 << DRAW_BITS)) for low, high in pairs]


class Wallet:
    """Holds a token of every slot, under the key that ``log`` shows."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log

    async def held(self, slot: Slot) -> HeldToken:
        """A token of slot 0's key, whatever the slot: in the rounds of a search nobody verifies it here."""
        (directory,) = self._log.directories
        key_id = hashlib.sha256(directory.spki(slot.slot) or b"").digest()
        return HeldToken(TOKEN.token, TOKEN.preimages, key_id)


@dataclass
class Device:
    """A device that accepts all recipes; ``sent``: what it gave to be sealed, in this order; ``reads`` of its datum."""

    value: Any
    entropy: Any
    sent: list[Any] = field(default_factory=list)
    reads: int = 0
    store: MemoryAgentStore = field(default_factory=MemoryAgentStore)

    async def decide(self, log: LiveLog, now: float = NOW) -> list[Entry]:
        """What the device decides at ``now`` about the recipes of ``log`` that are new to it."""
        clock = SimClock(float(now))
        origins = AnswerSources(
            Data(CallableSource(self._read), {}, self.store, clock), KeptStates(Watches(None, clock, self.entropy))
        )
        holder = SimpleNamespace(attributes={}, timing=Timing())
        deps = AgentEnv(clock, self.entropy, None)  # type: ignore[arg-type]
        parts: Any = (holder, KIT.policy, deps, self.store, origins, Wallet(log))
        entries = await self.store.entries()
        known = {entry.recipe_hash for entry in entries}
        new = [live for live in log.recipes if live.recipe.hash not in known]
        made = [one for one in await Decider(*parts).decisions(log, new, entries) if isinstance(one, Decision)]
        for one in made:
            await self.store.decide(one.entry, None, one.draw)
        return [one.entry for one in made]

    def _read(self, _metric: str) -> Any:
        self.reads += 1
        return self.value


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What devices give to be sealed, in place of what they would send."""
    found: list[Any] = []

    def bundle(_self: Any, counts: Sequence[int], _entropy: Any) -> bytes:
        found.append(tuple(counts))
        return b""

    def submission(_self: Any, measurement: Any, *_rest: Any) -> Submission:
        found.append(tuple(measurement) if isinstance(measurement, list) else measurement)
        return Submission("https://leader.example", "", b"report")

    for name in ("client_agent.answering.coin", "client_agent.series.coin"):
        telling(monkeypatch, name, of=lambda rate: (coin_threshold(rate), 1))
    telling(monkeypatch, "tacit.methods.randomisers.krr.bernoulli", of=lambda threshold: (threshold, 1))
    telling(monkeypatch, "tacit.methods.randomisers.krr.uniform_below", of=lambda bound: (0, bound))
    monkeypatch.setattr(Decider, "refusals", lambda *_: [])
    monkeypatch.setattr(Bundling, "bundle", bundle)
    monkeypatch.setattr(OneServerTask, "seal", lambda *_: SimpleNamespace(encode=lambda: b"report"))
    monkeypatch.setattr(DapChannel, "submission", submission)
    return found


def seen(entries: Sequence[Entry], sent: Sequence[Any]) -> tuple[Any, ...]:
    """The message about each recipe, or None."""
    assert {entry.state for entry in entries} <= {State.SCHEDULED, State.NOT_SAMPLED}
    rest = iter(sent)
    return tuple(next(rest) if entry.state is State.SCHEDULED else None for entry in entries)


def log_of(kit: ShuffledKit | RecipeKit, *leaves: SignedLeaf) -> LiveLog:
    return LiveLog.from_leaves(enumerate([kit.directory_leaf(), *leaves]))


async def shuffled_law(value: Any, sent: list[Any], *recipes: Recipe) -> Law:
    """The exact law of what a device with this value sends about all of ``recipes``."""
    log, entropy = log_of(KIT, *(KIT.recipe_leaf(one) for one in recipes)), Draws()
    found: Law = defaultdict(Fraction)
    for _ in entropy.runs():
        sent.clear()
        entries = await Device(value, entropy).decide(log)
        charged = [entry.charged_epsilon for entry in entries]
        assert charged == [one.privacy.epsilon.root["analyzer_of_shuffled"] for one in recipes], "whatever is sent"
        found[seen(entries, sent)] += entropy.weight
    assert sum(found.values()) == 1
    return dict(found)


@pytest.mark.parametrize("value", WORDS)
async def test_bounded_noise_has_its_law_on_the_whole_device_path(value: Any, sent: list[Any]) -> None:
    """Up to the 2^-170 of its thresholds; what is no answer sends the noise alone."""
    found = await shuffled_law(value, sent, BOUNDED)
    answer = WORDS.index(value) if value in WORDS[:3] else None
    wanted = bounded_law(UNBIASED, answer)
    assert found.keys() == {(counts,) for counts in wanted}
    assert all(abs(found[counts,] - share) < Fraction(1, 1 << 100) for counts, share in wanted.items())


@pytest.mark.parametrize("value", ["c0", "c2", None])
async def test_two_recipes_behind_a_shuffler_are_answered_independently(value: Any, sent: list[Any]) -> None:
    """So that what both tell is the composition of both claims. "c2" is an answer to one of them and none to the
    other, which samples devices."""
    together = await shuffled_law(value, sent, ZSUM, BOUNDED)
    first, second = await shuffled_law(value, sent, ZSUM), await shuffled_law(value, sent, BOUNDED)
    assert sum(share for law, share in together.items() if law[0] is None) == Fraction(1, 2)
    product = {(one, two): p * q for ((one,), p), ((two,), q) in itertools.product(first.items(), second.items())}
    assert together == product


async def test_a_recipe_that_both_its_servers_voided_is_not_answered_nor_charged_nor_is_the_datum_read(
    sent: list[Any],
) -> None:
    leaves = [KIT.recipe_leaf(ZSUM), *KIT.opt_ins(ZSUM)]
    half = log_of(KIT, *leaves, KIT.analyzer_void(ZSUM))
    whole = log_of(KIT, *leaves, KIT.analyzer_void(ZSUM), KIT.shuffler_void(ZSUM))
    device = Device("c0", Draws())
    (entry,) = await device.decide(whole)
    assert (entry.state, entry.charged_epsilon, device.reads, sent) == (State.REFUSED, "", 0, [])
    (entry,) = await Device("c0", Draws()).decide(half)
    assert entry.state in {State.SCHEDULED, State.NOT_SAMPLED}, "one server alone voids nothing"
    for log in (half, whole):
        (charge,) = charges_of(log, NOW + 1e6)
        assert (charge.state is ChargeState.UNREFUNDED) or charge.counts, "an account gets nothing back"


async def search_law(value: Any, sent: list[Any], rounds: Sequence[Recipe]) -> Law:
    """The exact law of what a device with this value sends in all rounds of a search, which it meets one by one."""
    entropy, found = Enumerated(), defaultdict[Any, Fraction](Fraction)
    for _ in entropy.runs():
        sent.clear()
        device, entries, leaves = Device(value, entropy), list[Entry](), [SEARCHING.series_leaf(SERIES)]
        for index, recipe in enumerate(rounds):
            leaves.append(SEARCHING.recipe_leaf(recipe))
            entries += await device.decide(log_of(SEARCHING, *leaves), SERIES.window(index).start)
        assert [bool(entry.charged_epsilon) for entry in entries] == [True, False], "once, whatever is drawn"
        found[seen(entries, sent)] += entropy.weight
    assert sum(found.values()) == 1
    return dict(found)


async def test_a_device_sends_in_one_round_of_a_search_at_most_with_the_law_that_its_claim_is_about(
    sent: list[Any],
) -> None:
    """The law of ``test_search_privacy``, of whole devices: draw, encoder for the round's candidates, message."""
    second = round_1((2, 0, 0, 0, 0, 0))
    assert second is not None
    rounds, laws = [round_0(), second], []
    for value in (*VALUES, "", 7):
        held = None if value == "" else value if isinstance(value, str | None) else "zz"  # a number is a text too
        law = await search_law(value, sent, rounds)
        wanted: dict[Any, float] = {(None, None): (1 - RATE) ** 2}
        for at, recipe in enumerate(rounds):
            for (cell,), share in messages(recipe, (held,)).items():
                wanted[(None,) * at + (cell,) + (None,) * (1 - at)] = RATE * (1 - RATE) ** at * share
        assert {parts: float(share) for parts, share in law.items()} == pytest.approx(wanted)
        laws.append(law)
    worst = max(log_ratio(one, other) for one, other in itertools.permutations(laws, 2))
    assert worst == pytest.approx(float(METHOD.local_epsilon), abs=1e-6)


async def test_a_device_charges_a_series_whole_as_it_knows_only_those_rounds_that_it_was_shown(
    sent: list[Any],
) -> None:
    """A log that shows the end of a series with one of its rounds may show the others later, when they cost nothing."""
    series = SEARCHING.series(rounds=3, donation_slots=None)
    first, second = (SEARCHING.recipe_leaf(SEARCHING.round(series, index)) for index in range(2))
    begin, end = SEARCHING.series_leaf(series), SEARCHING.series_end_leaf(series)
    device = Device(1, SeededEntropy(b"device"))
    (entry,) = await device.decide(log_of(SEARCHING, begin, first, end), series.window(0).start)
    assert (entry.charged_epsilon, entry.charged_until) == (series.claim.epsilon["aggregator"], series.interval.end)
    (later,) = await device.decide(log_of(SEARCHING, begin, first, second, end), series.window(1).start)
    assert later.charged_epsilon == ""
