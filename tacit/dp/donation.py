"""Several rounds of one question: what they cost together, with and without randomised donation time.

With donation (Appendix A of the SA2 paper) a device tosses one coin of rate r for each of m rounds, its window, and
takes part in the first round whose coin says yes, or in none. Windows are the same for everybody, or have no round in
common: rounds 0 to m - 1, m to 2m - 1 and so on. Three bounds hold for whoever does not see who takes part, and the
smallest is used (the proof is below):

* the round's own: a device takes part once at most, so whatever protects it in that round protects it in the series;
* sampling of the whole: it takes part at all with probability ``1 - (1 - r)^m`` only;
* sampling of each slot, composed over m slots (P. Kairouz, S. Oh, P. Viswanath): given what was seen before, the chance
  that a device takes part now is at most r, under either of two neighbouring values.

The first holds whatever windows are. The other two need batches that are uniform samples given their sizes, which those
of windows that overlap are not: a device whose window begins late is likelier to be in a late round than one whose
window ends there.

Batches are seen, so r is not the chance that counts but its bound by rule P17b, in each slot. Appendix A tosses one
coin of rate q and then m of rate 1/m. Its chance in a slot, given that no earlier one was taken, is at most q/m and
falls from slot to slot where q < 1; coins of rate r = q/m keep it the same for every device in its slots, and so make
each batch a uniform sample of them, which rule P17b asks for.

Proof. One device's value is x or x'. Its coins and everyone else's do not depend on it, so the sizes of all batches
say nothing and may be held fixed. The first bound: given the device's round, the views differ in one report of one
batch. For the other two, N devices share the device's window; what others do is independent and may be told. Each
assignment of the N to the m rounds and to none has a probability that depends on its sizes alone (``r (1-r)^t`` for
each device in round t, ``(1-r)^m`` for each in none), so given the sizes m_t all are equally likely. One is drawn
thus: draw one in which the device is in none, call it A; let it change places with the holder of one of the N - (m_1
+ ... + m_m) idle and m_1 + ... + m_m busy places at random. Tell A to the adversary. The device is then in round t
with probability m_t/N, and if it is, the view is that of A except for one report of batch t, which is replaced: Z_t
for A and W_t(x) differ by the round's (epsilon, delta), and so do W_t(x) and W_t(x'), while all other rounds are as
in A. The whole: both views put all but y = (m_1 + ... + m_m)/N of their weight on A; joint convexity gives ``ln(1 + y
(e^epsilon - 1))`` at y delta. Slots: after what was seen of rounds before t, the device is in round t with
probability at most ``r_t = m_t / (N - m_1 - ... - m_(t-1))``, since that is their share of the cases in which it is
not in an earlier one, which look alike so far. So round t shows ``p W_t(x) + (1 - p) Z_t`` or ``p' W_t(x') + (1 - p')
Z_t`` with p and p' at most r_t. With three laws that are pairwise within epsilon no two such mixtures are further
apart than ``ln(1 + r_t (e^epsilon - 1))``, and the composition theorem for mechanisms chosen one after another does
the rest. Later questions may depend on earlier results; sizes may not depend on values. Rule P17b bounds the m_t and
y by the rate: m_t is a binomial of those not yet taken.
"""

from __future__ import annotations

import math

from tacit.dp import parameters
from tacit.dp.composition import epsilon_composed
from tacit.dp.sampling import amplify, seen_rate

DEVIATION_SHARE = 0.05
"""Share of the total delta kept for deviations of the batch sizes, in all slots together."""


def epsilon_rounds(epsilon: float, delta: float, rounds: int, total_delta: float) -> float:
    """Return the epsilon of ``rounds`` independent (epsilon, delta) rounds at ``total_delta``; infinite where epsilon
    is. ``ValueError`` where the rounds' own deltas exceed ``total_delta``."""
    if epsilon == 0 or math.isinf(epsilon):
        return epsilon
    return epsilon_composed(epsilon, delta, rounds, total_delta)


def epsilon_donation(epsilon: float, delta: float, *, rate: float, slots: int, n: int, total_delta: float) -> float:
    """Return the epsilon at ``total_delta`` of a series in which a device takes part at most once, in the first of
    ``slots`` rounds for which its coin of ``rate`` says yes. Each round is (epsilon, delta) for those who take part and
    releases batches of n or more. Never above ``epsilon``; infinite where ``epsilon`` is. ``ValueError`` names what is
    out of range."""
    parameters.failure_probability(total_delta, "total_delta")
    parameters.reports(slots, "slots")
    if delta > total_delta:
        raise ValueError("total_delta is below the delta of one round")
    if epsilon == 0 or math.isinf(epsilon):
        return epsilon
    # each slot's batch deviates by itself, and any of them may
    deviation = DEVIATION_SHARE * total_delta / slots
    effective = seen_rate(rate, n, deviation)
    if effective is None:
        return epsilon
    return min(
        epsilon,
        _whole(epsilon, delta, effective, slots, total_delta - slots * deviation),
        _slots(epsilon, delta, effective, slots, deviation, total_delta),
    )


def _whole(epsilon: float, delta: float, effective: float, slots: int, total_delta: float) -> float:
    chance = yield_of(effective, slots)
    return amplify(epsilon, chance) if chance * delta <= total_delta else epsilon


def _slots(epsilon: float, delta: float, effective: float, slots: int, lost: float, total_delta: float) -> float:
    # a slot fails with the round, if the device is in it, or if its batch is larger than ``effective`` allows
    step = effective * delta + lost
    if -math.expm1(slots * math.log1p(-step)) >= total_delta:
        return epsilon
    return epsilon_composed(amplify(epsilon, effective), step, slots, total_delta)


def slot_share(rate: float, slot: int) -> float:
    """Share of the devices that take part in slot ``slot`` (from 0), when all are eligible from the first slot."""
    return parameters.rate(rate, "rate") * (1 - rate) ** slot


def yield_of(rate: float, slots: int) -> float:
    """Share of the devices that ever take part, when all are eligible throughout: ``1 - (1 - rate)^slots``."""
    return -math.expm1(slots * math.log1p(-rate)) if rate < 1 else 1.0
