"""Rules on the audience of a recipe: targeting by attributes that are not sensitive, and only where a census has
attested that enough devices have them (SA2 5.5)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from tacit.errors import Refusal
from tacit.recipe.census import STDERRS, Attested, attest, census_for
from tacit.recipe.context import Context
from tacit.recipe.encoder_specs import Attributes, conjunction
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.rules.budget import period_text
from tacit.rules.detail import Detail, at_most, exactly, one_of


def population_allowed(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """``audience.population`` is one of the policy's ``populations``."""
    population = recipe.audience.population
    if population in policy.populations:
        return None
    words = f"population {population!r} is not allowed; choose one of {', '.join(policy.populations)}"
    return Detail(words, *one_of("audience.population", policy.populations))


def attributes_allowed(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Criteria, and the attributes that a census asks for, come from the policy's ``attributes`` and the values that it
    lists for each."""
    for name, values in _named_attributes(recipe):
        allowed = policy.attributes.get(name)
        if allowed is None:
            known = ", ".join(sorted(policy.attributes))
            return f"no recipe may ask for attribute {name}; " + (f"{known} may be asked for" if known else "none may")
        odd = sorted(set(values) - set(allowed))
        if odd:
            return f"{name} may not be {', '.join(odd)}; allowed are {', '.join(allowed)}"
    return None


def _named_attributes(recipe: Recipe) -> Iterable[tuple[str, tuple[str, ...]]]:
    for name, value in sorted(recipe.criteria.items()):
        yield name, (value,)
    if isinstance(recipe.question.encoder, Attributes):
        yield from sorted(recipe.question.encoder.attributes.items())


def rate_capped(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """With criteria q is at most the policy's ``max_targeted_rate``: the size of the batch then reveals almost nothing
    about one device."""
    if not recipe.criteria or recipe.rate <= Decimal(policy.max_targeted_rate):
        return None
    words = f"q = {recipe.sampling.rate} of a recipe with criteria is over the cap of {policy.max_targeted_rate}"
    return Detail(words, at_most("sampling.rate", policy.max_targeted_rate))


def census_form(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """A census asks everybody (no criteria), closes at ``interval_end``, so that it has one batch, and has neither
    importance sampling nor dummies."""
    if not recipe.is_census:
        return None
    if recipe.criteria:
        return "a census asks all of its population; leave the criteria out"
    if recipe.batch.close != "interval_end":
        words = f"a census has one batch: close must be interval_end, not {recipe.batch.close}"
        return Detail(words, exactly(batch__close="interval_end"))
    if recipe.sampling.importance is not None or recipe.sampling.dummies is not None:
        return "a census has one rate for everybody and no dummies: leave importance sampling and dummies out"
    return None


def floor_attested(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Where there are criteria, a census attests at least the policy's ``min_audience`` devices for them, and no fewer
    than the number on which the recipe's dummies rely: the newest one that the log held before the recipe, and that
    ended less than ``census_max_age_seconds`` ago."""
    if not recipe.criteria:
        return None
    found = _attest(recipe, policy, context, policy.min_audience)
    return found if isinstance(found, str) else _dummies_spread(recipe, found)


def devices_attested(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The same census, or without criteria one of the whole population, attests as many devices as the claim of
    importance sampling counts on (P22)."""
    importance = recipe.sampling.importance
    if importance is None or importance.devices is None:
        return None
    found = _attest(recipe, policy, context, importance.devices)
    return found if isinstance(found, str) else None


def _attest(recipe: Recipe, policy: Policy, context: Context, needed: int) -> Attested | str:
    """What a census attests about the recipe's audience, or the refusal if that is less than ``needed`` devices."""
    wanted = conjunction(recipe.criteria) if recipe.criteria else "any attributes"
    age = policy.census_max_age_seconds
    census = census_for(recipe, context.censuses, context.index, context.now - age)
    if census is None:
        return (
            f"no census of the last {period_text(age)} in the log counted {wanted} for the recipe's leader and helper; "
            f"one that attests at least {needed} devices would pass"
        )
    try:
        found = attest(census, recipe.criteria)
    except Refusal as refusal:
        return refusal.detail
    if found.floor >= needed:
        return found
    return (
        f"census {census.recipe.name} attests {found.floor} devices with {wanted} "
        f"(estimate {found.estimate:.0f}, less {STDERRS:g} standard errors of {found.stderr:.0f}); "
        f"at least {needed} are needed"
    )


def _dummies_spread(recipe: Recipe, found: Attested) -> str | None:
    """Dummies hide a device only if the stated number of devices may send one: that many of the audience must be
    attested."""
    dummies = recipe.sampling.dummies
    if dummies is None or dummies.population <= found.floor:
        return None
    return Detail(
        f"dummies count on {dummies.population} devices, the census attests {found.floor} with "
        f"{conjunction(recipe.criteria)}; a population of at most that passes",
        at_most("sampling.dummies.population", found.floor),
    )
