"""What a device that trains shows, enumerated: its datum, the real training, encoding, noise and coin, to the report or
the silence of two rounds; beside the claim of the series."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import signal

from client_agent.answering import Data, DatumReply
from client_agent.data.sources import CallableSource, Value
from client_agent.journal import MemoryAgentStore
from client_agent.learning.model_files import ModelFiles
from client_agent.learning.training import Trainer
from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.learning import LEARNING, model_of, training_series
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from tacit.dp.repeated.shares import epsilon_share_rounds
from tacit.methods.flips import Flips
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.training import Projection
from tests.unit.test_device_training import Kept

FLIPS, RATE, DEVICES, ROUNDS, DELTA = 64, 0.75, 2, 2, 0.01
KIT = RecipeKit()
SPEC = Update.model_validate(
    {
        **LEARNING.model_dump(exclude_none=True),
        "unit": "0.5",
        "length": 2,
        "training": LEARNING.training.model_copy(update={"projection": Projection(entries=2), "learning_rate": 1000}),
    }
)
MODELS = [model_of(SPEC, seed=at) for at in range(ROUNDS)]
DATA: Mapping[str, Value | None] = {
    "one class": [5, 5, 0],
    "the other": [5, 5, 1],
    "not finite": [1e308, 1e308, 1, 1e308, 1e308, 0],
    "malformed": "1,2",
    "none": None,
}
Law = NDArray[np.float64]
"""Of one report: the probability of each pair of numbers. What is left to 1 is silence."""


class Branch:
    """Randomness of which a coin's toss and the number of ones in each draw of flips are chosen beforehand."""

    def __init__(self, is_sent: bool, ones: tuple[int, ...]) -> None:
        self._draws = [b"\0" * 16 if is_sent else b"\xff" * 16, *(((1 << one) - 1).to_bytes(8, "big") for one in ones)]

    def __call__(self, size: int) -> bytes:
        found = self._draws.pop(0)
        assert len(found) == size
        return found


def round_of(index: int) -> Recipe:
    recipe = KIT.round(training_series(KIT, rate=str(RATE), spec=SPEC), index, MODELS[index].stated().text())
    return changed(changed(recipe, "randomizer.flips", FLIPS), "randomizer.scale", 1)


async def reply_of(recipe: Recipe, index: int, value: Value | None) -> DatumReply:
    trainer = Trainer(cast(ModelFiles, Kept(MODELS[index].file)), SeededEntropy(b"a"))
    data = Data(CallableSource(lambda _metric: value), {}, MemoryAgentStore(), SimClock(NOW), trainer)
    (reply,) = await data.replies([recipe], 10.0)
    return cast(DatumReply, reply)


def law_of(reply: DatumReply, cells: int = FLIPS + 5) -> Law:
    """The law of the report, over every toss and every draw; a coin that says no must leave nothing."""
    assert reply.drawn(Branch(False, ()), None) == (None, "")
    law, chances = np.zeros((cells, cells)), [math.comb(FLIPS, one) / 2**FLIPS for one in range(FLIPS + 1)]
    for ones in itertools.product(range(FLIPS + 1), repeat=2):
        sent, _ = reply.drawn(Branch(True, ones), None)
        assert isinstance(sent, list)
        law[sent[0], sent[1]] += RATE * chances[ones[0]] * chances[ones[1]]
    return law


def hockey(one: tuple[Law, ...], other: tuple[Law, ...], epsilon: float) -> float:
    """The hockey stick of two independent rounds."""
    (p, q), growth = [[law.ravel() for law in laws] for laws in (one, other)], math.exp(epsilon)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(q[1] > 0, p[1] / q[1], np.where(p[1] > 0, np.inf, 0))
        wanted = np.where(p[0] > 0, growth * q[0] / p[0], np.inf)
    order = np.argsort(ratios)
    tails = [np.append(np.cumsum(law[order][::-1])[::-1], 0.0) for law in (p[1], q[1])]
    at = np.searchsorted(ratios[order], wanted, side="right")
    return float((p[0] * tails[0][at] - growth * q[0] * tails[1][at]).sum())


def seen(device: Law, other: Law) -> Law:
    """What one aggregator with the relay sees of a round of two devices: who sends, and the sum where both do. Three
    further outcomes, in which nothing is released, follow the sums."""
    sums = signal.convolve2d(device, other).ravel()
    first, second = device.sum(), other.sum()
    return np.append(sums, [first * (1 - second), second * (1 - first), (1 - first) * (1 - second)])


async def test_two_rounds_of_two_devices_tell_of_examples_or_none_what_the_series_claims_at_most() -> None:
    rounds = [round_of(index) for index in range(ROUNDS)]
    method = randomizer_of(rounds[0])
    assert isinstance(method, Flips)
    replies = {name: [await reply_of(one, at, value) for at, one in enumerate(rounds)] for name, value in DATA.items()}
    laws = {name: [law_of(one) for one in replies[name]] for name in ("one class", "the other", "none")}
    for name in ("not finite", "malformed"):
        assert [one.value for one in replies[name]] == [None] * ROUNDS, "which has the law of no value"
    views = {name: tuple(seen(law, laws["none"][at]) for at, law in enumerate(found)) for name, found in laws.items()}
    silent = np.append(np.zeros(views["none"][0].size - 3), [0.0, RATE, 1 - RATE])
    claim = epsilon_share_rounds(method.noise_step, DEVICES, ROUNDS, DELTA, None)
    assert 0 < claim < 20
    worst = 0.0
    for one, other in itertools.permutations(views.values(), 2):
        assert math.isclose(one[0].sum(), 1)
        assert hockey(one, other, claim) <= DELTA
        worst = max(worst, hockey(one, other, claim / 4))
        withheld = (silent, one[1]), (silent, other[1])
        assert hockey(*withheld, claim) <= hockey(one, other, claim), "a model that never comes tells less"
    assert worst > DELTA, "and the rounds do tell something"
