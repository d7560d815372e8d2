"""Rounds of a search that nobody accepts, each as the analyst who signs the recipes could publish it."""

from __future__ import annotations

from collections.abc import Iterator

from infra.lab.demo.attacks.series import BadRound
from tacit.recipe.candidates import Candidates, candidates_of, extensions
from tacit.recipe.encoder_specs import Prefixes
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series


def bad_rounds(series: Series, spec: Prefixes, index: int, before: Recipe, following: Candidates) -> Iterator[BadRound]:
    """Recipes for round ``index`` > 0, in place of the one that asks for ``following``. ``before``: the round
    before."""
    window = series.window(index)
    rule = "round-candidates"
    many = Candidates(following.bits, tuple(range(spec.candidates + 1))).text()
    yield BadRound("a round with more candidates than its search states", rule, series.round(index, window, many))
    earlier = series.round(index, window, before.question.round_input)
    yield BadRound("a round that asks again what the one before asked", rule, earlier)
    strange = _strange(spec, candidates_of(before.question), following.bits)
    if strange is not None:
        what = "a round about a prefix that the one before did not ask of"
        yield BadRound(what, rule, series.round(index, window, strange.text()))
    other = Series.from_body({**series.body(), "name": f"{series.name}-two"})
    stolen = other.round(index, window, following.text())
    yield BadRound("these candidates in a round of another series", "series-missing", stolen, has_series=False)


def second(series: Series, recipe: Recipe, found: Candidates) -> BadRound | None:
    """Another recipe for the round that ``recipe``, asking of ``found``, holds in the log; None where it has one
    candidate only."""
    if recipe.series is None or len(found.prefixes) < 2:
        return None
    fewer = Candidates(found.bits, found.prefixes[:-1]).text()
    made = series.round(recipe.series.index, recipe.interval, fewer)
    return BadRound("a second recipe for a round that was asked", "series-round", made)


def _strange(spec: Prefixes, before: Candidates | None, bits: int) -> Candidates | None:
    """A prefix of ``bits`` bits that begins with no candidate of ``before``; None where these are all that there
    are."""
    if before is None:
        return None
    short = spec.levels[0]
    known = {one >> before.bits - short for one in before.prefixes}
    every = extensions(spec, 0, 0, short, spec.candidates) or []
    first = next((one for one in every if one not in known), None)
    longer = [] if first is None else (extensions(spec, first, short, bits, 1 << 16) or [])
    return Candidates(bits, (longer[0],)) if longer else None
