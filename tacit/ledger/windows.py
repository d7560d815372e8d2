"""The periods in which an account must be checked: finitely many represent all.

A period of W seconds holds every charge that it touches. Sliding it towards the future until it is about to lose a
charge only adds charges, so the periods that begin one second before some charge ends represent all others. Of these, a
period that holds nothing new compared with the one before it is contained in that one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tacit.ledger.account import Charge


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


def windows(charges: Sequence[Charge], seconds: int, around: Charge | None = None) -> Iterator[tuple[Charge, ...]]:
    """Yield the charges of each period of ``begins``, without ``around``."""
    for begin in begins(charges, seconds, around):
        yield tuple(charge for charge in charges if charge is not around and charge.touches(begin, begin + seconds))
