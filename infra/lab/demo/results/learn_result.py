"""What a training run produced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infra.lab.demo.results.result import DemoResult
from tacit.dp.claim import UNBOUNDED

CURVE_TITLE = "What each round learned, on digits that no device has"
STEP_HEADINGS = ("round", "contributions", "loss", "accuracy", "ε so far")
OURS, CENTRAL, NONE = "this run", "central DP-SGD (a trusted server)", "no privacy"
HONEST = "this run without liars, in memory"


@dataclass(frozen=True, slots=True)
class Step:
    """A released round: how many took part; loss (nats) and accuracy of the model that it gave on digits that no device
    has; the epsilon of all rounds so far against one aggregator."""

    contributions: int
    loss: float
    accuracy: float
    epsilon: float

    def cells(self, number: int) -> tuple[str, str, str, str, str]:
        """The row of round ``number``, which counts from 1."""
        return str(number), f"{self.contributions:,}", f"{self.loss:.3f}", f"{self.accuracy:.1%}", f"{self.epsilon:.2f}"


@dataclass(frozen=True, slots=True)
class Line:
    """A training of the same devices beside the run: the loss after each round, and the accuracy in the end."""

    name: str
    losses: tuple[float, ...]
    accuracy: float
    epsilon: float | None
    """Epsilon against one aggregator; None for a training without privacy."""

    @property
    def words(self) -> str:
        """Name and, of a training with privacy, epsilon against one aggregator."""
        return self.name if self.epsilon is None else f"{self.name}, ε {self.epsilon:.2f}"


@dataclass(frozen=True, slots=True)
class Lies:
    """How many devices lie, in every round, and the length in clips of what each adds."""

    devices: int
    clips: float


@dataclass(frozen=True, kw_only=True)
class LearnResult(DemoResult):
    """The whole run, which has no answers (``buckets``). ``beside``: the same training with a trusted server, without
    privacy and, where devices lie (``lies``), without liars; ``clip``: the length to which devices shrink their
    updates."""

    steps: tuple[Step, ...]
    beside: tuple[Line, ...]
    clip: float
    lies: Lies | None = None

    @property
    def accuracy(self) -> float:
        """Share of the test examples that the last model classifies rightly, 0 to 1."""
        return self.steps[-1].accuracy

    @property
    def lines(self) -> tuple[Line, ...]:
        """The run, and then those beside it."""
        losses, last = tuple(step.loss for step in self.steps), self.steps[-1]
        return (Line(OURS, losses, last.accuracy, last.epsilon), *self.beside)

    @property
    def found_words(self) -> str:
        return (
            "The lines beside this run have its devices, rounds and training, with coins of their own. A trusted "
            "server's ε is for a device that is there or not; this run's is for a device whose digits are others, and "
            "holds for its smallest batch: so it has about three times the noise." + self._lies_words
        )

    @property
    def _lies_words(self) -> str:
        """What liars did, in two sentences; nothing where none lied."""
        if self.lies is None:
            return ""
        number, mean = self.lies.devices, sum(step.contributions for step in self.steps) / len(self.steps)
        who = "One device lies" if number == 1 else f"{number:,} devices lie"
        return (
            f" {who}, in every round: {number / mean:.1%} of its contributions. Each adds {self.lies.clips:.1f} clips, "
            "the most that a proof lets through, in the direction that does the model most harm."
        )

    def document(self) -> dict[str, Any]:
        """The JSON document of ``tacit demo --learn --json``. ``private``: whether the run's epsilon against one
        aggregator is finite; ``honest_accuracy``: without liars (null: there are none)."""
        ends = {line.name: round(line.accuracy, 4) for line in self.beside}
        return {
            "devices": self.devices,
            "rounds": [
                {
                    "round": number,
                    "contributions": step.contributions,
                    "loss": round(step.loss, 4),
                    "accuracy": round(step.accuracy, 4),
                }
                for number, step in enumerate(self.steps, 1)
            ],
            "accuracy": round(self.accuracy, 4),
            "central_accuracy": ends[CENTRAL],
            "honest_accuracy": ends.get(HONEST),
            "liars": 0 if self.lies is None else self.lies.devices,
            "private": self.privacy["epsilon"] != UNBOUNDED,
            "epsilon": dict(self.privacy["by_adversary"]),
            "delta": self.privacy["delta"],
            "clip": self.clip,
            "seconds": round(self.seconds, 2),
        }
