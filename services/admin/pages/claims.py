"""A recipe's privacy claim against each adversary, in words."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Decimal
from typing import Any

from tacit.dp.claim import UNBOUNDED
from tacit.models.form import Form
from tacit.models.forms import find_form
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series


def claim_rows(recipe: Recipe, series: Series | None = None) -> list[dict[str, Any]]:
    """One row for each adversary: who it is, epsilon and delta as stated, and a sentence on what they mean; of a
    ``series``, what all its rounds together cost. The last one's ``note`` is about all of them: what a shuffler
    adds."""
    claim = recipe.privacy if series is None else series.claim
    form = find_form(recipe.model)
    rows: list[dict[str, Any]] = []
    for name, stated in claim.epsilon.root.items():
        one = None if form is None else form.adversary(name)
        who = name if one is None else one.words.format(n=recipe.privacy.n)
        bounded = stated != UNBOUNDED
        rows.append(
            {
                "who": describe_adversary(who, str(rows[-1]["who"]) if rows else ""),
                "epsilon": stated if bounded else None,
                "delta": "0" if one is not None and one.pure else str(claim.delta),
                "means": meaning(float(stated)) if bounded else "nothing is guaranteed against it",
                "condition": None if one is None else one.condition,
                "otherwise": _words(form, None if one is None else one.otherwise, recipe.privacy.n),
                "note": "",
            }
        )
    if form is not None:
        rows[-1]["note"] = form.mixing_words(recipe.parties, recipe.batch.min_batch_size)
    return rows


def describe_adversary(who: str, before: str) -> str:
    """An adversary in words; one that continues the adversary ``before`` it has its words in place of the dots."""
    return who.replace("...", before.partition(",")[0]) if who.startswith("...") else who


def _words(form: Form | None, name: str | None, n: int) -> str:
    """The adversary whose number applies instead, in words."""
    one = None if form is None or name is None else form.adversary(name)
    return "" if one is None else one.words.format(n=n).removeprefix("... ")


def meaning(epsilon: float) -> str:
    """What an epsilon guarantees to one device, in words."""
    if not math.isfinite(epsilon):
        return "nothing is guaranteed against it"
    if not epsilon:
        return "what it sees is as likely with one answer of a device as with any other"
    factor = math.exp(min(epsilon, 700.0))
    if factor > 1000:
        return "hardly anything is guaranteed against it"
    shown = float(Decimal(factor).quantize(Decimal(10) ** (math.floor(math.log10(factor)) - 2), ROUND_CEILING))
    return f"what it sees is at most {shown:g} times as likely with one answer of a device as with any other"
