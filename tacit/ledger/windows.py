"""The periods in which an account must be checked: finitely many represent all.

A period of W seconds holds every charge that it touches. Sliding it towards the future until it is about to lose a
charge only adds charges, so the periods that begin one second before some charge ends represent all others. Of these, a
period that holds nothing new compared with the one before it is contained in that one.

The promise is one about every fixed period: the charges that touch it are a subset of a log in which each was admitted
only while all that counted and touch the same period fitted together, so they passed the filter, in the order in which
they were published; whatever lies outside the period is chosen from results and needs no account of its own. What is
void told nothing, so what was told is always part of something that fitted. No promise is made about a period that is
itself chosen after its results.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from tacit.ledger.account import Charge
from tacit.ledger.filter import Filter, Weight


def begins(charges: Sequence[Charge], seconds: int, around: Charge | None = None) -> Iterator[int]:
    """Yield the starts of those periods of ``seconds`` that together represent all periods over ``charges``; with
    ``around`` (which need not be among ``charges``) only those that touch it."""
    ends = {charge.end for charge in charges}
    if around is not None:
        first = around.start - seconds
        ends = {end for end in ends if first < end - 1 < around.end} | {around.end}
    starts = sorted(charge.start for charge in charges)
    reached = -1
    for begin in sorted(end - 1 for end in ends):
        reach = bisect_left(starts, begin + seconds)
        if reach > reached:
            reached = reach
            yield begin


@dataclass(frozen=True, slots=True)
class Period:
    """The period from ``begin`` on (POSIX seconds), and the weight of all charges in it."""

    begin: int
    weight: Weight


def periods(charges: Sequence[Charge], seconds: int, gate: Filter, around: Charge | None = None) -> list[Period]:
    """Every period of ``begins``, with the weight of its charges (without ``around``): a period holds every charge that
    begins before its end, except those that ended before it began, so each weight is a difference of running sums."""
    held = [charge for charge in charges if charge is not around]
    begun, ended = sorted(held, key=lambda one: one.start), sorted(held, key=lambda one: one.end)
    starts, ends = [one.start for one in begun], [one.end for one in ended]
    before, behind = _running(begun, gate), _running(ended, gate)
    return [
        Period(begin, before[bisect_left(starts, begin + seconds)].less(behind[bisect_right(ends, begin)]))
        for begin in begins(charges, seconds, around)
    ]


def _running(charges: Iterable[Charge], gate: Filter) -> list[Weight]:
    """The weights of the first 0, 1, 2, ... charges together."""
    sums = [Weight()]
    for charge in charges:
        sums.append(sums[-1].plus(gate.weigh([charge.cost])))
    return sums
