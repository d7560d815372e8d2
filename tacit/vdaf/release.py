"""The sum of both aggregate shares of a released batch, with a check that it is plausible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit.vdaf.count_vec import Prio3CountVec
from tacit.vdaf.l1_bound_sum import Prio3L1BoundSum
from tacit.vdaf.l2_bound_sum import Prio3L2BoundSum
from tacit.vdaf.prio3 import (
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
)
from tacit.vdaf.sum_vec_field64 import Prio3SumVecField64Multiproof
from tacit.vdaf.vector_bounds import VectorBounds


def added_up(vdaf: Prio3[Any], shares: Sequence[list[int]], report_count: int, slack: int = 0) -> tuple[int, ...]:
    """The sum per coordinate (one value for scalar VDAFs) of the shares of ``report_count`` reports. ``slack``: how far
    the aggregators' noise may move each number, which is then signed.

    Raises ``ValueError`` for sums that no such number of verified reports can give: a share that was tampered with, or
    that belongs to another batch, gives values of the size of the field.
    """
    result = vdaf.unshard(None, shares, report_count)
    values = (result,) if isinstance(result, int) else tuple(result)
    if slack:
        modulus = vdaf.field.MODULUS
        values = tuple(value - modulus if value > modulus // 2 else value for value in values)
    require_plausible(vdaf, values, report_count, slack)
    return values


def require_plausible(vdaf: Prio3[Any], values: tuple[int, ...], report_count: int, slack: int = 0) -> None:
    """Raise ``ValueError`` for sums that no ``report_count`` verified reports can give; ``slack`` as for
    ``added_up``."""
    if not _plausible(vdaf, values, report_count, slack):
        raise ValueError(f"the values cannot be the sum of {report_count} valid reports")


def _plausible(vdaf: Prio3[Any], values: tuple[int, ...], report_count: int, slack: int) -> bool:
    # no slack for these: aggregators add noise only where devices do, to sums and vectors
    if isinstance(vdaf, Prio3Histogram) and sum(values) != report_count:
        return False
    if isinstance(vdaf, (Prio3Count, Prio3CountVec, Prio3Histogram, Prio3MultihotCountVec)):
        return all(0 <= value <= report_count for value in values)
    if isinstance(vdaf, (Prio3Sum, Prio3SumVec, Prio3SumVecField64Multiproof)):
        return all(-slack <= value <= report_count * vdaf.max_measurement + slack for value in values)
    if isinstance(vdaf, Prio3L1BoundSum):
        most = report_count * vdaf.max_value
        return min(values) >= -slack and sum(values) <= most + slack * len(values)
    if isinstance(vdaf, Prio3L2BoundSum):
        within = all(-slack <= value <= report_count * vdaf.bounds.largest + slack for value in values)
        return within and _short_enough(vdaf.bounds, values, report_count, slack)
    return True


def _short_enough(bounds: VectorBounds, values: tuple[int, ...], report_count: int, slack: int) -> bool:
    """Whether the vectors without their noise can add up to this: the sum's length is at most that of all together."""
    most_noise, middle = report_count * bounds.flips + slack, report_count * bounds.scale * bounds.centre
    shifts = (value - middle for value in values)
    # what noise added lies between -slack and most_noise; the rest of each shift is the vectors' own, at least this
    least = sum(max(0, shift - most_noise, -slack - shift) ** 2 for shift in shifts)
    return least <= (report_count * bounds.scale) ** 2 * bounds.max_square
