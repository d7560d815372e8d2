"""Mechanisms that devices run, as an operator asks about them: local randomizers, shuffled or summed reports, noise
shares.

Every answer comes from the function in ``tacit.dp`` that devices and aggregators use themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tacit.accounting.events import Relation
from tacit.dp import amplification, parameters, rr_exact, sampling, shuffled_counts
from tacit.dp.binomial import log_pmf
from tacit.dp.hidden_count import Crowd, SendingRates, dummies_epsilon
from tacit.dp.reports import NoiseStep
from tacit.dp.vector_noise import VectorStep
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.draws import epsilon0_from
from tacit.methods.base.method import LocalMethod
from tacit.methods.base.statistics import HISTOGRAM, Shape
from tacit.methods.estimators.cell_model import CellModel
from tacit.methods.planners.registry import planner_of

Quantities = dict[str, float]
_NEVER = 1e-9
"""The delta for which a method is tuned when only a single report is considered."""


def shuffled_entry(bound: Callable[[float, int, float], float]) -> Callable[..., Quantities]:
    """Make the entry for n shuffled reports from one of the clones bounds."""

    def compute(e0: float, n: int, delta: float) -> Quantities:
        return {"epsilon": bound(e0, n, delta)}

    return compute


def shuffled_sample(e0: float, n: int, q: float, delta: float) -> Quantities:
    """Example 6 of the SA2 paper: a shuffled, sampled batch whose size is hidden, together with its inner step at
    delta/q."""
    inner = amplification.epsilon_fmt22(e0, n, delta)
    looser = amplification.epsilon_fmt22(e0, n, min(delta / q, 0.5))
    return {
        "epsilon": sampling.amplify(inner, q),
        "epsilon_inner": inner,
        "epsilon_inner_delta_over_q": sampling.amplify(looser, q),
    }


def rr_exact_sum(e0: float, n: int, delta: float) -> Quantities:
    """The exact epsilon, ``e0`` at most, of the count of n bits that were each flipped with probability ``flip``."""
    flip = rr_exact.rr_flip(e0)
    return {"epsilon": min(e0, rr_exact.epsilon_one_cell(flip, n, delta)), "flip": flip}


def rappor_exact_sums(e0: float, n: int, delta: float, relation: Relation) -> Quantities:
    """The counts of n RAPPOR vectors. e0 is stated for ``relation``: two cells change by replacement, one by
    deletion."""
    if relation is Relation.DELETION:
        return rr_exact_sum(e0, n, delta)
    flip = rr_exact.rappor_flip(e0)
    return {"epsilon": min(e0, rr_exact.epsilon_two_cells(flip, n, delta)), "flip": flip}


def rr_local(e0: float, n: int = 1) -> Quantities:
    """One randomised bit, and the error of the count over n of them."""
    flip = rr_exact.rr_flip(e0)
    return {"epsilon": e0, "keep": 1 - flip, "flip": flip, **_errors(1 - flip, flip, n)}


def krr_local(e0: float, k: int, n: int = 1) -> Quantities:
    """One randomised category out of k, and the error of one category's count."""
    if parameters.reports(k, "k") < 2:
        raise ValueError("k must be at least 2")
    other = 1 / (math.exp(parameters.local_epsilon(e0)) + k - 1)
    keep = math.exp(e0) * other
    return {"epsilon": e0, "keep": keep, "other": other, **_errors(keep, other, n)}


def one_report(method: type[LocalMethod]) -> Callable[..., Quantities]:
    """One report of a method for k categories, and the error of one category's count, without the rejection of outputs
    whose proof is too heavy."""

    def compute(e0: float, k: int, n: int = 1) -> Quantities:
        shape = Shape(HISTOGRAM, parameters.reports(k, "k"))
        made = planner_of(method).tuned(shape, epsilon0_from(e0), parameters.reports(n), _NEVER)
        keep, other = map(float, made.output_probabilities())
        return {"epsilon": made.local_epsilon, "keep": keep, "other": other, **_errors(keep, other, n)}

    return compute


def rappor_local(e0: float, relation: Relation, n: int = 1) -> Quantities:
    """One RAPPOR vector with every cell flipped at the same rate; e0 is stated for ``relation``."""
    flip = rr_exact.rr_flip(e0) if relation is Relation.DELETION else rr_exact.rappor_flip(e0)
    one = math.log1p(-flip) - math.log(flip)
    both = {"epsilon_replacement": 2 * one, "epsilon_deletion": one}
    return {"epsilon": e0, **both, "flip": flip, **_errors(1 - flip, flip, n)}


def flips_exact(
    scale: int,
    flips: int,
    n: int,
    delta: float,
    relation: Relation,
    maximum: int = 1,
    cells: int = 1,
    batch_flips: int = 0,
) -> Quantities:
    """Noise shares in a sum in which one replaced answer moves ``cells`` cells (1: a count, sum or mean; 2: a
    histogram) by up to ``maximum``; an answer that becomes all zero moves one cell. ``batch_flips`` are the flips that
    one honest aggregator adds."""
    moved = 1 if relation is Relation.DELETION else cells
    step = NoiseStep(_positive("scale", scale), _positive("flips", flips), _positive("maximum", maximum), moved,
                     batch_flips=_spare(batch_flips))  # fmt: skip
    return _shares(step, n, delta)


