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


def judged(lives: Sequence[tuple[Trace, int]], learning: int, attackers: Sequence[Attacker] = ATTACKERS) -> GameResult:
    """Play the game over traces with their truths (1: with events); attackers learn from the first ``learning``."""
    traces, truths = zip(*lives, strict=True)
    labels, guessing = np.array(truths, dtype=np.int64), len(lives) - learning
    found = []
    for attacker in attackers:
        guess = attacker.learn(traces[:learning], labels[:learning])
        right = int((guess(traces[learning:]) == labels[learning:]).sum())
        found.append(Advantage(attacker.name, right, guessing))
    return GameResult(sum(trace.snapshots for trace in traces), tuple(found))
