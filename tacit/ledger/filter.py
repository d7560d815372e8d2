"""The privacy filter behind every account: which costs it holds, however they are chosen.

An analyst chooses the next recipe, and its epsilon, after seeing the results so far. A composition theorem for costs
that are fixed beforehand says nothing about that; a *filter* does (R. Rogers, A. Roth, J. Ullman, S. Vadhan, Privacy
Odometers and Filters, 2016). An account (epsilon, delta) sets a tenth of its delta aside and holds costs
(epsilon_i, delta_i) as long as

* ``sum delta_i <= 9/10 delta``, and
* ``sum epsilon_i <= epsilon``, or ``sum m(epsilon_i) <= B`` with
  ``m(x) = t x + ln(1 + e^(-(2t+1) x)) - ln(1 + e^-x)`` and ``B = ln(delta/10) + t epsilon - ln c(t)``,
  ``c(t) = t^t / (1+t)^(1+t)``, at one order t > 0 that follows from (epsilon, delta) alone.

**Theorem.** Whoever chooses each mechanism after all results so far, such that these conditions hold with every choice,
learns at most (epsilon, delta) about one device, for any t > 0.

**Proof.** Fix two neighbours. An (epsilon_i, delta_i)-private mechanism, interactive or not, can be simulated from one
randomised response, which tells the neighbour with probability delta_i and otherwise has a loss of +-epsilon_i, plus
with probability ``1 / (1 + e^-epsilon_i)`` (P. Kairouz, S. Oh, P. Viswanath; X. Lyu for interactive ones). Let L be the
sum of the losses, A the sum of the ``m(epsilon_i)``, s the product of the ``1 - delta_i`` that the conditions still
allow: ``s = (1 - 9/10 delta) / prod (1 - delta_i) <= 1``.

1. ``F = (delta/10) e^(t L - A)`` is a martingale while nothing fails, as ``E[e^(t L_i)] = e^m(epsilon_i)`` whatever
   epsilon_i was chosen.
2. ``V = 1 - s (1 - F)`` is one altogether: ``d + (1 - d) (1 - s/(1 - d) (1 - F)) = 1 - s (1 - F)``.
3. At the end the adversary gains ``g = max(0, 1 - e^(epsilon - L))``, or 1 after a failure. If the epsilons add up to
   at most epsilon, ``L <= epsilon`` and g = 0. Otherwise ``g <= c(t) e^(t (L - epsilon))``, the maximum over L
   (C. Canonne, G. Kamath, T. Steinke, Proposition 12), which is at most F since ``A <= B``. As s <= 1, ``V >= min(1,
   F) >= g``.
4. So the gain is at most V at the beginning: ``1 - (1 - 9/10 delta)(1 - delta/10) <= delta``.

This is the Renyi filter of V. Feldman and T. Zrnic (Individual Privacy Accounting via a Renyi Filter, 2021) for
(epsilon_i, delta_i)-claims, with their exact moments, joined with addition. The order must not depend on the costs: an
account that takes the order that suits them best afterwards takes part in the analyst's choice, and so does one whose
delta moves between the two parts. J. Whitehouse, A. Ramdas, R. Rogers, S. Wu (Fully Adaptive Composition in
Differential Privacy, 2023) bound m(x) by ``t (t + 1) x^2 / 2`` and g by 1: it holds fewer. ``docs/privacy.md`` has the
figures.

Numbers are integers in units of 1e-24: costs are rounded up, limits down, so no cost passes that should not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import NamedTuple

from tacit.ledger.account import MAX_STATED_EPSILON, Account, Cost

DIGITS = 24
"""Decimals of every sum."""
COMPOSITION_SHARE = 10
"""One part in so many of an account's delta is set aside for composition; the others are for the claims' own deltas."""
_EXACT = Context(prec=50, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation])
_ROUGH = Context(prec=20, rounding=ROUND_HALF_EVEN, traps=[InvalidOperation])
"""``decimal`` rounds ln and exp correctly, so every machine computes the same digits."""
_CONTEXTS = {context.prec: context for context in (_EXACT, _ROUGH)}
_GUARD = Decimal(1).scaleb(-DIGITS - 10)
"""More than the error of any value computed with ``_EXACT``: values have at most 20 digits before the point."""
ORDERS = tuple(Context(prec=4).power(Decimal("1.05"), power) for power in range(-120, 301))
"""From .0029 to 2.3 million."""
HIGHER = 4
"""How many places an account's order lies above the one that holds the most small claims: a fifth. That takes 1 to 3 %
of them, and where large claims come first leaves a third to two thirds more room for small ones."""


_UNBOUNDED = 10**60
"""The weight of a claim without a bound, which no account holds."""


class Weight(NamedTuple):
    """Costs added up, each rounded up, in units of 1e-24: their epsilons, deltas and moments."""

    epsilon: int = 0
    delta: int = 0
    moment: int = 0

    def plus(self, other: Weight) -> Weight:
        """The sum of the costs that both hold."""
        return Weight(self.epsilon + other.epsilon, self.delta + other.delta, self.moment + other.moment)

    def less(self, other: Weight) -> Weight:
        """This without ``other``, which is part of it: the sums are exact."""
        return self.plus(other.times(-1))

    def times(self, count: int) -> Weight:
        """``count`` times these costs; negative to take them away."""
        return Weight(self.epsilon * count, self.delta * count, self.moment * count)


@dataclass(frozen=True, slots=True)
class Filter:
    """An account's limits in units of 1e-24: the sum of epsilons, that of the claims' deltas, and that of moments at
    ``order``."""

    order: Decimal
    epsilon: int
    delta: int
    moment: int

    def weigh(self, costs: Iterable[Cost]) -> Weight:
        """The weights of ``costs`` added up, with moments at this account's ``order``."""
        total = Weight()
        for cost in costs:
            total = total.plus(_weight(cost, self.order))
        return total

    def holds(self, weight: Weight) -> bool:
        """Whether the account has room for costs of this ``weight`` together."""
        return weight.delta <= self.delta and (weight.epsilon <= self.epsilon or weight.moment <= self.moment)

    def spent(self, weight: Weight) -> Decimal:
        """What these costs take of the account's epsilon, at its delta: at most its epsilon if and only if ``holds``.
        The smaller of the epsilons' sum and of the epsilon to which the moments lead. Infinite where the claims' deltas
        exceed their part, or a claim is unbounded. A reading: what is promised is the account's whole epsilon."""
        if weight.delta > self.delta or weight.epsilon >= _UNBOUNDED:
            return Decimal("Infinity")
        beyond = _EXACT.divide(Decimal(weight.moment - self.moment), self.order)
        moments = self.epsilon + int(beyond.to_integral_value(ROUND_CEILING))
        return _EXACT.scaleb(Decimal(max(0, min(weight.epsilon, moments))), -DIGITS)


