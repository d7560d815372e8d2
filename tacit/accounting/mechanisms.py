"""Every mechanism that the platform accounts for, by name: its parameters, its relations and its answers.

``explain`` computes; nothing here is stored. The cheap functions come from ``tacit.dp`` and are the ones that devices
use; compositions come from the PLD accountant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tacit.accounting import device_mechanisms as devices
from tacit.accounting import server_mechanisms as server
from tacit.accounting.budgets import compose_steps
from tacit.accounting.device_mechanisms import Quantities
from tacit.accounting.events import DiscreteGaussian, DiscreteLaplace, Laplace, Relation
from tacit.accounting.fixed_steps import compose_fixed
from tacit.dp import amplification, composition, poisson, sampling
from tacit.dp.heterogeneous import Step, epsilon_heterogeneous
from tacit.errors import Refusal
from tacit.methods.base.method import LocalMethod
from tacit.methods.krr import Krr
from tacit.methods.rappor import Rappor
from tacit.methods.registry import METHODS
from tacit.methods.rr import Rr

REPLACED, ADDED, DELETED = Relation.REPLACEMENT, Relation.ADD_REMOVE, Relation.DELETION


@dataclass(frozen=True, slots=True)
class MechanismEntry:
    """One mechanism of the table. ``compute`` takes the parameters that its signature names, and the relation where the
    answer depends on it.

    ``relations`` says, for each supported relation, what two neighbouring data sets differ in; the first is the
    default. ``rising`` and ``falling`` name the parameters with which epsilon grows and shrinks.
    """

    name: str
    relations: Mapping[Relation, str]
    summary: str
    compute: Callable[..., Quantities]
    rising: tuple[str, ...] = ()
    falling: tuple[str, ...] = ()
    _signature: inspect.Signature = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_signature", inspect.signature(self.compute))

    @property
    def relation(self) -> Relation:
        """The relation that applies where the caller names none: the first of ``relations``."""
        return next(iter(self.relations))

    def parameters(self) -> dict[str, bool]:
        """The parameters of ``compute`` but for the relation; True for one that has no default."""
        found = self._signature.parameters
        return {name: one.default is one.empty for name, one in found.items() if name != "relation"}

    def integral(self, parameter: str) -> bool:
        """Whether ``compute`` takes whole numbers only as this parameter. Raises ``KeyError`` for an unknown one."""
        return bool(self._signature.parameters[parameter].annotation == "int")

    def answers(self, given: Mapping[str, Any], relation: Relation) -> Quantities:
        """Call ``compute`` with whole-number parameters as integers. ``ValueError`` or ``TypeError`` names what is out
        of range."""
        values = {
            name: int(value) if self.integral(name) and isinstance(value, float) and value.is_integer() else value
            for name, value in given.items()
        }
        return self.compute(**values, **({"relation": relation} if "relation" in self._signature.parameters else {}))


def explain(name: str, given: Mapping[str, Any], relation: Relation | None = None) -> Quantities:
    """Compute what mechanism ``name`` costs, or needs, with the parameters ``given`` under ``relation`` (None: its
    first).

    Raises ``Refusal`` whose rule names the mechanism: for an unknown mechanism, a missing or superfluous parameter, or
    a value out of range; and ``mechanism-relation`` for a relation under which it has no answer.
    """
    entry = entry_of(name)
    chosen = relation_of(entry, relation)
    wanted = entry.parameters()
    missing = [parameter for parameter, required in wanted.items() if required and parameter not in given]
    if missing:
        raise Refusal(f"{name}-parameters", f"{name} needs {', '.join(missing)}")
    surplus = [parameter for parameter in given if parameter not in wanted]
    if surplus:
        raise Refusal(f"{name}-parameters", f"{name} has no {', '.join(surplus)}; it takes {', '.join(wanted)}")
    try:
        return entry.answers(given, chosen)
    except (ValueError, TypeError) as error:
        raise Refusal(f"{name}-parameters", str(error)) from error


def entry_of(name: str) -> MechanismEntry:
    """Return the mechanism of this name. Raises refusal ``mechanism-unknown``."""
    entry = MECHANISMS.get(name)
    if entry is None:
        raise Refusal("mechanism-unknown", f"{name} is not known; choose one of {', '.join(MECHANISMS)}")
    return entry


def relation_of(entry: MechanismEntry, wanted: Relation | None) -> Relation:
    """Return the relation to use. Raises refusal ``mechanism-relation``, which names the supported ones."""
    if wanted is None or wanted in entry.relations:
        return wanted or entry.relation
    raise Refusal(
        "mechanism-relation",
        f"{entry.name} has no answer for {wanted}; choose one of {', '.join(entry.relations)}",
    )


def _sampling(epsilon: float, q: float) -> Quantities:
    return {"epsilon": sampling.amplify(epsilon, q), "delta_factor": q}


def _dummies(epsilon: float, delta: float) -> Quantities:
    return {"lambda": poisson.dummy_intensity(epsilon, delta)}


def _dummies_cost(intensity: float, delta: float) -> Quantities:
    return {"epsilon": poisson.epsilon_shift(intensity, delta)}


def _composition(epsilon: float, delta: float, rounds: int, total_delta: float) -> Quantities:
    return {"epsilon": composition.epsilon_composed(epsilon, delta, rounds, total_delta)}


def _heterogeneous(steps: tuple[Step, ...], total_delta: float) -> Quantities:
    """Steps that are fixed beforehand, by privacy loss distributions and by light bounds; steps that are chosen one
    after another, as accounts hold them; and the plain sum of the epsilons, side by side."""
    if not steps:
        raise ValueError("at least one step is needed")
    light = epsilon_heterogeneous(steps, total_delta)
    return {
        "epsilon": compose_fixed(steps, total_delta),
        "epsilon_light": light,
        "epsilon_adaptive": compose_steps(steps, total_delta),
        "epsilon_added": sum(epsilon for epsilon, _ in steps),
        "delta_added": sum(delta for _, delta in steps),
    }


def _further() -> Iterator[MechanismEntry]:
    """Entries for the categorical methods that hide an answer locally and have no further parameters. One bit of a
    number costs what ``rr`` costs."""
    for one in METHODS.values():
        if issubclass(one, LocalMethod) and not issubclass(one, Rr | Krr | Rappor):
            about = "one report of k categories, randomised by " + one.NAME
            yield MechanismEntry(one.NAME, _CATEGORY, about, devices.one_report(one), ("e0",))


_VALUE = {REPLACED: "one device's value becomes any other value"}
_BIT = {**_VALUE, DELETED: "one device's bit becomes 0, which costs the same"}
_CATEGORY = {**_VALUE, DELETED: "one device's category becomes a fixed one, which costs the same at worst"}
_RAPPOR = {
    REPLACED: "one device's category becomes another one: two cells change; e0 is by replacement",
    DELETED: "one device's vector becomes all zero: one cell changes; e0 is by deletion",
}
_SHARES = {
    REPLACED: "one device's answer becomes any other answer; its noise share stays",
    DELETED: "one device's answer becomes all zero; its noise share stays",
}
_CONTRIBUTION = {
    ADDED: "one report, contributing at most the sensitivity, exists or does not",
    REPLACED: "one report becomes any other: twice the sensitivity apart",
    DELETED: "one report becomes one that contributes nothing",
}
_HIDDEN = {ADDED: "one device exists or does not; nobody sees how many were sampled"}
_ANY = {
    REPLACED: "those of the steps: all by replacement",
    ADDED: "those of the steps: all by add-remove",
    DELETED: "those of the steps: all by deletion",
}
_SENT = {ADDED: "one report is sent or is not"}
_NOISE_FALLS = ("scale", "delta")
_NOISE_RISES = ("sensitivity", "rounds")
_SHARES_FALL = ("flips", "batch_flips", "n", "delta")
MECHANISMS: dict[str, MechanismEntry] = {
    entry.name: entry
    for entry in (
        MechanismEntry(Rr.NAME, _BIT, "one randomised bit", devices.rr_local, ("e0",)),
        MechanismEntry(Krr.NAME, _CATEGORY, "one of k categories, randomised", devices.krr_local, ("e0",)),
        MechanismEntry(Rappor.NAME, _RAPPOR, "one vector of flipped cells", devices.rappor_local, ("e0",)),
        *_further(),
        MechanismEntry(
            "shuffle-fmt22", _VALUE, "n shuffled reports of an e0-LDP randomizer",
            devices.shuffled_entry(amplification.epsilon_fmt22), ("e0",), ("n", "delta"),
        ),
        MechanismEntry(
            "shuffle-fmt21", _VALUE, "the same by the bound of 2021, for comparison",
            devices.shuffled_entry(amplification.epsilon_fmt21), ("e0",), ("n", "delta"),
        ),
        MechanismEntry(
            "shuffle-sampled", _VALUE, "shuffled reports of a hidden sample",
            devices.shuffled_sample, ("e0", "q"), ("n", "delta"),
        ),
        MechanismEntry(
            "zsum-exact", _VALUE, "a count of n shuffled devices, of which lambda are expected to add one",
            devices.shuffled_count, (), ("intensity", "n", "delta"),
        ),
        MechanismEntry(
            "hist-exact", _VALUE, "the same for every category of a histogram, exactly and jointly",
            devices.shuffled_histogram, (), ("intensity", "n", "delta"),
        ),
        MechanismEntry(
            "rr-exact", _BIT, "the exact sum of n randomised bits", devices.rr_exact_sum, ("e0",), ("n", "delta")
        ),
        MechanismEntry(
            "rappor-exact", _RAPPOR, "the exact sums of n RAPPOR vectors",
            devices.rappor_exact_sums, ("e0",), ("n", "delta"),
        ),
        MechanismEntry(
            "rappor-deletion", {DELETED: _RAPPOR[DELETED]}, "one cell of n RAPPOR vectors",
            devices.rr_exact_sum, ("e0",), ("n", "delta"),
        ),
        MechanismEntry(
            "flips-exact", _SHARES, "noise shares of n devices in the cells that one answer moves",
            devices.flips_exact, ("scale", "maximum", "cells"), _SHARES_FALL,
        ),
        MechanismEntry(
            "flips-vector", _SHARES, "noise shares of n devices in a sum of vectors",
            devices.flips_vector, ("scale", "length", "maximum", "norm"), _SHARES_FALL,
        ),
        MechanismEntry(
            "gaussian", _CONTRIBUTION, "Gaussian noise, one or more releases",
            server.gaussian, _NOISE_RISES, ("sigma", "delta"),
        ),
        MechanismEntry(
            "gaussian-sigma", _CONTRIBUTION, "the Gaussian noise that (epsilon, delta) needs", server.gaussian_sigma
        ),
        MechanismEntry(
            "subsampled-gaussian", _CONTRIBUTION, "Poisson-sampled Gaussian rounds, sensitivity 1 (PLD and RDP)",
            server.subsampled, ("q", "rounds"), ("sigma", "delta"),
        ),
        MechanismEntry(
            "subsampled-gaussian-sigma", _CONTRIBUTION, "the noise that those rounds need", server.subsampled_sigma
        ),
        MechanismEntry(
            "laplace", _CONTRIBUTION, "Laplace noise", server.noise(Laplace), _NOISE_RISES, _NOISE_FALLS
        ),
        MechanismEntry(
            "discrete-laplace", _CONTRIBUTION, "discrete Laplace noise",
            server.integer_noise(DiscreteLaplace), _NOISE_RISES, _NOISE_FALLS,
        ),
        MechanismEntry(
            "discrete-gaussian", _CONTRIBUTION, "discrete Gaussian noise",
            server.integer_noise(DiscreteGaussian), _NOISE_RISES, _NOISE_FALLS,
        ),
        MechanismEntry(
            "sampling", _HIDDEN, "a pure mechanism on a sample whose size is hidden", _sampling, ("epsilon", "q")
        ),
        MechanismEntry(
            "sampling-visible", _VALUE, "a batch of n on a sample whose size is seen (P17b)",
            devices.sampled_visibly, ("epsilon", "q"), ("n",),
        ),
        MechanismEntry("dummies", _SENT, "expected dummies that hide whether one device sent", _dummies),
        MechanismEntry(
            "dummies-cost", _SENT, "the epsilon that a given number of expected dummies leaves",
            _dummies_cost, (), ("intensity", "delta"),
        ),
        MechanismEntry(
            "donation", _HIDDEN, "randomised donation time over m slots", server.donation, ("epsilon",), ("m",)
        ),
        MechanismEntry(
            "composition", _ANY, "the optimal composition of equal (epsilon, delta) steps",
            _composition, ("epsilon", "delta", "rounds"), ("total_delta",),
        ),
        MechanismEntry(
            "heterogeneous", _ANY, "the composition of different (epsilon, delta) steps",
            _heterogeneous, (), ("total_delta",),
        ),
        MechanismEntry(
            "hidden-count", _VALUE, "a batch whose size depends on answers: importance sampling, dummies",
            devices.hidden_count, ("epsilon", "q"), ("n", "q0", "delta"),
        ),
    )
}  # fmt: skip
