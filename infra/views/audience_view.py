"""Shows a person what the log attests about a recipe's audience."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.dp.membership import membership_epsilon
from tacit.errors import Refusal
from tacit.recipe.census import attest, census_for
from tacit.recipe.claims import sample_of
from tacit.recipe.context import Context
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy


def audience_document(recipe: Recipe, policy: Policy, context: Context) -> dict[str, Any]:
    """Return ``{criteria, needed, census, census_name, estimate, stderr, floor, membership_epsilon}``.

    ``census`` is the census that counts for the recipe; without one, it and all that follows are absent. If it cannot
    attest the audience, ``trouble`` says why, in place of the figures. ``membership_epsilon`` bounds what the size of a
    batch tells about one device's attributes, at the recipe's delta and for an audience as large as the floor.
    """
    found: dict[str, Any] = {"criteria": recipe.criteria, "needed": policy.min_audience}
    since = context.now - policy.census_max_age_seconds
    census = census_for(recipe, context.censuses, context.index, since)
    if census is None:
        return found
    found |= {"census": census.recipe.hash_text, "census_name": census.recipe.name}
    try:
        counted = attest(census, recipe.criteria)
    except Refusal as refusal:
        return {**found, "trouble": refusal.detail}
    found |= {"estimate": counted.estimate, "stderr": counted.stderr, "floor": counted.floor}
    if counted.floor and recipe.rate < 1:
        rates = sample_of(recipe).sending_rates(randomizer_of(recipe))
        found["membership_epsilon"] = membership_epsilon(counted.floor, rates, float(recipe.delta))
    return found


def audience_lines(found: Mapping[str, Any]) -> list[str]:
    """Return the result of ``audience_document`` as sentences."""
    needed = f"at least {found['needed']:,} are needed"
    if "census" not in found:
        return [f"no census in the log counts them; {needed}"]
    if "floor" not in found:
        return [found["trouble"]]
    lines = [
        f"at least {found['floor']:,} by census {found['census_name']} "
        f"(about {found['estimate']:,.0f}, standard error {found['stderr']:,.0f}); {needed}"
    ]
    if "membership_epsilon" in found:
        lines.append(
            "the number of messages reveals whether one device is among them with at most epsilon "
            f"{found['membership_epsilon']:.3f}"
        )
    return lines