def filter_of(account: Account) -> Filter:
    """The filter of an account, which depends on its epsilon and delta alone."""
    return filter_at(account.epsilon, account.delta)


@lru_cache(maxsize=256)
def filter_at(epsilon: Decimal, delta: Decimal) -> Filter:
    """The filter of accounts with this epsilon and delta, both above 0."""
    apart = _EXACT.divide(delta, COMPOSITION_SHARE)
    low, high = 0, len(ORDERS) - 1
    while low < high:
        middle = (low + high) // 2
        rising = _most_small(ORDERS[middle], epsilon, apart) < _most_small(ORDERS[middle + 1], epsilon, apart)
        low, high = (middle + 1, high) if rising else (low, middle)
    order = ORDERS[min(low + HIGHER, len(ORDERS) - 1)]
    moment = _EXACT.subtract(_room(order, epsilon, apart, _EXACT.prec), _GUARD)
    claims = _EXACT.multiply(apart, COMPOSITION_SHARE - 1)
    return Filter(order, _units(epsilon, up=False), _units(claims, up=False), _units(moment, up=False))


def claims_delta(account: Account) -> Decimal:
    """What the claims' own deltas may add up to in ``account``, rounded down to 24 decimals, without trailing zeros."""
    return as_decimal(filter_of(account).delta)


def as_decimal(units: int) -> Decimal:
    """Units of 1e-24 as a number, without trailing zeros or exponent."""
    return Decimal(f"{_EXACT.scaleb(Decimal(units), -DIGITS).normalize(_EXACT):f}")


def _most_small(order: Decimal, epsilon: Decimal, apart: Decimal) -> Decimal:
    """What is largest at the order that holds the most costs of one small epsilon, as ``m(x)`` then is
    ``t (t + 1) x^2 / 2``."""
    return _ROUGH.divide(_room(order, epsilon, apart, _ROUGH.prec), _ROUGH.multiply(order, order + 1))


def _room(order: Decimal, epsilon: Decimal, apart: Decimal, digits: int) -> Decimal:
    """``ln apart + t epsilon - ln c(t)``, to ``digits``."""
    context = _CONTEXTS[digits]
    fixed = context.subtract(_logarithm(apart, digits), _constant(order, digits))
    return context.fma(order, epsilon, fixed)


@lru_cache(maxsize=1 << 11)
def _constant(order: Decimal, digits: int) -> Decimal:
    """``ln c(t) = t ln t - (t + 1) ln(t + 1)``, to ``digits``."""
    context = _CONTEXTS[digits]
    more = context.add(order, 1)
    return context.subtract(context.multiply(order, context.ln(order)), context.multiply(more, context.ln(more)))


@lru_cache(maxsize=256)
def _logarithm(number: Decimal, digits: int) -> Decimal:
    return _CONTEXTS[digits].ln(number)


@lru_cache(maxsize=1 << 16)
def _weight(cost: Cost, order: Decimal) -> Weight:
    if not cost.epsilon.is_finite():
        return Weight(_UNBOUNDED, _units(cost.delta, up=True), _UNBOUNDED)
    epsilon = _units(cost.epsilon, up=True)
    return Weight(epsilon, _units(cost.delta, up=True), _round_up_moment(epsilon, order))


@lru_cache(maxsize=1 << 16)
def _round_up_moment(epsilon: int, order: Decimal) -> int:
    """m(epsilon), rounded up. Above ``MAX_STATED_EPSILON`` its upper bound ``t epsilon``."""
    step = Decimal(epsilon).scaleb(-DIGITS, _EXACT)
    linear = _EXACT.multiply(order, step)
    if step > MAX_STATED_EPSILON or not epsilon:
        return _units(linear, up=True)
    rises = _EXACT.exp(_EXACT.minus(_EXACT.fma(2, linear, step)))
    falls = _EXACT.exp(_EXACT.minus(step))
    logs = _EXACT.subtract(_EXACT.ln(_EXACT.add(1, rises)), _EXACT.ln(_EXACT.add(1, falls)))
    return _units(_EXACT.add(_EXACT.add(linear, logs), _GUARD), up=True)


def _units(number: Decimal, *, up: bool) -> int:
    """``number`` in units of 1e-24, as an integer."""
    top, bottom = number.as_integer_ratio()
    scaled: int = top * 10**DIGITS
    return -(-scaled // bottom) if up else scaled // bottom
