"""Says what one dishonest device can do to a result, with a measurement that its proof allows."""

from __future__ import annotations

from tacit.errors import Refusal
from tacit.methods.estimators.base import Influence
from tacit.methods.estimators.registry import estimator_of
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder_specs import Vector
from tacit.recipe.model import Recipe
from tacit.recipe.quantity import exact


def influence_words(recipe: Recipe) -> str:
    """Return the end of the sentence "a dishonest device can"; empty where the result is no sum."""
    try:
        method = randomizer_of(recipe)
    except Refusal:
        return ""
    influence = estimator_of(method).influence
    if influence is None:
        return ""
    spec = recipe.question.encoder
    norm = float(exact(spec.norm)) if isinstance(spec, Vector) else 1.0
    return f"{words_of(influence, method.cells, norm)} before the division by q"


def words_of(found: Influence, cells: int, norm: float = 1.0) -> str:
    """Return the same for a result of so many ``cells``; ``norm``: the largest length of an honest vector."""
    far = f"by up to {found.each:,.4g}"
    if found.length is not None:
        times = f"{found.length / norm:,.3g} times the norm"
        return f"add a vector of length {found.length:,.4g}, {times}, or move one number {far}"
    if cells == 1:
        return f"move the total {far}"
    which = f"each of the {cells} numbers at once" if found.numbers >= cells else f"{found.numbers} of {cells} numbers"
    return f"move {which} {far}"
