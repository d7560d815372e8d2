"""The privacy claim of a recipe: epsilon per adversary (design rules P16, P17, P17b).

Every party recomputes it from the recipe's parameters; a recipe that states less is refused. It is stated at n = B, and
policy also looks at floor(B/2), because half the batch may belong to the adversary. The recipe's model
(``tacit.models.forms``) defines the adversaries and which bounds of this package give the number of each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

from tacit.dp import parameters

UNBOUNDED = "unbounded"
"""The text stated in place of an infinite epsilon, where nothing is guaranteed."""
SAMPLING_SUFFIX = "+sampling"
RELATION = "replacement"

TOLERANCE = 1e-9
"""Relative slack of comparisons between a stated claim and a recomputed one."""


@dataclass(frozen=True, slots=True)
class Claim(Mapping[str, float]):
    """epsilon ``by_adversary`` at failure probability ``delta``, by replacement, for batches of n reports; infinite
    where nothing is guaranteed. The object is a mapping over the adversaries of the recipe's model."""

    by_adversary: Mapping[str, float]
    mechanism: str
    relation: str
    n: int
    epsilon0: float
    delta: float

    def __getitem__(self, adversary: str) -> float:
        """epsilon against ``adversary``."""
        return self.by_adversary[adversary]

    def __iter__(self) -> Iterator[str]:
        """The adversaries, in the order of documents."""
        return iter(self.by_adversary)

    def __len__(self) -> int:
        """How many adversaries there are."""
        return len(self.by_adversary)

    def stated(self) -> dict[str, float | str]:
        """The claim as documents carry it: ``unbounded`` in place of infinity."""
        return {name: value if math.isfinite(value) else UNBOUNDED for name, value in self.items()}

    def rounded_up(self) -> dict[str, str]:
        """The claim as a recipe states it: decimal strings, rounded up to 6 places, or ``unbounded``."""
        return {name: stated_epsilon(value) for name, value in self.items()}

    def changed(self, epsilon: Mapping[str, float], **others: Any) -> Claim:
        """Copy this claim with other epsilons for the adversaries in ``epsilon``, and other members as in
        ``others``."""
        return replace(self, by_adversary={**self.by_adversary, **epsilon}, **others)

    def no_worse_than(self, fewer: Claim) -> Claim:
        """This claim, lowered where ``fewer``, the claim for a smaller batch of the same recipe, is lower.

        True epsilon never grows with n (further reports are independent noise); a bound may, where the chance
        of a rejected report is paid for per report.
        """
        if fewer.n > self.n:
            raise ValueError("fewer must be the claim of a batch that is not larger")
        return self.changed({name: min(value, fewer[name]) for name, value in self.items()})

    def exceeds(self, stated: Mapping[str, str]) -> tuple[str, ...]:
        """Return the adversaries for which ``stated`` (decimal strings) is missing or below this claim by more than
        ``TOLERANCE``."""
        return tuple(name for name, value in self.items() if not covers(stated.get(name, "-1"), value))


def covers(stated: str, computed: float) -> bool:
    """Whether a stated epsilon is at least the computed one, up to ``TOLERANCE``."""
    return _number(stated) >= computed * (1 - TOLERANCE)


def stated_epsilon(value: float) -> str:
    """``value`` rounded up to 6 places, or ``unbounded``."""
    return decimal_up(value) if math.isfinite(value) else UNBOUNDED


def _number(text: str) -> float:
    return math.inf if text == UNBOUNDED else float(Decimal(text))


def decimal_up(value: float, places: int = 6) -> str:
    """``value`` rounded up to ``places`` decimals, without trailing zeros or exponent."""
    number = parameters.epsilon("value", value)
    with localcontext() as context:
        context.prec = 60
        # of the shortest decimal that stands for it: 0.1 stays 0.1, while its binary value would become 0.100001
        text = format(Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), rounding=ROUND_CEILING), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
