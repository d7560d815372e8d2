"""How many users the shuffled model needs, measured beside the local model's lower bounds (Balcer and Cheu, 2020).

Measured is the least number of users with which the protocol hist, with its least noise, solves a problem in 99 of 100
runs. A run draws who has what, the noise of every value that occurs, and the answer from what is reported; categories
that nobody has are never reported, so that they need not be simulated. Beside it stand computed numbers: of the same
protocol, of a threshold tuned to the domain, of flipped noise, of the central model, and of the paper's own constants.
The paper's bounds for local protocols are rates: they are drawn with the constant 1, which nobody has proved.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from infra.lab.shuffled import identification as rules
from infra.lab.shuffled.bounds import pointer_chasing_rate, pointer_jumping_rate
from infra.lab.shuffled.pointers import PointerChasing, PointerJumping
from infra.lab.shuffled.protocols import Hist
from infra.lab.shuffled.simulation import Lost, uniform_counts
from tacit.adapters.system import OsEntropy
from tacit.ports import Entropy

SUPPORT, CHASING, JUMPING = "support identification", "pointer chasing", "pointer jumping"
EPSILON, DELTA = 1.0, 1e-6
VALUES, STEPS = 8, 2
DOMAIN_BITS = (4, 16, 32, 64, 128, 256, 512)
LENGTHS = tuple(1 << power for power in range(2, 17, 2))
HEIGHTS = (2, 3, 4, 6, 8, 12, 16, 24)
FAILURES = 1 - rules.TARGET


@dataclass(frozen=True, slots=True)
class Case:
    """An instance of a problem: what users have, who solves it from what is identified, and where the paper has them,
    the size of the domain (its logarithm) and the rate of local protocols. ``parameter``: bits of the domain, the
    length of permutations, or the height of a tree."""

    problem: str
    parameter: int
    parts: tuple[Any, ...]
    answer: Callable[[Sequence[Any]], object]
    log_domain: float | None
    local: float | None


@dataclass(frozen=True, slots=True)
class Needed:
    """Users that are needed for a case with so many ``values``. ``chance`` is the computed probability of success of
    ``measured`` users, ``chance_before`` that of one user fewer. Computed are ``tuned`` and ``flipped``, where the size
    of the domain is in question, ``central`` and ``published``."""

    problem: str
    parameter: int
    values: int
    measured: int
    computed: int
    chance: float
    chance_before: float
    tuned: int | None
    flipped: int | None
    central: int
    published: int
    local: float | None

    @property
    def holds(self) -> bool:
        """Whether failures at the measured number are at most twice what is allowed, and with one user fewer at least
        half of it, as computed."""
        return self.chance >= 1 - 2 * FAILURES and self.chance_before <= 1 - FAILURES / 2


def cases(epsilon: float, entropy: Entropy) -> Iterator[Case]:
    """The cases of the figure, with random instances."""
    for bits in DOMAIN_BITS:
        yield Case(SUPPORT, bits, tuple(range(VALUES)), frozenset, bits * math.log(2), None)
    for length in LENGTHS:
        chasing = PointerChasing(STEPS, length)
        parts, rate = chasing.instance(entropy), pointer_chasing_rate(length, epsilon)
        yield Case(CHASING, length, parts, chasing.answer, chasing.log_categories, rate)
    for height in HEIGHTS:
        jumping = PointerJumping(height**4, height)
        levels, rate = jumping.instance(entropy), pointer_jumping_rate(height, epsilon)
        yield Case(JUMPING, height, levels, jumping.answer, None, rate)


def compare(
    epsilon: float, delta: float, runs: int, tell: Callable[[float], None], asked: Sequence[Case] = ()
) -> list[Needed]:
    """Measure the cases ``asked``, those of the figure if there are none, ``runs`` times for each number of users that
    is tried. ``tell`` gets the share done."""
    entropy, found, done = OsEntropy(), [], 0
    asked = asked or list(cases(epsilon, entropy))
    work = sum(len(case.parts) for case in asked)
    for case in asked:
        measured = measure(case, epsilon, delta, runs, entropy)
        found.append(beside(case, measured, epsilon, delta))
        done += len(case.parts)
        tell(done / work)
    return found


def measure(case: Case, epsilon: float, delta: float, runs: int, entropy: Entropy) -> int:
    """The least number of users that solve the case in 99 of 100 runs, from one for each value on. Whether a number is
    enough is asked once, so that a number is found which is, and one below it which is not."""
    truth, allowed = case.answer(case.parts), math.floor(runs * FAILURES)

    def enough(users: int) -> bool:
        try:
            histogram = Hist.exact(epsilon, delta, users, len(case.parts))
        except ValueError:
            return False
        lost, failed = Lost(histogram.cell), 0
        for _ in range(runs):
            failed += solve(case, lost, entropy) != truth
            if failed > allowed:
                return False
        return True

    high = len(case.parts)
    while not enough(high):
        high *= 2
    return bisect_left(range(high), x=True, lo=high // 2 + 1, key=enough) if high > len(case.parts) else high


def solve(case: Case, lost: Lost, entropy: Entropy) -> object:
    """One run: what the analyzer answers."""
    counts = uniform_counts(lost.cell.users, len(case.parts), entropy)
    shares = lost.shares(counts, entropy)
    return case.answer([part for part, share in zip(case.parts, shares, strict=True) if share > 0])


def beside(case: Case, measured: int, epsilon: float, delta: float) -> Needed:
    """The users that a case was measured to need, beside those that each rule computes and the chance of success with
    them; None where a rule does not apply."""
    values, domain = len(case.parts), case.log_domain

    def chance(users: int) -> float:
        try:
            return rules.zsum_rule(epsilon, delta, users).success(values, domain or 0.0)
        except ValueError:
            return 0.0

    def least(rule_of: Callable[[int], rules.Rule]) -> int:
        return rules.sample_complexity(rule_of, values, domain or 0.0)

    known = domain is not None
    return Needed(
        case.problem,
        case.parameter,
        values,
        measured,
        least(lambda users: rules.zsum_rule(epsilon, delta, users)),
        chance(measured),
        chance(measured - 1),
        least(lambda users: rules.tuned_rule(epsilon, delta, users, domain or 0.0)) if known else None,
        _if_any(lambda: least(lambda users: rules.flipped_rule(epsilon, delta, users, domain or 0.0)))
        if known
        else None,
        least(lambda users: rules.stability_rule(epsilon, delta, users)),
        rules.published_users(epsilon, delta, values),
        case.local,
    )


def _if_any(number: Callable[[], int]) -> int | None:
    """None where more users would be needed than are looked for."""
    try:
        return number()
    except ValueError:
        return None
