"""The methods by their names in a recipe. A new method needs one line here."""

from __future__ import annotations

from tacit.methods.base.affine import AffineHashing
from tacit.methods.base.method import Method
from tacit.methods.base.statistics import Shape, Statistic
from tacit.methods.flips import Flips
from tacit.methods.krr import Krr
from tacit.methods.one_bit import OneBit
from tacit.methods.oue import Oue
from tacit.methods.rappor import Rappor
from tacit.methods.rr import Rr
from tacit.methods.shuffled import Zsum
from tacit.methods.shuffled_few import Flipped, Unbiased
from tacit.methods.succinct_histogram.histogram import PaperHistogram

METHODS: dict[str, type[Method]] = {
    one.NAME: one
    for one in (Krr, Rappor, Oue, Rr, Flips, OneBit, AffineHashing, PaperHistogram, Zsum, Unbiased, Flipped)
}
"""Ordered by preference: a question takes the first method that fits."""


def method_named(name: str) -> type[Method]:
    """Return the method that a recipe names. ``ValueError`` for an unknown name."""
    found = METHODS.get(name)
    if found is None:
        raise ValueError(f"randomizer {name!r} is not known, expected one of {', '.join(METHODS)}")
    return found


def methods_of(statistic: Statistic) -> tuple[type[Method], ...]:
    """The methods for questions with this statistic, the default first."""
    return tuple(one for one in METHODS.values() if statistic.name in one.STATISTICS)


def methods_for(shape: Shape) -> tuple[type[Method], ...]:
    """The methods that can answer exactly this question, the default first."""
    return tuple(one for one in METHODS.values() if one.fits(shape))
