"""The protocols zsum and hist of the shuffled model: what a user sends, and what the analyzer makes of all messages.

Theory (Balcer and Cheu, "Separating Local & Shuffled Differential Privacy via Histograms", 2020, Figures 1 and 2). A
user of ``zsum`` sends a message for its bit, and one more except with probability ``lambda / n``. The shuffler hides
whose message is whose, so that the analyzer sees ``x + n - Bin(n, lambda / n)`` messages for a true count x. No more
than n of them are noise: what an empty cell shows is never above n, and is reported as 0. ``hist`` is one such cell for
each category.

Categories count from 0. ``lambda`` (``noise``) comes from the paper (``published``), or from the exact calibration in
``tacit.dp.shuffled_counts`` (``exact``), which is 20 to 90 times smaller. Neighbours differ by replacement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Protocol, Self, TypeVar

from infra.lab.shuffled.bounds import require_enough_users
from tacit.dp import parameters, shuffled_counts
from tacit.methods.base.draws import ONE, bernoulli
from tacit.ports import Entropy

Multiset = Mapping[int, int]
"""How often each message was sent: all that a uniformly random order leaves of who sent what."""
Value_contra = TypeVar("Value_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
Value = TypeVar("Value")
Result = TypeVar("Result")
THE_MESSAGE = 1
"""What every message of ``zsum`` is."""


class ShuffledProtocol(Protocol[Value_contra, Result_co]):
    """A protocol of the shuffled model for a number of users that everybody knows."""

    @property
    def users(self) -> int:
        """n of the paper: how many users take part."""

    def randomise(self, value: Value_contra, entropy: Entropy, /) -> tuple[int, ...]:
        """The messages of one user, in any number and order. ``ValueError`` for a value outside the domain."""

    def analyse(self, messages: Multiset, /) -> Result_co:
        """The result, from what the shuffler shows. ``ValueError`` for what n users cannot have sent."""


def shuffle(vectors: Iterable[Sequence[int]]) -> Counter[int]:
    """What the analyzer learns from a shuffler that has put the messages of all users into a uniformly random order."""
    return Counter(message for vector in vectors for message in vector)


def run(protocol: ShuffledProtocol[Value, Result], values: Sequence[Value], entropy: Entropy) -> Result:
    """Run a protocol, each user for itself. ``ValueError`` where there is not one value for each user."""
    if len(values) != protocol.users:
        raise ValueError(f"{protocol.users} values are needed, one for each user")
    return protocol.analyse(shuffle(protocol.randomise(value, entropy) for value in values))


@dataclass(frozen=True, slots=True)
class Zsum:
    """The share of users whose bit is 1. ``users``: n, from 1 to 1e9; ``noise``: lambda, above 0 and below n: the
    noise messages that are missing on average. ``ValueError`` names a parameter that is out of range."""

    users: int
    noise: float
    _withheld: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parameters.reports(self.users, "users")
        if not 0 < parameters.finite("noise", self.noise) < self.users:
            raise ValueError("noise must be above 0 and below users")
        object.__setattr__(self, "_withheld", -int(-Fraction(self.noise) * ONE // self.users))

    @classmethod
    def published(cls, epsilon: float, delta: float, users: int) -> Self:
        """With the paper's lambda. ``ValueError`` for fewer users than Theorem 3.1 asks for."""
        require_enough_users(epsilon, delta, users)
        return cls(users, shuffled_counts.paper_lambda(epsilon, delta))

    @classmethod
    def exact(cls, epsilon: float, delta: float, users: int) -> Self:
        """With the least lambda that is enough. ``ValueError`` where none is."""
        return cls(users, shuffled_counts.lambda_zsum(epsilon, delta, users))

    @property
    def p(self) -> float:
        """The probability of a user's noise message, ``1 - lambda / n``."""
        return 1 - self.noise / self.users

    def randomise(self, value: int, entropy: Entropy, /) -> tuple[int, ...]:
        """Nothing, one message or two. ``value`` is 0 or 1."""
        if value not in (0, 1):
            raise ValueError("a value must be 0 or 1")
        return (THE_MESSAGE,) * (value + self._noise_bit(entropy))

    def analyse(self, messages: Multiset, /) -> float:
        """The estimated share of ones, 0 or above ``lambda / n``."""
        if set(messages) - {THE_MESSAGE}:
            raise ValueError(f"every message must be {THE_MESSAGE}")
        return self.share_of(messages.get(THE_MESSAGE, 0))

    def share_of(self, total: int) -> float:
        """The estimate from the number of messages."""
        if not 0 <= total <= 2 * self.users:
            raise ValueError(f"{self.users} users send from 0 to {2 * self.users} messages each cell")
        return (total - self.users + self.noise) / self.users if total > self.users else 0.0

    def _noise_bit(self, entropy: Entropy) -> int:
        return int(not bernoulli(self._withheld, entropy))


@dataclass(frozen=True, slots=True)
class Hist:
    """The share of users in each of ``categories``, at least 1: a cell of ``Zsum`` for each."""

    cell: Zsum
    categories: int

    def __post_init__(self) -> None:
        parameters.reports(self.categories, "categories")

    @classmethod
    def published(cls, epsilon: float, delta: float, users: int, categories: int) -> Self:
        """With the paper's lambda for ``epsilon`` and ``delta`` in total: cells at half of each (Theorem 3.2)."""
        return cls(Zsum.published(epsilon / 2, delta / 2, users), categories)

    @classmethod
    def exact(cls, epsilon: float, delta: float, users: int, categories: int) -> Self:
        """With the least lambda for which the two cells that a user can change keep ``epsilon`` and ``delta``."""
        return cls(Zsum(users, shuffled_counts.lambda_hist(epsilon, delta, users)), categories)

    @property
    def users(self) -> int:
        """n of the paper: how many users take part."""
        return self.cell.users

    def randomise(self, value: int, entropy: Entropy, /) -> tuple[int, ...]:
        """At most ``1 + categories`` messages, each of which is a category. ``value`` counts from 0."""
        if not 0 <= value < self.categories:
            raise ValueError(f"a value must be from 0 to {self.categories - 1}")
        copies = ((at, len(self.cell.randomise(int(at == value), entropy))) for at in range(self.categories))
        return tuple(at for at, count in copies for _ in range(count))

    def analyse(self, messages: Multiset, /) -> tuple[float, ...]:
        """The estimated share of each category."""
        if any(not 0 <= message < self.categories for message in messages):
            raise ValueError(f"a message must be from 0 to {self.categories - 1}")
        return tuple(self.cell.share_of(messages.get(at, 0)) for at in range(self.categories))
