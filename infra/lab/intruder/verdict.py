"""Whether an attacker guesses better than chance: an exact test of all attackers together.

Every fresh device's truth is a fair coin. If its events leave no trace, the number of an attacker's right guesses among
N is binomial with N tries and probability 1/2, whatever it learnt and however it guesses. All attackers guess for the
same devices, so their numbers depend on each other; each is tested at the false-alarm rate divided by the number of
attackers (Bonferroni), which holds for any dependence. Bounds on advantages are Clopper and Pearson's at the same
level, so an attacker's lower bound is above 0 exactly if the test finds it better than chance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

FALSE_ALARM = 1e-3
"""Largest probability that the test finds an attacker better than chance although devices reveal nothing."""
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class Advantage:
    """How an attacker did: it was ``right`` in so many of its ``guesses`` for devices that it had not learnt from."""

    name: str
    right: int
    guesses: int

    @property
    def advantage(self) -> float:
        """2 (share of right guesses - 1/2): 0 for a coin, 1 for an attacker that knows the truth."""
        return 2 * self.right / self.guesses - 1

    @property
    def stderr(self) -> float:
        """The standard error of a coin's advantage."""
        return 1 / math.sqrt(self.guesses)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The test over ``attackers``, with bounds that hold for all of them at once except with probability
    ``false_alarm``."""

    attackers: tuple[Advantage, ...]
    false_alarm: float = FALSE_ALARM

    @property
    def best(self) -> Advantage:
        """The attacker that was right most often."""
        return max(self.attackers, key=lambda one: one.advantage)

    @property
    def found(self) -> tuple[Advantage, ...]:
        """The attackers that guess better than chance, the best first."""
        known = [one for one in self.attackers if chance_of(one.right, one.guesses) <= self._level]
        return tuple(sorted(known, key=lambda one: -one.advantage))

    @property
    def most(self) -> float:
        """Upper bound on every attacker's advantage, with confidence 1 - ``false_alarm``."""
        return max(2 * highest_rate(one.right, one.guesses, self._level) - 1 for one in self.attackers)

    @property
    def least(self) -> float:
        """Lower bound on the best attacker's advantage, with confidence 1 - ``false_alarm``; below 0 if the attacker
        may be no better than a coin."""
        return 1 - 2 * highest_rate(self.best.guesses - self.best.right, self.best.guesses, self._level)

    @property
    def test_words(self) -> str:
        """How many guesses were tested, and the probability of a false alarm."""
        guesses = f"{self.best.guesses:,} guesses by each of {len(self.attackers)} attackers"
        return f"test of {guesses}, false alarm {self.false_alarm:g}"

    @property
    def words(self) -> str:
        """Whether any attacker did better than chance, which ones, and what was tested."""
        if not self.found:
            return f"no attacker did better than chance ({self.test_words})"
        names = " and ".join(one.name for one in self.found)
        verb = "guesses" if len(self.found) == 1 else "guess"
        noun = "attacker" if len(self.found) == 1 else "attackers"
        return f"{noun} {names} {verb} better than chance: what these devices keep reveals events ({self.test_words})"

    @property
    def bound_words(self) -> str:
        """The best attacker's advantage with its bound, in words."""
        best, sure = self.best, f"{100 * (1 - self.false_alarm):g} % confidence for all at once"
        what = f"best: {best.name}, {best.right:,} of {best.guesses:,} right, advantage {best.advantage:.2f}"
        if self.found:
            return f"{what}, at least {self.least:.2f} ({sure})"
        return f"{what}; no attacker has more than {self.most:.2f} ({sure})"

    @property
    def _level(self) -> float:
        return self.false_alarm / len(self.attackers)


def judged_together(attackers: Sequence[Advantage], false_alarm: float = FALSE_ALARM) -> Verdict:
    """Return the verdict on ``attackers``. Raises ``ValueError`` without any, or for a rate outside (0, 1)."""
    if not attackers or not 0 < false_alarm < 1:
        raise ValueError("a verdict needs attackers, and a false-alarm rate between 0 and 1")
    return Verdict(tuple(attackers), false_alarm)


@lru_cache(maxsize=1024)
def chance_of(right: int, guesses: int) -> float:
    """Return P(at least ``right`` of ``guesses`` fair coins are right), exactly."""
    return float(sum(math.comb(guesses, count) for count in range(right, guesses + 1)) / 2**guesses)


@lru_cache(maxsize=1024)
def highest_rate(right: int, guesses: int, level: float) -> float:
    """Return Clopper and Pearson's upper bound, at confidence 1 - ``level``, on the probability of being right: the
    rate at which ``right`` or fewer of ``guesses`` are right with probability ``level``."""
    if right >= guesses:
        return 1.0
    low, high = right / guesses, 1.0
    for _ in range(_HALVINGS):
        rate = (low + high) / 2
        if _at_most(right, guesses, rate) > level:
            low = rate
        else:
            high = rate
    return high


def _at_most(count: int, tries: int, rate: float) -> float:
    """Return P(at most ``count`` of ``tries`` succeed); ``rate`` lies strictly between 0 and 1."""
    odds = (1 - rate) / rate
    term = math.exp(math.log(math.comb(tries, count)) + count * math.log(rate) + (tries - count) * math.log1p(-rate))
    terms = [term]
    for one in range(count, 0, -1):
        term *= odds * one / (tries - one + 1)
        terms.append(term)
    return math.fsum(terms)
