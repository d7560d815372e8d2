"""The exact law of what devices send out of kept states, by running the code once for every outcome of its draws."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import prod

import pytest

from client_agent.answering import StateReply
from client_agent.panprivate.recipes import plan_of, watched_side
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import changed
from tacit.methods.base.draws import ONE, epsilon0_from, keep_threshold
from tacit.methods.flips import Flips
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tacit.models.interfaces.watched import Stored
from tacit.panprivate.discrete_logarithm import DiscreteLogarithm
from tacit.panprivate.elgamal import Ciphertext
from tacit.panprivate.two_servers import SharedCell, opened_share, sealed_shares
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.vdaf.count_vec import Prio3CountVec
from tests.kit.watched import CELLS, SHARED, SINGLE, WatchedKit
from tests.unit.device_path import Law, convolved

KIT = WatchedKit()
DRAW = SeededEntropy(b"panprivate_laws")
MOST = 1
"""k of the histogram, so that all outcomes of its two cells can be gone through."""


def recipe_of(model: str, statistic: str) -> Recipe:
    """A recipe whose outcomes are few; what it claims does not matter here."""
    recipe = KIT.watched(model, statistic)
    if statistic == "count":
        return recipe
    recipe = changed(recipe, "question.encoder.most", MOST)
    if statistic == "mean":
        few = {"scale": 3, "flips": 8, "maximum": MOST}
        return changed(recipe, "randomizer", {**recipe.body()["randomizer"], **few})
    recipe = changed(recipe, "randomizer", {**recipe.body()["randomizer"], "categories": 2, "max_weight": 2})
    return changed(recipe, "vdaf.length", 2) if model == SHARED else recipe


class Outcomes:
    """Randomness whose draws for coins go through all classes: a 128-bit number below or not below the threshold, and
    a byte of flips by its number of ones. Everything else (scalars, shares) is drawn as ever."""

    def __init__(self, threshold: int, flips: int) -> None:
        below = Fraction(threshold, ONE)
        self._wide = [(bytes(16), below), (b"\xff" * 16, 1 - below)]
        self._narrow = [(bytes([value]), Fraction(1, 1 << flips)) for value in range(1 << flips)]
        self._path: list[int] = []
        self._depth = 0
        self.weight = Fraction(1)

    def __call__(self, size: int, /) -> bytes:
        choices = {16: self._wide, 1: self._narrow}.get(size)
        if choices is None:
            return DRAW(size)
        if self._depth == len(self._path):
            self._path.append(0)
        drawn, share = choices[self._path[self._depth]]
        self._sizes[self._depth : self._depth + 1] = [len(choices)]
        self._depth += 1
        self.weight *= share
        return drawn

    def runs(self) -> Iterator[None]:
        """Run the block once for each outcome of its coins."""
        self._sizes: list[int] = []
        while True:
            self._depth, self.weight = 0, Fraction(1)
            yield
            while self._path and self._path[-1] + 1 == self._sizes[len(self._path) - 1]:
                self._path.pop()
            if not self._path:
                return
            self._path[-1] += 1


def numbers(recipe: Recipe, cells: Sequence[Ciphertext] | Sequence[SharedCell]) -> tuple[int, ...]:
    """What the servers read from these cells."""
    if recipe.model == SHARED:
        shared = [cell for cell in cells if isinstance(cell, SharedCell)]
        vdaf = Prio3CountVec(2, len(shared))
        keys = (KIT.shared_keys["leader"], KIT.shared_keys["helper"])
        context = watched_side(recipe).stored(recipe).machine.sharing.context  # type: ignore[union-attr]
        expanded = []
        for agg_id, (key, sealed) in enumerate(zip(keys, sealed_shares(shared), strict=True)):
            share = vdaf.decode_input_share(agg_id, opened_share(key, agg_id, len(shared), sealed))
            expanded.append(vdaf._expand_input_share(context, agg_id, share)[0])
        return tuple((one + other) % vdaf.field.MODULUS for one, other in zip(*expanded, strict=True))
    single = [cell for cell in cells if isinstance(cell, Ciphertext)]
    if recipe.question.statistic == "mean":
        return (DiscreteLogarithm(0, 100).of(KIT.state_key.decrypt(single[0])),)
    return tuple(KIT.state_key.open_bit(cell.encode()) for cell in single)


def state_after(stored: Stored, events: Sequence[int]) -> bytes:
    """The state after these steps."""
    state = stored.initial(DRAW)
    for event in events:
        state = stored.step(event, state, DRAW)
    return state


def law_after(recipe: Recipe, events: Sequence[int]) -> Law:
    """The exact law of what a device that takes part sends after these steps."""
    method, found = randomizer_of(recipe), defaultdict[tuple[int, ...], Fraction](Fraction)
    flips = method.flips if isinstance(method, Flips) else 1
    threshold = 0
    if recipe.randomizer.epsilon0 is not None:
        cells = 1 if isinstance(method, Rr) else 2
        threshold = 2 * keep_threshold(epsilon0_from(recipe.epsilon0) / cells, 1) - ONE
    outcomes, stored = Outcomes(threshold, flips), plan_of(recipe).stored
    assert isinstance(stored, Stored)
    reply = StateReply(recipe, state_after(stored, events))
    for _ in outcomes.runs():
        cells_sent, why = reply.drawn(outcomes, chosen=True)
        assert why == ""
        found[numbers(recipe, cells_sent)] += outcomes.weight
    return dict(found)


def law_of_the_method(recipe: Recipe, times: int) -> Law:
    """What the method that the recipe names gives for the same answer."""
    method = randomizer_of(recipe)
    if isinstance(method, Flips):
        ways = [bin(value).count("1") for value in range(1 << method.flips)]
        low = method.scale * min(times, MOST)
        return {(low + ones,): Fraction(ways.count(ones), len(ways)) for ones in set(ways)}
    assert isinstance(method, Rr | Rappor)
    keep, flip = method.output_probabilities()
    bits = [int(times > 0)] if isinstance(method, Rr) else [int(min(times, MOST) == cell) for cell in range(MOST + 1)]
    one = {1: keep, 0: flip}
    return {
        sent: prod((one[bit] if out else 1 - one[bit] for bit, out in zip(bits, sent, strict=True)), start=Fraction(1))
        for sent in itertools.product((0, 1), repeat=len(bits))
    }


@pytest.mark.parametrize(("model", "statistic"), CELLS)
@pytest.mark.parametrize("events", [(0, 0, 0), (0, 1, 0), (1, 0, 1)])
def test_what_is_sent_out_of_a_state_has_the_law_of_the_method(
    model: str, statistic: str, events: tuple[int, ...]
) -> None:
    recipe = recipe_of(model, statistic)
    assert law_after(recipe, events) == law_of_the_method(recipe, sum(events))


@pytest.mark.parametrize("model", [SINGLE, SHARED])
def test_the_sum_over_a_small_population_has_the_law_of_the_method(model: str) -> None:
    recipe, population = recipe_of(model, "count"), ((0, 0), (1, 0), (1, 1), (0, 1))

    def plus(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(sum, zip(one, other, strict=True)))

    sent = convolved([law_after(recipe, events) for events in population], plus, (0,))
    expected = convolved([law_of_the_method(recipe, sum(events)) for events in population], plus, (0,))
    assert sent == expected
    assert sum(sent.values()) == 1