def flips_vector(
    scale: int,
    flips: int,
    n: int,
    delta: float,
    length: int,
    maximum: int,
    norm: int,
    relation: Relation,
    signs: int = 2,
    batch_flips: int = 0,
) -> Quantities:
    """Noise shares in a sum of vectors of ``length`` entries, each at most ``maximum`` apart, with L2 norm up to
    ``norm``. ``signs`` is 1 where no entry may be negative (or none positive), else 2."""
    if signs not in (1, 2):
        raise ValueError("signs must be 1 or 2")
    for name, value in (("length", length), ("maximum", maximum), ("norm", norm)):
        _positive(name, value)
    moved = (
        VectorStep.deleted(length, maximum, norm)
        if relation is Relation.DELETION
        else VectorStep.replaced(length, maximum, norm, one_signed=signs == 1)
    )
    step = NoiseStep(_positive("scale", scale), _positive("flips", flips), vector=moved,
                     batch_flips=_spare(batch_flips))  # fmt: skip
    return _shares(step, n, delta)


def sampled_visibly(epsilon: float, q: float, n: int, delta: float) -> Quantities:
    """A sampled batch of n whose size is visible (P17b)."""
    amplified = sampling.amplify_visible(epsilon, q, n, delta)
    if amplified is None:
        raise ValueError("amplification by sampling cannot be claimed with these q, n and delta (P17b)")
    return {"epsilon": amplified, "q_eff": sampling.q_eff(q, n, delta / sampling.SPLIT)}


def hidden_count(
    epsilon: float, q: float, n: int, delta: float, q0: float | None = None, intensity: float = 0.0, devices: int = 0
) -> Quantities:
    """A pure ``epsilon`` of a batch of n under importance sampling (``q0`` is the rate of the default answer) or
    dummies. Under importance sampling there are at least ``devices`` devices (default: one), and the bound holds
    whether the batch fills or not."""
    if intensity and not devices:
        raise ValueError("dummies need the number of devices")
    rates = SendingRates(q, q if q0 is None else q0, intensity / devices if devices else 0.0)
    known = n if rates.rate == rates.least_rate else 1
    crowd = Crowd(rates, parameters.reports(devices or known, "devices"), parameters.reports(n))
    return {
        "epsilon": crowd.epsilon(lambda _: epsilon, delta),
        "epsilon_count": crowd.count_epsilon(lambda _: epsilon, delta),
        "epsilon_unfilled": crowd.unfilled_epsilon(lambda _: epsilon, delta),
        "epsilon_dummies": dummies_epsilon(rates, crowd.devices, delta),
        "epsilon_relay": epsilon + rates.part_epsilon(),
    }


def shuffled_count(intensity: float, n: int, delta: float) -> Quantities:
    """A count in the shuffled model (zsum) to which ``intensity`` of n devices are expected to add one; more than
    n / 2, where each tosses a fair coin, count as n / 2."""
    return _compute_shuffled(shuffled_counts.epsilon_zsum, intensity, n, delta)


def shuffled_histogram(intensity: float, n: int, delta: float) -> Quantities:
    """A histogram in the shuffled model (hist); ``intensity`` as in ``shuffled_count``, for every category."""
    return _compute_shuffled(shuffled_counts.epsilon_hist, intensity, n, delta)


def _compute_shuffled(
    epsilon_of: Callable[[int, float, float], float], intensity: float, n: int, delta: float
) -> Quantities:
    noise = min(parameters.finite("intensity", intensity), parameters.reports(n) / 2)
    return {
        "epsilon": epsilon_of(n, noise, delta),
        "standard_deviation": math.sqrt(noise * (1 - noise / n)),
    }


def _shares(step: NoiseStep, n: int, delta: float) -> Quantities:
    total = parameters.reports(n) * step.flips + step.batch_flips
    deviation = math.sqrt(parameters.reports(total, "n * flips")) / (2 * step.scale)
    return {"epsilon": step.aggregate_epsilon(n, delta), "standard_deviation": deviation}


def _errors(hit: float, noise: float, n: int) -> Quantities:
    """Exact errors of the count over n reports where nobody holds the value: standard deviation, and mean absolute
    error (A. de Moivre: ``E|X - n p| = 2 (m + 1) (1 - p) Pr[X = m + 1]``, ``m = floor(n p)``)."""
    parameters.reports(n)
    m = math.floor(n * noise)
    absolute = 2 * (m + 1) * (1 - noise) * math.exp(log_pmf(m + 1, n, noise))
    (standard,) = CellModel(hit, noise, SampleDesign(1.0)).stderrs([0.0], n)
    return {"standard_error": standard, "mean_absolute_error": absolute / (hit - noise)}


def _positive(name: str, value: int) -> int:
    return parameters.reports(value, name)


def _spare(batch_flips: int) -> int:
    return parameters.reports(batch_flips, "batch_flips") if batch_flips else 0
