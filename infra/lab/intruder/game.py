"""The distinguishing game: on which devices did the event happen?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from infra.lab.intruder.attackers import ATTACKERS, Attacker
from infra.lab.intruder.traces import Trace
from infra.lab.intruder.verdict import Advantage, Verdict, judged_together


@dataclass(frozen=True, slots=True)
class GameResult:
    """The result of one game: the number of snapshots of storage and memory, and how well each attacker did."""

    snapshots: int
    attackers: tuple[Advantage, ...]

    @property
    def best(self) -> Advantage:
        """The attacker that did best."""
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
