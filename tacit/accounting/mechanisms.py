"""Every mechanism that the platform accounts for, by name: what it takes, under which relation, what it answers.

``explain`` computes; nothing here is stored. The functions that cost little come from ``tacit.dp`` and are the ones
that devices use; compositions come from the PLD accountant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.accounting.accountants import epsilon_pld, epsilon_rdp
from tacit.accounting.calibrate import sigma_for
from tacit.accounting.events import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Gaussian,
    Laplace,
    Relation,
    Repeated,
    Sampled,
)
from tacit.dp import amplification, composition, donation, gaussian, parameters, poisson, rr_exact, sampling
from tacit.dp.hidden_count import Crowd, Turnout, dummies_epsilon
from tacit.errors import Refusal

Answer = dict[str, float]


@dataclass(frozen=True, slots=True)
class MechanismEntry:
    """One mechanism of the table: ``compute`` takes the parameters that its signature names."""

    name: str
    relation: Relation
    summary: str
    compute: Callable[..., Answer]

    def parameters(self) -> dict[str, bool]:
        """Parameter names, and whether each is required."""
        found = inspect.signature(self.compute).parameters
        return {name: parameter.default is inspect.Parameter.empty for name, parameter in found.items()}


def explain(name: str, given: Mapping[str, float]) -> Answer:
    """What mechanism ``name`` costs, or needs, with the parameters ``given``.

    Raises ``Refusal`` whose rule names the mechanism: for an unknown one, a missing or superfluous parameter, a value
    out of range.
    """
    entry = MECHANISMS.get(name)
    if entry is None:
        raise Refusal("mechanism-unknown", f"{name} is not known; choose one of {', '.join(MECHANISMS)}")
    wanted = entry.parameters()
    missing = [parameter for parameter, required in wanted.items() if required and parameter not in given]
    if missing:
        raise Refusal(f"{name}-parameters", f"{name} needs {', '.join(missing)}")
    surplus = [parameter for parameter in given if parameter not in wanted]
    if surplus:
        raise Refusal(f"{name}-parameters", f"{name} has no {', '.join(surplus)}; it takes {', '.join(wanted)}")
    try:
        return entry.compute(**given)
    except (ValueError, TypeError) as error:
        raise Refusal(f"{name}-parameters", str(error)) from error


def _shuffle(bound: Callable[[float, int, float], float]) -> Callable[..., Answer]:
    def compute(e0: float, n: int, delta: float) -> Answer:
        return {"epsilon": bound(e0, n, delta)}

    return compute


def _rr_exact(e0: float, n: int, delta: float) -> Answer:
    flip = rr_exact.rr_flip(e0)
    return {"epsilon": min(e0, rr_exact.epsilon_one_cell(flip, n, delta)), "flip": flip}


def _rappor_exact(e0: float, n: int, delta: float) -> Answer:
    flip = rr_exact.rappor_flip(e0)
    return {"epsilon": min(e0, rr_exact.epsilon_two_cells(flip, n, delta)), "flip": flip}


def _rappor_deletion(e0: float, n: int, delta: float) -> Answer:
    flip = rr_exact.rr_flip(e0)
    return {"epsilon": min(e0, rr_exact.epsilon_one_cell(flip, n, delta)), "flip": flip}


def _gaussian(sigma: float, delta: float, sensitivity: float = 1.0, rounds: int = 1) -> Answer:
    return {"epsilon": gaussian.epsilon_gaussian(sigma, delta, sensitivity, rounds)}


def _gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> Answer:
    return {
        "sigma": gaussian.sigma_gaussian(epsilon, delta, sensitivity),
        "sigma_classical": gaussian.classical_sigma(epsilon, delta, sensitivity),
    }


def _subsampled(sigma: float, q: float, delta: float, rounds: int = 1) -> Answer:
    event = Repeated(Sampled(Gaussian(sigma), q), rounds)
    return {
        "epsilon": epsilon_pld(event, delta, Relation.ADD_REMOVE),
        "epsilon_rdp": epsilon_rdp(event, delta, Relation.ADD_REMOVE),
    }


def _subsampled_sigma(epsilon: float, q: float, delta: float, rounds: int = 1) -> Answer:
    return {"sigma": sigma_for(epsilon, delta, q, rounds)}


def _noise(make: Callable[[float, Any], Event]) -> Callable[..., Answer]:
    def compute(scale: float, delta: float, sensitivity: int = 1, rounds: int = 1) -> Answer:
        return {"epsilon": epsilon_pld(Repeated(make(scale, sensitivity), rounds), delta, Relation.ADD_REMOVE)}

    return compute


def _sampling(epsilon: float, q: float) -> Answer:
    return {"epsilon": sampling.amplify(epsilon, q), "delta_factor": q}


def _sampling_visible(epsilon: float, q: float, n: int, delta: float) -> Answer:
    amplified = sampling.amplify_visible(epsilon, q, n, delta)
    if amplified is None:
        raise ValueError("sampling may not be claimed with these q, n and delta (P17b)")
    return {"epsilon": amplified, "q_eff": sampling.q_eff(q, n, delta / sampling.SPLIT)}


def _dummies(epsilon: float, delta: float) -> Answer:
    return {"lambda": poisson.dummy_intensity(epsilon, delta)}


def _dummies_cost(intensity: float, delta: float) -> Answer:
    return {"epsilon": poisson.epsilon_shift(intensity, delta)}


def _donation(epsilon: float, delta: float, m: int) -> Answer:
    """Appendix A of the SA2 paper for a Gaussian round calibrated to (epsilon, delta): each of m slots with probability
    1/m, the first one taken, batch sizes unseen; the total delta is 2 delta. That a device may never take part bounds
    both answers; the Gaussian's own distribution, or the composition of steps, may be less."""
    slots = parameters.reports(m, "m")
    parameters.failure_probability(delta)
    sigma = gaussian.sigma_gaussian(epsilon, delta)
    event = Repeated(Sampled(Gaussian(sigma), 1 / slots), slots)
    tight = epsilon_pld(event, 2 * delta, Relation.ADD_REMOVE)
    step, whole = sampling.amplify(epsilon, 1 / slots), sampling.amplify(epsilon, donation.yield_of(1 / slots, slots))
    return {
        "epsilon": min(whole, tight),
        "epsilon_any_round": min(whole, composition.epsilon_composed(step, delta / slots, slots, 2 * delta)),
        "delta": 2 * delta,
        "never": (1 - 1 / slots) ** slots,
    }


