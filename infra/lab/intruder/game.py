"""The distinguishing game: on which devices did the event happen?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from client_agent.panprivate.watch import Plan
from infra.lab.intruder.attackers import ATTACKERS, Attacker
from infra.lab.intruder.traces import ONCE, TOGETHER, Keeper, KeeperKind, Moments, Trace, devices
from infra.lab.intruder.verdict import Advantage, Verdict, judged_together
from infra.lab.kit.entropy import SeededEntropy


@dataclass(frozen=True, slots=True)
class GameResult:
    """The result of one game: the number of snapshots of storage and memory, and how well each attacker did."""

    snapshots: int
    attackers: tuple[Advantage, ...]

    @property
    def best(self) -> Advantage:
        """The attacker whose guesses were right the most often."""
        return self.verdict.best

    @property
    def verdict(self) -> Verdict:
        """Whether any attacker does better than chance."""
        return judged_together(self.attackers)


def judged(
    lives: Sequence[tuple[Trace, int]],
    learning: int,
    attackers: Sequence[Attacker] = ATTACKERS,
    beside: Sequence[tuple[Trace, int]] | None = None,
) -> GameResult:
    """Play the game over traces with their truths (1: with events); attackers learn from the first ``learning``.
    ``beside``: as many devices that lived side by side, for attackers by time (default: ``lives``). All others judge
    devices that lived one after the other, as what an event left in the process is then found in the same device."""
    found = []
    for attacker in attackers:
        traces, truths = zip(*(lives if beside is None or not attacker.by_time else beside), strict=True)
        labels, guessing = np.array(truths, dtype=np.int64), len(traces) - learning
        guess = attacker.learn(traces[:learning], labels[:learning])
        right = int((guess(traces[learning:]) == labels[learning:]).sum())
        found.append(Advantage(attacker.name, right, guessing))
    return GameResult(sum(trace.snapshots for trace, _ in lives), tuple(found))


def played(
    plan: Plan,
    learning: int,
    guessing: int,
    entropy: SeededEntropy,
    kind: KeeperKind = Keeper,
    moments: Moments = ONCE,
    tick: Callable[[], None] = lambda: None,
) -> GameResult:
    """Play the game over devices that keep a state: attackers learn from ``learning`` of them and guess for
    ``guessing`` fresh ones; all are observed at ``moments``. ``tick`` is called for every device, of those that live
    one after the other and of those side by side."""

    def lived(own: SeededEntropy, together: int) -> Iterator[tuple[Trace, int]]:
        for life in devices(plan, learning + guessing, own, kind, moments, together):
            tick()
            yield life

    alone, beside = list(lived(entropy, 1)), list(lived(entropy.child("beside"), TOGETHER))
    return judged(alone, learning, beside=beside)
