"""What every reader of a recipe needs to know about its model."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit.dp.claim import UNBOUNDED, Claim
from tacit.dp.hidden_claim import Sample
from tacit.dp.reports import Reports
from tacit.errors import Refusal
from tacit.methods.base.method import Method
from tacit.methods.base.proof import Proof
from tacit.methods.base.statistics import StatisticName
from tacit.models.parties import SHUFFLER, Parties

MIXING = (
    "A shuffler keeps all reports until the interval is over, drops them if there are fewer than {n:,}, and passes "
    "them on in one random order: if it is honest, leader, helper and gateway together guess which report came when "
    "with probability 1/{n:,} at best, for {n:,} honest devices. The numbers above do not count on it: they are as "
    "without it where it works with leader and helper, and with the relay it sees who takes part."
)
"""See ``Form.mixing_words``."""


class Cap(enum.Enum):
    """The policy cap that limits an adversary's epsilon."""

    AGGREGATE = "aggregate"
    """``max_epsilon_aggregator``, and ``max_epsilon_half_batch`` at B/2."""
    AGGREGATE_WITH_RELAY = "aggregate-with-relay"
    """``max_epsilon_aggregator_with_relay``, and ``max_epsilon_half_batch_with_relay`` at B/2."""
    LOCAL = "local"
    """``max_epsilon_local``: what single reports reveal."""


@dataclass(frozen=True, slots=True)
class Adversary:
    """One row of a claim. ``words`` describes the adversary to a person; ``{n}`` in it is the number of reports.
    ``unbounded``: a recipe may state that nothing is guaranteed; ``unprotected``: the model guarantees nothing,
    whatever a recipe states, so no policy refuses it for that. ``condition`` and ``otherwise``: a condition on which
    the number rests and that nobody enforces, and the adversary whose number applies where it does not hold (P16).
    ``pure``: its delta is 0. ``unseen``: it does not see who takes part, so sampling hides a device from it."""

    name: str
    words: str
    cap: Cap | None = None
    unbounded: bool = False
    unprotected: bool = False
    condition: str | None = None
    otherwise: str | None = None
    pure: bool = False
    unseen: bool = False


class Form(ABC):
    """The form of one model's recipes.

    ``parties``: the model's parties; ``opts_in``: the roles whose servers take part in every recipe, each with its own
    address (``opting_in`` are those of one recipe); ``different_operators``: pairs of roles that need different
    operators (P1), where a recipe names both.
    ``proves``: whether a recipe names a VDAF, and so has a DAP task, whose key opt-ins confirm; otherwise the recipe's
    hash stands for the task (P24). ``charged`` is the adversary whose epsilon is charged to an account (P22), and
    ``charged_with_relay`` the one for the balance beside it. ``refunds``: whether the charged adversary has learnt
    nothing from a recipe that ends without a release, so that void leaves give its cost back; never true for a model
    whose server opens reports as they come. ``watched``: for a model whose devices watch an event over steps (encoder
    kind ``occurrences``), its statistics and the randomizer of each; empty for a model whose devices answer from a
    stored value. ``closes``: how a batch may close.
    """

    name: ClassVar[str]
    parties: ClassVar[type[Parties]]
    opts_in: ClassVar[tuple[str, ...]]
    different_operators: ClassVar[tuple[tuple[str, str], ...]]
    proves: ClassVar[bool]
    adversaries: ClassVar[tuple[Adversary, ...]]
    charged: ClassVar[str]
    charged_with_relay: ClassVar[str]
    refunds: ClassVar[bool] = False
    watched: ClassVar[Mapping[StatisticName, str]] = {}
    closes: ClassVar[tuple[str, ...]] = ("interval_end", "at_B")

    @abstractmethod
    def claim(self, reports: Reports, sample: Sample, *, n: int, delta: float) -> Claim:
        """Compute the claim for batches of n messages, dummies included, from the epsilons of the method's ``reports``
        and from who sends. ``n`` below ``sample.batch`` means that the other messages are dishonest. ``ValueError``
        names a bad parameter, or says that there is no finite epsilon."""

    def answers_by(self, method: type[Method]) -> bool:
        """Whether devices of this model may randomise by ``method``: here, if its outputs can be proved valid."""
        return method.IS_PROVED

    def opting_in(self, parties: Parties) -> tuple[str, ...]:
        """The roles whose servers must all sign an opt-in before devices answer a recipe with these parties: those of
        ``opts_in``, and the shuffler where the recipe names one beside them."""
        return (*self.opts_in, SHUFFLER) if self.is_mixed(parties) else self.opts_in

    @property
    def may_mix(self) -> bool:
        """Whether recipes may name a shuffler that the model does not need."""
        return SHUFFLER in self.parties.model_fields and SHUFFLER not in self.opts_in

    def is_mixed(self, parties: Parties) -> bool:
        """Whether a recipe with these parties names a shuffler that its model does not need: reports, sealed to the
        model's own servers, then pass through it in one batch."""
        return self.may_mix and parties.server(SHUFFLER) is not None

    def mixing_words(self, parties: Parties, size: int) -> str:
        """What a shuffler that the model does not need adds to the claim, and what it does not, for batches of at least
        ``size`` contributions; empty without one."""
        return MIXING.format(n=size) if self.is_mixed(parties) else ""

    def closes_of(self, parties: Parties) -> tuple[str, ...]:
        """How a batch of a recipe with these parties may close: a shuffler forwards one batch, after the interval."""
        return ("interval_end",) if self.is_mixed(parties) else self.closes

    def proof(self, method: Method) -> Proof:
        """The VDAF that proves the outputs of ``method``, in a model with a VDAF. Raises refusal ``vdaf-parameters`` if
        none does."""
        if method.proof is None:
            raise Refusal("vdaf-parameters", f"no VDAF proves the outputs of {method.NAME}")
        return method.proof

    @property
    def names(self) -> tuple[str, ...]:
        """The adversaries' names, in the order of documents."""
        return tuple(one.name for one in self.adversaries)

    @property
    def conditions(self) -> dict[str, dict[str, str]]:
        """The conditions on which claims rest, as documents state them."""
        return {
            one.name: {"if": one.condition, "otherwise": one.otherwise}
            for one in self.adversaries
            if one.condition is not None and one.otherwise is not None
        }

    def adversary(self, name: str) -> Adversary | None:
        """The adversary of this name; None if the model has none of that name."""
        return next((one for one in self.adversaries if one.name == name), None)

    def capped(self, *caps: Cap) -> tuple[Adversary, ...]:
        """The adversaries that are limited by one of ``caps`` (by any cap if none is given)."""
        return tuple(one for one in self.adversaries if one.cap is not None and (not caps or one.cap in caps))

    def unclaimed(self) -> dict[str, str]:
        """Placeholders for the epsilons of a claim that has yet to be computed."""
        return dict.fromkeys(self.names, "0")

    def epsilon_problem(self, epsilon: Mapping[str, Any]) -> str | None:
        """Why ``epsilon``, by adversary, is not a claim of this model; None if it is."""
        for one in self.adversaries:
            if one.name not in epsilon:
                return f"{one.name}: is missing"
            if epsilon[one.name] == UNBOUNDED and not one.unbounded:
                return f"{one.name}: must be a decimal number"
        extra = sorted(set(epsilon) - set(self.names))
        return f"{extra[0]}: not an adversary of {self.name}" if extra else None
