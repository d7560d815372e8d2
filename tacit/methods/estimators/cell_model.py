"""From noisy counts of a sample to counts of the whole population, with standard errors.

Model: each of N devices takes part on its own with probability r_v, where v is its answer (``SampleDesign``: all but
the default, whose index is 0 here, have the same). Its output is sent with probability ``sent``, whatever the answer
(RAPPOR's weight bound), so that it reports with ``t_v = r_v sent``; one that does not report sends a dummy with
probability p. In a report the cell of the device's own answer is one with probability h (``hit``), any other with n
(``noise``); in a dummy every cell is one with probability d (``dummy``). With ``s_v = t_v + (1 - t_v) p`` the
expectations of the m reports and of the ones c_u in cell u are

    ``E m = sum_v s_v N_v``,  ``E c_u = t_u (h - n) N_u + n R + d (E m - R)``,  R = ``sum_v t_v N_v`` real reports.

A device without an answer takes part at the rate of the default, if there is one, and sends a dummy when it does
(P27): nothing tells it from a dummy of P20, but its number is not that of the design. What it adds to an estimate is
``missing_adds``: in a uniform sample ``(d - n)/(h - n)`` to each cell, 1/c where outputs are one-hot, as if the devices
without an answer were spread evenly over the cells, and next to nothing in rappor.

The dummies enter every cell alike: a diagonal and a matrix of rank one, which m resolves. All answers but the default
have one t and one s, so with ``k = t/s`` (the share of real reports among theirs) ``R = k E m + (t_0 - k s_0) N_0``
and

    ``E c_u = t_u (h - n) N_u + b E m + e N_0``,  ``b = d + (n - d) k``,  ``e = (n - d)(t_0 - k s_0)``,
    ``N_0 = (c_0 - b m) / (t_0 (h - n) + e)``,  ``N_u = (c_u - b m - e N_0) / (t (h - n))``,

unbiased over sampling, dummies and randomisation together, whatever N. Without dummies k = 1, b = n and e = 0; in a
uniform sample without dummies this is ``(c - m n) / (q (h - n))``. In one-hot outputs (h + (c-1) n = 1, d = 1/c) it is
the exact solution of ``c = A^T N``.

Variance. A device that sends bits b adds ``x b_u + y b_0 + z`` to the estimate of cell u, with ``x = 1 / (t (h -
n))``, ``y = -x e / (t_0 (h - n) + e)``, ``z = -x b t_0 (h - n) / (t_0 (h - n) + e)`` (for the default's own cell: ``x
= 1 / (t_0 (h - n) + e)``, y = 0, z = -x b), and in expectation 1 if u is its answer, else 0. Bits are 0 or 1, so

    ``Var N_u = z^2 E m + (x^2 + 2 x z) E c_u + (y^2 + 2 y z) E c_0 + 2 x y J - N_u``,

J the expected reports with ones in both cells (``pairs``: the probability in a report whose answer is one of the two,
in another one, in a dummy; 0 in one-hot outputs). In a uniform sample without dummies that is

    ``X [h(1-h) / (q (h-n)^2) + (1-q)/q] + (N - X) n(1-n) / (q (h-n)^2)``.

It is a sum of the devices' own variances, of which dummies and unequal rates are a part. The reported standard error
puts m for E m and the estimates for N_0 and N_u, clipped to what m reports allow (``m / s``); estimates are never
clipped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from tacit.methods.base.design import SampleDesign
from tacit.methods.base.estimate import Estimate


@dataclass(frozen=True, slots=True)
class _Group:
    """Devices of one rate: how likely each of them is to send a real report (t), and to send anything (s)."""

    takes: float
    sends: float

    @property
    def real(self) -> float:
        """The share of real reports among the reports they send."""
        return self.takes / self.sends


@dataclass(frozen=True, slots=True)
class CellModel:
    """How the cells of a report are distributed: h, n, d, ``sent`` and ``pairs`` as defined in the module's docstring.
    Counts and truths hold every category where the design has a default; otherwise each cell stands for itself."""

    hit: float
    noise: float
    design: SampleDesign
    dummy: float = 0.0
    sent: float = 1.0
    pairs: tuple[float, float, float] = (0.0, 0.0, 0.0)
    _rest: _Group = field(init=False, repr=False, compare=False)
    _defaults: _Group = field(init=False, repr=False, compare=False)
    _base: float = field(init=False, repr=False, compare=False)
    _excess: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # computed once per model and not per cell: an estimate of 256 cells reads each of them about a thousand times
        rest, defaults = self._group(self.design.rate), self._group(self.design.rate_of(self.design.default))
        object.__setattr__(self, "_rest", rest)
        object.__setattr__(self, "_defaults", defaults)
        object.__setattr__(self, "_base", self.dummy * (1 - rest.real) + self.noise * rest.real)
        excess = (self.noise - self.dummy) * (defaults.takes - rest.real * defaults.sends)
        object.__setattr__(self, "_excess", excess)

    def estimate(self, counts: Sequence[int], reports: int) -> Estimate:
        """Values and plug-in standard errors of all cells."""
        values = self._solved(counts, reports)
        return Estimate(values, self._reported(values, reports))

    def missing_adds(self, cells: int) -> tuple[float, ...]:
        """What a device without an answer adds in expectation to the estimate of each of ``cells`` cells. Whatever it
        sends is a dummy, and it sends as often as a holder of the default does."""
        sends = self._group(self.design.rate_of(None)).sends
        return self._solved([sends * self.dummy] * cells, sends)

    def _solved(self, counts: Sequence[float], reports: float) -> tuple[float, ...]:
        default, above = self.design.default, [count - self._base * reports for count in counts]
        held = 0.0 if default is None else above[default] / self._slope(default)
        return tuple(
            held if cell == default else (one - self._excess * held) / self._slope(cell)
            for cell, one in enumerate(above)
        )

    def stderrs(self, truth: Sequence[float], population: float) -> tuple[float, ...]:
        """Standard deviations of the estimates when ``truth`` holds the true number of devices per cell among
        ``population`` devices."""
        default = self.design.default
        held = 0.0 if default is None else truth[default]
        reports = self._rest.sends * (population - held) + self._defaults.sends * held
        return tuple(self._stderr(cell, holders, held, reports) for cell, holders in enumerate(truth))

    def _reported(self, values: Sequence[float], reports: int) -> tuple[float, ...]:
        default, held = self.design.default, 0.0
        if default is not None:
            held = min(max(values[default], 0.0), reports / self._defaults.sends)
        most = (reports - self._defaults.sends * held) / self._rest.sends
        clipped = (held if cell == default else min(max(value, 0.0), most) for cell, value in enumerate(values))
        return tuple(self._stderr(cell, holders, held, reports) for cell, holders in enumerate(clipped))

    def _stderr(self, cell: int, holders: float, held: float, reports: float) -> float:
        """The standard error of one cell. ``held`` devices have the default answer; ``reports`` are expected."""
        base, default, x, y, both = self._base * reports, self.design.default, 1 / self._slope(cell), 0.0, 0.0
        own = base + holders / x
        default_own = 0.0
        if default is not None and cell != default:
            own += self._excess * held
            default_own = base + self._slope(default) * held
            y = -x * self._excess / self._slope(default)
            both = self._both(holders, held, reports)
        z = -self._base * (x + y)
        second = z * z * reports + x * (x + 2 * z) * own + y * (y + 2 * z) * default_own + 2 * x * y * both
        return math.sqrt(max(0.0, second - holders))

    def _both(self, holders: float, held: float, reports: float) -> float:
        """Expected number of reports with ones both in a cell with ``holders`` and in the default's cell."""
        rest, defaults = self._rest, self._defaults
        real = rest.real * reports + (defaults.takes - rest.real * defaults.sends) * held
        either = rest.takes * holders + defaults.takes * held
        own, other, dummy = self.pairs
        return own * either + other * (real - either) + dummy * (reports - real)

    def _group(self, rate: float) -> _Group:
        takes = rate * self.sent
        return _Group(takes, self.design.sends(takes))

    def _slope(self, cell: int) -> float:
        """How much one holder of the cell's value raises its count, once the others are accounted for."""
        if cell == self.design.default:
            return self._defaults.takes * (self.hit - self.noise) + self._excess
        return self._rest.takes * (self.hit - self.noise)


def check_counts(counts: Sequence[int], cells: int, n: int, design: SampleDesign, categories: int) -> None:
    """Raise ``ValueError`` naming what does not fit ``cells`` cells of n reports, or ``categories`` answers."""
    if isinstance(n, bool) or n < 1:
        raise ValueError("n must be at least 1")
    if len(counts) != cells:
        raise ValueError(f"counts must hold {cells} cells")
    if any(not 0 <= count <= n for count in counts):
        raise ValueError("counts must lie between 0 and n")
    if design.default is not None and not 0 <= design.default < categories:
        raise ValueError(f"the default answer must be from 0 to {categories - 1}")
