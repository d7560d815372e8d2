"""Before a recipe exists: what each model and randomizer would cost and how accurate it would be.

All alternatives spend the same (epsilon, delta) against one aggregator or the analyst, by replacement, over one
question. The error is the standard deviation of one number of the answer: a count of devices, a total or a mean.
"""

from __future__ import annotations

from tacit.accounting import ways
from tacit.accounting.goal import Alternative, Goal
from tacit.errors import Refusal
from tacit.methods.registry import methods_for


def alternatives(goal: Goal, stderr: float | None = None) -> list[Alternative]:
    """Every way at one sampling rate: the one with the fewest contributions that keeps the error within ``stderr``, or
    the most accurate one where none does or nothing is wanted. The most accurate way comes first; ways that cannot
    meet the goal are left out.
    """
    found = [ways.central(goal)]
    for some in (ways.aggregated(goal), *(ways.sampled(goal, method) for method in methods_for(goal.shape))):
        tried = list(some)
        tried = [way for way in tried if way.available] or tried
        enough = [way for way in tried if stderr is not None and way.stderr <= stderr]
        if enough:
            found.append(min(enough, key=lambda one: (one.contributions, one.stderr)))
        elif tried:
            found.append(min(tried, key=lambda one: (one.stderr, one.contributions)))
    found += [*ways.shuffled(goal), *ways.local(goal)]
    return sorted(found, key=lambda one: one.stderr)


def proposal(found: list[Alternative], stderr: float | None = None) -> Alternative:
    """Of what ``alternatives`` gave, the way that this platform runs and that is allowed: the one with the fewest
    contributions within ``stderr``, or the most accurate one. Raises ``Refusal``: ``no-local-guarantee`` where only
    noise shares would do, ``population-too-small``, ``accuracy-unreachable`` with what can be reached.
    """
    allowed = [way for way in found if way.available]
    if not allowed:
        raise _nothing(found)
    if stderr is None:
        return allowed[0]
    enough = [way for way in allowed if way.stderr <= stderr]
    if not enough:
        least = allowed[0].stderr
        more = [way for way in found if way.is_summed and way.stderr <= stderr and not way.available]
        hint = "; noise shares would do, where policy has allow_unbounded_local" if more else ""
        raise Refusal("accuracy-unreachable", f"an error of {stderr:g} is wanted; {least:.4g} can be reached{hint}")
    return min(enough, key=lambda one: (one.contributions, one.stderr))


def _nothing(found: list[Alternative]) -> Refusal:
    run = [way for way in found if way.inner is not None]
    if run and all(way.is_summed for way in run):
        return Refusal(
            "no-local-guarantee",
            "only noise shares answer this here, and they have no local guarantee; allow them with "
            "--allow-unbounded-local or by a policy with allow_unbounded_local = true",
        )
    return Refusal("population-too-small", "no batch that policy accepts comes out of so few devices")
