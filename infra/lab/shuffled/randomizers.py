"""Finite randomizers, in exact arithmetic: what one report tells locally, and what all reports tell once shuffled.

Theory (Balcer and Cheu, 2020, section 4). With one message for each user, shuffling adds nothing to pure privacy: if
the multiset of all messages is epsilon-private, so is each message (Claim 4.2), and so a local protocol can do whatever
the shuffled one does (Theorem 4.1). What shuffling adds, it adds at a delta above 0. With several messages for each
user the claim is false (Claims 4.3 and 4.4).

Privacy is measured by its factor, ``e^epsilon``: a fraction, or None where no finite epsilon is enough. Neighbours
differ by replacement of one user's value; all values of the others are gone through.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise, permutations

from tacit.dp import parameters

Messages = tuple[int, ...]
"""The messages of one user in their order, or how often each message was sent by all of them."""
Law = Mapping[Messages, Fraction]
Weights = dict[Messages, int]
"""A law times a common denominator."""
Factor = Fraction | None
MAX_STEPS = 4_000_000
"""Products of probabilities that the enumeration of a shuffled law may take: some seconds."""


@dataclass(frozen=True, slots=True)
class FiniteRandomizer:
    """``laws``: for each input, at least two, the probabilities of the message vectors that a user with it may send.
    Messages count from 0. ``ValueError`` names an input whose probabilities are negative or do not sum to 1."""

    laws: tuple[Law, ...]
    denominator: int = field(init=False)

    def __post_init__(self) -> None:
        if len(self.laws) < 2:
            raise ValueError("a randomizer has at least two inputs")
        for at, law in enumerate(self.laws, start=1):
            if any(share < 0 for share in law.values()):
                raise ValueError(f"input {at}: a probability is negative")
            if (total := sum(law.values(), start=Fraction(0))) != 1:
                raise ValueError(f"input {at}: the probabilities sum to {total}, not to 1")
        shares = (share.denominator for law in self.laws for share in law.values())
        object.__setattr__(self, "denominator", math.lcm(*shares))

    @classmethod
    def single_message(cls, matrix: Sequence[Sequence[Fraction]]) -> FiniteRandomizer:
        """With one row for each input and one column for each message. ``ValueError`` where rows differ in length."""
        if len({len(row) for row in matrix}) > 1:
            raise ValueError("every input needs a probability for each message")
        return cls(tuple({(at,): share for at, share in enumerate(row) if share} for row in matrix))

    def pre_shuffled(self) -> FiniteRandomizer:
        """The same, where a user sorts its own messages, which hides their order as well as any shuffling."""
        laws: list[dict[Messages, Fraction]] = []
        for law in self.laws:
            sorted_law: dict[Messages, Fraction] = defaultdict(Fraction)
            for messages, share in law.items():
                sorted_law[tuple(sorted(messages))] += share
            laws.append(dict(sorted_law))
        return FiniteRandomizer(tuple(laws))

    @property
    def messages(self) -> int:
        """The size of the alphabet: one more than the largest message."""
        return 1 + max((max(vector, default=-1) for law in self.laws for vector in law), default=-1)

    def local_factor(self, delta: Fraction = Fraction(0)) -> Factor:
        """The least factor of one user's message vector at ``delta``, 0 up to 1."""
        weights = [{vector: self._weight(share) for vector, share in law.items() if share} for law in self.laws]
        return _worst(weights, delta * self.denominator)

    def shuffled_factor(self, users: int, delta: Fraction = Fraction(0)) -> Factor:
        """The least factor at ``delta`` of the multiset of all messages of so many users.

        ``ValueError`` where the enumeration would take more than ``MAX_STEPS``.
        """
        parameters.reports(users, "n")
        if self._steps(users) > MAX_STEPS:
            raise ValueError(f"{users} users are too many to enumerate: it would take over {MAX_STEPS:,} steps")
        own = [self._counted(law) for law in self.laws]
        factors = (
            _worst([_sum(others, one) for one in own], delta * self.denominator**users)
            for others in self._others(own, users - 1)
        )
        found: Fraction = Fraction(1)
        for factor in factors:
            if factor is None:
                return None
            found = max(found, factor)
        return found

    def most_users(self) -> int:
        """The most users that ``shuffled_factor`` enumerates; 0 if not even one."""
        most = 0
        while self._steps(most + 1) <= MAX_STEPS:
            most += 1
        return most

    def multiset_law(self, values: Sequence[int]) -> dict[Messages, Fraction]:
        """The probabilities of what the shuffler shows (how often each message) where users have these inputs."""
        law: Weights = {(0,) * self.messages: 1}
        for value in values:
            law = _sum(law, self._counted(self.laws[value]))
        return {seen: Fraction(weight, self.denominator ** len(values)) for seen, weight in law.items()}

    def _counted(self, law: Law) -> Weights:
        """What one user with this law sends, as counts of each message: weights are probabilities times
        ``denominator``."""
        found: Weights = defaultdict(int)
        for vector, share in law.items():
            if share:
                counts = Counter(vector)
                found[tuple(counts[message] for message in range(self.messages))] += self._weight(share)
        return dict(found)

    def _weight(self, share: Fraction) -> int:
        return share.numerator * (self.denominator // share.denominator)

    def _others(self, own: Sequence[Weights], users: int) -> Iterator[Weights]:
        """The law of so many users for each multiset of their inputs."""
        stack: list[tuple[int, int, Weights]] = [(0, users, {(0,) * self.messages: 1})]
        while stack:
            least, left, law = stack.pop()
            if left:
                stack += [(at, left - 1, _sum(law, own[at])) for at in range(least, len(own))]
            else:
                yield law

    def _steps(self, users: int) -> int:
        """No fewer than the products of weights that ``shuffled_factor`` computes and the likelihood ratios it
        compares."""
        inputs, longest = len(self.laws), max(len(vector) for law in self.laws for vector in law)
        support = max(len(law) for law in self.laws)
        fixed = len({len(vector) for law in self.laws for vector in law}) == 1
        seen = math.comb(users * longest + self.messages - fixed, self.messages - fixed)
        return math.comb(users + inputs - 1, inputs) * inputs * seen * (support + inputs)


def epsilon_of(factor: Factor) -> float:
    """The natural logarithm of a factor of at least 1, infinite for None."""
    if factor is None:
        return math.inf
    if factor < 2:
        return math.log1p(float(factor - 1))
    return math.log(factor.numerator) - math.log(factor.denominator)


def least_factor(one: Weights, other: Weights, allowed: Fraction) -> Factor:
    """The least factor B >= 1 with which ``one`` exceeds B times ``other`` by ``allowed`` at most, summed over all
    outputs. Exact: that excess is a polygon in B, with corners at the likelihood ratios."""
    alone = sum(weight for seen, weight in one.items() if not other.get(seen))
    if alone > allowed:
        return None
    ratios: dict[Fraction, list[int]] = defaultdict(lambda: [0, 0])
    for seen, weight in one.items():
        if other.get(seen):
            sums = ratios[Fraction(weight, other[seen])]
            sums[0] += weight
            sums[1] += other[seen]
    more, less = alone, 0
    corners = sorted((ratio for ratio in ratios if ratio > 1), reverse=True)
    for ratio, following in pairwise([*corners, Fraction(1)]):
        more, less = more + ratios[ratio][0], less + ratios[ratio][1]
        if more - following * less > allowed:
            return (more - allowed) / less
    return Fraction(1)


def _worst(laws: Sequence[Weights], allowed: Fraction) -> Factor:
    """The largest of the least factors of any law against another."""
    found = Fraction(1)
    for one, other in permutations(laws, 2):
        factor = least_factor(one, other, allowed)
        if factor is None:
            return None
        found = max(found, factor)
    return found


def _sum(one: Weights, other: Weights) -> Weights:
    """The law of the sum of two independent vectors of counts."""
    found: Weights = defaultdict(int)
    for left, weight in one.items():
        for right, own in other.items():
            found[tuple(map(int.__add__, left, right))] += weight * own
    return dict(found)
