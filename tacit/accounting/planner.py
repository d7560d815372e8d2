"""Planning before a recipe exists: what each model and randomizer would cost and how accurate it would be.

All alternatives spend the same (epsilon, delta) against one aggregator or the analyst, by replacement, over one
question. The error is the standard deviation of one number of the answer: a count of devices, a total or a mean.
"""

from __future__ import annotations

from tacit.accounting.alternatives import central, local, ways_to_aggregate, ways_to_sample
from tacit.accounting.model_ways import WAYS
from tacit.accounting.requirements import Alternative, Requirements
from tacit.errors import Refusal
from tacit.methods.registry import methods_for
from tacit.models.secure_aggregation.form import SecureAggregation


def alternatives(needs: Requirements, stderr: float | None = None) -> list[Alternative]:
    """Return every alternative, each at one sampling rate: the rate with the fewest contributions that keeps the error
    within ``stderr``, or the most accurate rate where none does or no ``stderr`` is given. The most accurate
    alternative comes first; those that cannot meet the requirements are left out."""
    found = [central(needs)]
    summed = (ways_to_aggregate(needs), *(ways_to_sample(needs, method) for method in methods_for(needs.shape)))
    for some in (*summed, *(compared for ways in WAYS.values() for compared in ways.compared(needs))):
        tried = list(some)
        tried = [one for one in tried if one.allowed] or [one for one in tried if one.unguarded] or tried
        enough = [one for one in tried if stderr is not None and one.stderr <= stderr]
        if enough:
            found.append(min(enough, key=lambda one: (one.contributions, one.stderr)))
        elif tried:
            found.append(min(tried, key=lambda one: (one.stderr, one.contributions)))
    found += local(needs)
    return sorted(found, key=lambda one: one.stderr)


def proposal(
    found: list[Alternative], stderr: float | None = None, model: str = SecureAggregation.name, least_batch: int = 0
) -> Alternative:
    """Choose, from the result of ``alternatives``, a way of the wanted ``model`` that policy allows: the one with the
    fewest contributions within ``stderr``, or the most accurate one without ``stderr``. Raises ``Refusal``:
    ``no-local-guarantee`` where only noise shares would do, ``population-too-small``, or ``accuracy-unreachable`` with
    the error that can be reached. ``least_batch``: the least batch size of policy, for the words of a refusal."""
    allowed = [one for one in found if one.available]
    if not allowed:
        raise _nothing([one for one in found if one.form == model], least_batch)
    if stderr is None:
        return allowed[0]
    enough = [one for one in allowed if one.stderr <= stderr]
    if not enough:
        least = allowed[0].stderr
        more = [one for one in found if one.is_summed and one.stderr <= stderr and not one.available]
        hint = "; noise shares would reach it if policy allowed recipes without a local guarantee" if more else ""
        raise Refusal(
            "accuracy-unreachable",
            f"an error of {stderr:g} was requested; the least that can be reached is {least:.4g}{hint}",
        )
    return min(enough, key=lambda one: (one.contributions, one.stderr))


NO_LOCAL_GUARANTEE = "no-local-guarantee"


def _nothing(run: list[Alternative], least_batch: int) -> Refusal:
    unguarded = [one.randomizer for one in run if one.unguarded]
    if unguarded or (run and all(one.is_summed for one in run)):
        names = " or ".join(dict.fromkeys(unguarded)) or run[0].randomizer
        return Refusal(
            NO_LOCAL_GUARANTEE,
            f"only noise shares ({names}) can answer this, and policy requires a local guarantee, which they do not "
            "have against both aggregators together",
        )
    words = "so few devices cannot fill a batch of the least size that policy allows, in which they hide one another"
    largest = max((one.batch_size for one in run), default=0)
    if 0 < largest < least_batch:
        words = f"a batch of {largest} is below the {least_batch} in which policy lets devices hide one another"
    elif largest and least_batch:
        words = f"in a batch of {largest} every way to ask costs a device more than policy allows"
    return Refusal("population-too-small", words)