def _composition(epsilon: float, delta: float, rounds: int, total_delta: float) -> Answer:
    return {"epsilon": composition.epsilon_composed(epsilon, delta, rounds, total_delta)}


def _pure_sampled(e0: float, n: int, q: float, delta: float) -> Answer:
    """Example 6: a shuffled batch, sampled, its size hidden; the inner step at delta/q beside it."""
    inner = amplification.epsilon_fmt22(e0, n, delta)
    looser = amplification.epsilon_fmt22(e0, n, min(delta / q, 0.5))
    return {
        "epsilon": sampling.amplify(inner, q),
        "epsilon_inner": inner,
        "epsilon_inner_delta_over_q": sampling.amplify(looser, q),
    }


def _hidden_count(
    epsilon: float, q: float, n: int, delta: float, q0: float | None = None, intensity: float = 0.0, devices: int = 0
) -> Answer:
    """A pure ``epsilon`` of a batch of n under importance sampling (``q0`` for the default answer) or dummies."""
    if intensity and not devices:
        raise ValueError("dummies need the number of devices")
    turnout = Turnout(q, q if q0 is None else q0, intensity / devices if devices else 0.0)
    crowd = Crowd(turnout, parameters.reports(devices or n, "devices"), parameters.reports(n))
    return {
        "epsilon": crowd.epsilon(lambda _: epsilon, delta),
        "epsilon_count": crowd.count_epsilon(lambda _: epsilon, delta),
        "epsilon_dummies": dummies_epsilon(turnout, crowd.devices, delta),
        "epsilon_relay": epsilon + turnout.part_epsilon(),
    }


_REPLACED, _ADDED, _DELETED = Relation.REPLACEMENT, Relation.ADD_REMOVE, Relation.DELETION
MECHANISMS: dict[str, MechanismEntry] = {
    entry.name: entry
    for entry in (
        MechanismEntry(
            "shuffle-fmt22",
            _REPLACED,
            "n shuffled reports of an e0-LDP randomizer",
            _shuffle(amplification.epsilon_fmt22),
        ),
        MechanismEntry(
            "shuffle-fmt21",
            _REPLACED,
            "the same by the bound of 2021, for comparison",
            _shuffle(amplification.epsilon_fmt21),
        ),
        MechanismEntry("shuffle-sampled", _REPLACED, "shuffled reports of a hidden sample", _pure_sampled),
        MechanismEntry("rr-exact", _REPLACED, "the exact sum of n randomised bits", _rr_exact),
        MechanismEntry(
            "rappor-exact", _REPLACED, "the exact sums of n RAPPOR vectors, e0 by replacement", _rappor_exact
        ),
        MechanismEntry("rappor-deletion", _DELETED, "one cell of n RAPPOR vectors, e0 by deletion", _rappor_deletion),
        MechanismEntry("gaussian", _ADDED, "Gaussian noise, any number of releases", _gaussian),
        MechanismEntry("gaussian-sigma", _ADDED, "the noise that (epsilon, delta) needs", _gaussian_sigma),
        MechanismEntry("subsampled-gaussian", _ADDED, "Poisson-sampled Gaussian rounds (PLD and RDP)", _subsampled),
        MechanismEntry("subsampled-gaussian-sigma", _ADDED, "the noise that those rounds need", _subsampled_sigma),
        MechanismEntry("laplace", _ADDED, "Laplace noise", _noise(Laplace)),
        MechanismEntry("discrete-laplace", _ADDED, "discrete Laplace noise", _noise(DiscreteLaplace)),
        MechanismEntry("discrete-gaussian", _ADDED, "discrete Gaussian noise", _noise(DiscreteGaussian)),
        MechanismEntry("sampling", _ADDED, "a pure mechanism on a sample whose size is hidden", _sampling),
        MechanismEntry(
            "sampling-visible", _REPLACED, "a batch of n on a sample whose size is seen (P17b)", _sampling_visible
        ),
        MechanismEntry("dummies", _ADDED, "expected dummies that hide whether one device sent", _dummies),
        MechanismEntry("dummies-cost", _ADDED, "what so many expected dummies leave", _dummies_cost),
        MechanismEntry("donation", _ADDED, "randomised donation time over m slots", _donation),
        MechanismEntry("composition", _REPLACED, "the optimal composition of (epsilon, delta) steps", _composition),
        MechanismEntry(
            "hidden-count",
            _REPLACED,
            "a batch whose size depends on answers: importance, dummies",
            _hidden_count,
        ),
    )
}
