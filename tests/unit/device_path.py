"""The exact law of what a device sends: its decision code is run once for every outcome of its randomness.

Randomness comes in draws of 128 bits, which the code compares with a threshold or takes modulo a small number. A draw
is enumerated by one representative of each class that these can tell apart, weighted with the exact share of the class
(``Fraction``); coin flips and the number behind the send time by all their values, or a few. The real functions draw;
they only tell beforehand which threshold or modulus is theirs.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest

from client_agent.answering import AnswerSources, Data, KeptStates
from client_agent.coin import coin_threshold
from client_agent.config import Timing
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv, Decider, Decision
from client_agent.journal import MemoryAgentStore, State
from client_agent.panprivate.watches import Watches
from client_agent.wallet import HeldToken
from infra.lab.kit.clock import SimClock
from infra.lab.kit.recipes import NOW, RecipeKit
from infra.lab.kit.reports import issuer_key
from tacit.logview.live import LiveLog
from tacit.methods.base.draws import ONE
from tacit.methods.flips import Flips
from tacit.methods.randomisers.unary import RapporRandomiser
from tacit.models.interfaces.device import Submission
from tacit.models.secure_aggregation.device import DapChannel
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.tokens.binding import Preimages

KIT = RecipeKit()
SILENCE = None
Law = dict[Any, Fraction]
Choice = tuple[bytes, Fraction]
"""One representative of a class, and its share."""


@functools.cache
def classes(thresholds: tuple[int, ...], modulus: int) -> tuple[Choice, ...]:
    """All classes of a 128-bit draw that these thresholds and the remainder by ``modulus`` tell apart."""
    edges = sorted({0, ONE, *thresholds})
    found = []
    for low, high in itertools.pairwise(edges):
        for rest in range(modulus):
            first = low + (rest - low) % modulus
            if first < high:
                found.append((first.to_bytes(16, "big"), Fraction((high - 1 - first) // modulus + 1, ONE)))
    return tuple(found)


@dataclass
class Enumerated:
    """Randomness that goes through every outcome: ``runs`` repeats until all were seen."""

    usual: int = 0
    flips: int = 1
    times: int = 1
    weight: Fraction = Fraction(1)
    _path: list[list[int]] = field(default_factory=list)
    _depth: int = 0
    _told: tuple[int, int] | None = None

    def tell(self, threshold: int, modulus: int) -> None:
        """What the next draw is compared with; otherwise ``usual``."""
        self._told = (threshold, modulus)

    def __call__(self, size: int, /) -> bytes:
        """Draw ``size`` bytes from the stated distribution."""
        return b"".join(self._one(part) for part in _parts(size))

    def _one(self, size: int) -> bytes:
        drawn: bytes = self.pick(self._choices(size))
        return drawn

    def pick(self, choices: Sequence[tuple[Any, Fraction]]) -> Any:
        """One of ``choices``, each with its own probability."""
        if self._depth == len(self._path):
            self._path.append([0, len(choices)])
        drawn, share = choices[self._path[self._depth][0]]
        self._depth += 1
        self.weight *= share
        return drawn

    def _choices(self, size: int) -> Sequence[Choice]:
        if size == 16:
            threshold, modulus = self._told or (self.usual, 1)
            self._told = None
            return classes((min(threshold, ONE),), modulus)
        if size == 8:
            starts = [part * 2**64 // self.times for part in range(self.times)]
            return [(start.to_bytes(8, "big"), Fraction(1, self.times)) for start in starts]
        return [(value.to_bytes(1, "big"), Fraction(1, 1 << self.flips)) for value in range(1 << self.flips)]

    def runs(self) -> Iterator[None]:
        """Once per outcome; ``weight`` is its probability afterwards."""
        while True:
            self._depth, self.weight = 0, Fraction(1)
            yield
            while self._path and self._path[-1][0] + 1 == self._path[-1][1]:
                self._path.pop()
            if not self._path:
                return
            self._path[-1][0] += 1


def _parts(size: int) -> list[int]:
    return [16] * (size // 16) if size % 16 == 0 else [size] if size == 8 else [1] * size


def dummy_by_law(randomiser: RapporRandomiser, entropy: Enumerated) -> list[int]:
    """A dummy of rappor by its law: flipped zeros of at most ``max_weight`` ones."""
    rappor = randomiser.method
    flip = rappor.output_probabilities()[1]
    fitting = [bits for bits in itertools.product((0, 1), repeat=rappor.cells) if sum(bits) <= rappor.max_weight]
    laws = [math.prod(((flip if bit else 1 - flip) for bit in bits), start=Fraction(1)) for bits in fitting]
    return list(entropy.pick([(bits, law / sum(laws)) for bits, law in zip(fitting, laws, strict=True)]))


class Wallet:
    """Holds the token of the first slot."""

    async def held(self, _slot: Any) -> HeldToken:
        """A token under the key that the log shows."""
        return HeldToken(b"", Preimages(bytes(32), bytes(32)), issuer_key().token_key.token_key_id)

    async def may_come(self, _slot: Any, _before: float) -> bool:
        """Always false: these tests do not ask for it."""
        return False


@dataclass(frozen=True)
class Sent:
    """A decision: ``None`` as ``measurement`` is silence; what the journal has of it otherwise."""

    measurement: Any
    send_at: float
    state: State
    charged: tuple[str, str]


def telling(monkeypatch: pytest.MonkeyPatch, *names: str, of: Callable[[Any], tuple[int, int]]) -> None:
    """The functions called ``names`` (module.function) tell what ``of`` says of their first argument, and draw."""
    for name in names:
        module, _, function = name.rpartition(".")
        real = getattr(importlib.import_module(module), function)

        def told(first: Any, entropy: Any, real: Callable[[Any, Any], Any] = real) -> Any:
            entropy.tell(*of(first))
            return real(first, entropy)

        monkeypatch.setattr(name, told)


class Path:
    """A device, from its datum to what it sends, for one recipe that it accepts."""

    def __init__(self, recipe: Recipe, monkeypatch: pytest.MonkeyPatch, now: float = NOW) -> None:
        self.recipe = recipe
        self.clock = SimClock(float(now))
        self._made: list[Any] = []
        telling(monkeypatch, "client_agent.answering.coin", of=lambda rate: (coin_threshold(rate), 1))
        telling(
            monkeypatch,
            "tacit.methods.randomisers.krr.bernoulli",
            "tacit.methods.randomisers.rr.bernoulli",
            of=lambda one: (one, 1),
        )
        telling(monkeypatch, "tacit.methods.randomisers.krr.uniform_below", of=lambda bound: (0, bound))
        monkeypatch.setattr(RapporRandomiser, "dummy", dummy_by_law)
        monkeypatch.setattr(Decider, "refusals", lambda *_: [])
        monkeypatch.setattr(DapChannel, "submission", self._submission)
        leaves = [KIT.directory_leaf(), KIT.recipe_leaf(recipe)]
        self.log = LiveLog.from_leaves(enumerate(leaves))

    def _submission(self, measurement: Any, *_rest: Any) -> Submission:
        self._made.append(tuple(measurement) if isinstance(measurement, list) else measurement)
        return Submission("https://leader.example", "", b"report")

    async def decide(self, read: Callable[[str], Any], entropy: Any, **config: Any) -> Sent:
        """One decision of a fresh device whose source is ``read``."""
        self._made.clear()
        options = {"attributes": {}, **config}
        holder = SimpleNamespace(**options, timing=Timing())
        deps = AgentEnv(self.clock, entropy, None)  # type: ignore[arg-type]
        store = MemoryAgentStore()
        data = Data(CallableSource(read), options["attributes"], store, self.clock)
        kept = KeptStates(Watches(None, self.clock, entropy))
        parts: Any = (holder, KIT.policy, deps, store, AnswerSources(data, kept), Wallet())
        (made,) = await Decider(*parts).decisions(self.log, self.log.recipes[:1], [])
        assert isinstance(made, Decision), "a decision is made now, whatever the datum is"
        entry = made.entry
        measurement = self._made[0] if self._made else SILENCE
        assert (entry.state is State.SCHEDULED) is (measurement is not SILENCE)
        return Sent(measurement, entry.send_at, entry.state, (entry.charged_epsilon, entry.charged_delta))

    async def law(
        self,
        read: Callable[[str], Any],
        seen: Callable[[Sent], Hashable] = lambda sent: sent.measurement,
        times: int = 1,
        **config: Any,
    ) -> Law:
        """The exact law of what is ``seen`` of the device's decision."""
        randomizer = randomizer_of(self.recipe)
        flips = randomizer.flips if isinstance(randomizer, Flips) else 1
        usual = 0 if isinstance(randomizer, Flips) else int(randomizer.output_probabilities()[0] * ONE)  # type: ignore[attr-defined]
        entropy, found = Enumerated(usual, flips, times), defaultdict[Hashable, Fraction](Fraction)
        for _ in entropy.runs():
            sent = await self.decide(read, entropy, **config)
            found[seen(sent)] += entropy.weight
        assert sum(found.values()) == 1
        return dict(found)


def divergence(one: Law, other: Law, epsilon: float) -> float:
    """The hockey-stick divergence of two laws at ``epsilon``."""
    return math.fsum(max(0.0, float(p) - math.exp(epsilon) * float(other.get(x, 0))) for x, p in one.items())


def log_ratio(one: Law, other: Law) -> float:
    """The largest log ratio of two laws' probabilities; infinite where one of them never gives what the other does."""
    if one.keys() != other.keys():
        return math.inf
    return max(abs(math.log(float(one[x])) - math.log(float(other[x]))) for x in one)


def convolved(laws: Sequence[Law], plus: Callable[[Any, Any], Any], zero: Hashable) -> Law:
    """The law of the sum of independent draws, one of each of ``laws``."""
    total: Law = {zero: Fraction(1)}
    for law in laws:
        following = defaultdict[Hashable, Fraction](Fraction)
        for (before, p), (more, q) in itertools.product(total.items(), law.items()):
            following[plus(before, more)] += p * q
        total = dict(following)
    return total
