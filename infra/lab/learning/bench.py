"""Accuracy against epsilon on handwritten digits: this system beside central DP-SGD and training without privacy.

All three have the same devices, coins, rounds, local training and server optimiser. Central DP-SGD trusts its server:
its epsilon is that of adding or removing a device, where nobody sees how many take part. This system's is claim (a) of
a series: by replacement, which moves a sum twice as far, with sizes of batches seen, and for the fewest reports that a
batch may have; so it needs about 2.7 times the noise.
"""

from __future__ import annotations

import statistics
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from infra.lab.learning.population import EXAMPLES, DataSet, digits, population
from infra.lab.learning.rounds import Central, Flips, Liars, trained
from tacit.dp.repeated.rounds import epsilon_sampled_gaussian
from tacit.errors import FieldError
from tacit.learning.plan import EXAMPLE, Plan
from tacit.methods.estimators.flips import FlipsEstimator
from tacit.operations.learning.plans import flips_of, unplaced_series
from tacit.recipe.fields import parse_fields
from tacit.recipe.quantity import exact
from tacit.recipe.training import BuiltIn

PLAN: Final = Plan.model_validate(EXAMPLE)
"""What is trained unless another plan is given: the example of ``tacit learn plan``."""
EPSILONS: Final = (1.0, 2.0, 4.0)
_HUNDREDTHS: Final = (30, 10_000)
NONE, CENTRAL, OURS = "no privacy", "central DP-SGD", "noise shares"
LIES: Final = {
    "1 % lie": Liars(0.01),
    "2 % lie": Liars(0.02),
    "0.1 % lie in every round": Liars(0.001, always=True),
    "1 % lie in every round": Liars(0.01, always=True),
}
"""Who lies as badly as a proof lets through: of the devices that take part in a round, and of all devices, whatever
their coins say."""


@dataclass(frozen=True, slots=True)
class Line:
    """A sort of training at one epsilon (None: without privacy): accuracies of the last round on the test set, one for
    each seed, the noise of a round's sum in norms, and the length, in norms, of what one device can add at most (None
    where nothing proves it)."""

    kind: str
    epsilon: float | None
    noise: float
    accuracies: tuple[float, ...]
    losses: tuple[float, ...]
    influence: float | None = None

    @property
    def accuracy(self) -> float:
        """Median of the runs' accuracies (shares from 0 to 1)."""
        return statistics.median(self.accuracies)

    def members(self) -> dict[str, Any]:
        """The line as JSON, rounded to 4 places; ``influence_norms`` is null where nothing proves it."""
        return {
            "kind": self.kind,
            "private": self.epsilon is not None,
            "epsilon": self.epsilon,
            "noise_per_norm": round(self.noise, 4),
            "influence_norms": None if self.influence is None else round(self.influence, 4),
            "accuracy": round(self.accuracy, 4),
            "accuracies": [round(one, 4) for one in self.accuracies],
            "loss": round(statistics.median(self.losses), 4),
        }


def planned(devices: int, epsilon: float, plan: Plan = PLAN) -> Plan:
    """The plan for so many devices and this epsilon, with a minimum batch size in proportion. Raises ``FieldError``,
    also for steps that do not take all examples of a device."""
    if (plan.training.batch_size or EXAMPLES) < EXAMPLES:
        raise FieldError("training.batch_size", f"must be at least {EXAMPLES}, all examples of a device, or absent")
    least = plan.min_batch_size * devices // plan.devices
    changed = {"devices": devices, "min_batch_size": least, "epsilon": Decimal(repr(epsilon))}
    return parse_fields(Plan, {**plan.model_dump(mode="json", exclude_none=True), **changed})


def central_noise(plan: Plan) -> Central:
    """The least Gaussian noise, in hundredths of the norm, with which the plan's rounds keep its epsilon and delta."""
    rate, epsilon, delta = float(plan.rate), float(plan.epsilon), float(plan.delta)

    def holds(hundredths: int) -> bool:
        return epsilon_sampled_gaussian(hundredths / 100, rate, plan.rounds, delta) <= epsilon

    tried = range(*_HUNDREDTHS)
    return Central(tried[bisect_left(tried, x=True, key=holds)] / 100)


def own_noise(plan: Plan) -> Flips:
    """The noise share of the plan's series, and how long a contribution its proof accepts. Raises ``FieldError`` where
    there is none, with what would have one."""
    method = flips_of(unplaced_series(plan))
    return Flips(method.noise_share, FlipsEstimator(method).one_vector / float(exact(plan.encoder.norm)))


def measured(
    devices: int,
    epsilons: Sequence[float],
    seeds: int,
    tell: Callable[[float], None] = lambda _: None,
    base: Plan = PLAN,
    data: DataSet | None = None,
) -> Iterator[Line]:
    """Train with every sort of noise, ``seeds`` times each, with a population of its own each time. ``tell`` is given
    the share done; ``data``: what devices have (default: the digits). Raises ``FieldError`` as ``planned`` and
    ``own_noise``, and for a plan that does not train on them."""
    require_fitting(base, data or digits())
    plans = {epsilon: planned(devices, epsilon, base) for epsilon in epsilons}
    own = {epsilon: own_noise(plan) for epsilon, plan in plans.items()}
    runs, made = (1 + (2 + len(LIES)) * len(plans)) * seeds, 0

    def line(kind: str, epsilon: float | None, noise: Flips | Central | None, liars: Liars | None = None) -> Line:
        nonlocal made
        ends = []
        for seed in range(seeds):
            ends.append(trained(population(devices, seed, data), base, noise, seed, liars)[-1])
            made += 1
            tell(made / runs)
        accuracies, losses = zip(*((end.accuracy, end.loss) for end in ends), strict=True)
        longest = noise.longest if isinstance(noise, Flips) else None
        return Line(kind, epsilon, _size(noise, base, devices), accuracies, losses, longest)

    yield line(NONE, None, None)
    for epsilon, plan in plans.items():
        yield line(CENTRAL, epsilon, central_noise(plan))
        yield line(OURS, epsilon, own[epsilon])
        for name, liars in LIES.items():
            yield line(f"{OURS}, {name}", epsilon, own[epsilon], liars)


def require_fitting(plan: Plan, data: DataSet) -> None:
    """Raise ``FieldError`` for a plan whose model does not take the examples of ``data``."""
    spec, inputs, classes = plan.training.architecture, data.train.features.shape[1], int(data.train.labels.max()) + 1
    if not isinstance(spec, BuiltIn) or spec.inputs != inputs or spec.classes < classes:
        raise FieldError("training.architecture", f"must have {inputs} inputs and {classes} classes")


def _size(noise: Flips | Central | None, plan: Plan, devices: int) -> float:
    """The standard deviation of a round's sum in each entry, in norms, where as many take part as expected."""
    if noise is None:
        return 0.0
    return noise.size(plan.encoder, float(plan.rate) * devices)


def document(lines: Sequence[Line], devices: int, plan: Plan = PLAN, data: DataSet | None = None) -> dict[str, Any]:
    """What was measured, as a JSON object."""
    stated = plan.model_dump(
        mode="json", exclude_none=True, include={"training", "clip", "unit", "server", "rate", "rounds"}
    )
    return {
        "devices": devices,
        "delta": float(plan.delta),
        "plan": stated,
        "test_examples": len((data or digits()).test),
        "lines": [line.members() for line in lines],
    }
