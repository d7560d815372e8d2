"""The periods that an account has to be looked at in: finitely many stand for all.

A period of W seconds holds every charge that it touches. Sliding it towards the future until it is about to lose a
charge only adds charges, so that periods beginning one second before some charge ends stand for all others; and of
these, one that holds nothing new beside the one before it is a part of that one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from tacit.ledger.account import Charge


def begins(charges: Sequence[Charge], seconds: int, around: Charge | None = None) -> Iterator[int]:
    """Where the periods of ``seconds`` begin that hold all that any of them holds of ``charges``; with ``around``
    (which need not be among ``charges``) only those that touch it."""
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
    """What the periods of ``begins`` hold, ``around`` left out."""
    for begin in begins(charges, seconds, around):
        yield tuple(charge for charge in charges if charge is not around and charge.touches(begin, begin + seconds))
