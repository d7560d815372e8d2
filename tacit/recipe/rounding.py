"""How a question rounds and clips a device's value, in words, and whether that is coarse."""

from __future__ import annotations

from fractions import Fraction

from pydantic import ValidationError

from tacit.dp.binomial_noise import MAX_FLIPS
from tacit.recipe.derive import vdaf_spec
from tacit.recipe.encoder import encoder_of, holds_one
from tacit.recipe.encoder_specs import Buckets, Domain, Occurrences, Prefixes, Range, Strings, Update, Vector
from tacit.recipe.model import Question, Recipe
from tacit.recipe.quantity import in_words, quantity

FEW_STEPS = 10
"""With fewer steps than this, rounding may move a value, and the mean of values that agree, by over a twentieth of the
range."""
_FINER = (100, 50, 20)
"""Numbers of steps that are proposed instead: the largest of these for which the noise fits."""


def rounding_words(question: Question) -> str | None:
    """How values are rounded, clipped or cut, in words; None for questions that do none of it."""
    spec = question.encoder
    if isinstance(spec, Buckets):
        below = f"below {spec.edges[0]} it counts as {spec.other or encoder_of(question).labels[0]}"
        return f"a value belongs to the last bucket whose lower edge it reaches{_between(spec)}; {below}"
    if isinstance(spec, Occurrences):
        return _describe_counting(question, spec)
    if isinstance(spec, Prefixes):
        asked = ", ".join(map(str, spec.levels))
        return f"{domain_words(spec)}, of whose {spec.bits} bits the rounds ask for the first {asked}; {_others(spec)}"
    if isinstance(spec, Strings):
        return f"{domain_words(spec)}; {_others(spec)}"
    if not isinstance(spec, Range):
        return None
    what = "entries are" if isinstance(spec, Vector) else "values are"
    grid = "" if spec.least % spec.step == 0 else f" counted from {spec.low}"
    words = (
        f"{what} rounded to the nearest {in_words(spec.step)}{grid}, half-way ones to an even number of steps above "
        f"{spec.low}; below {spec.low} counts as {spec.low}, above {spec.high} as {spec.high}"
    )
    if isinstance(spec, Update):
        words = f"the update is divided by the round's clip and shrunk to length {spec.norm}; {words}"
    return f"{words}; then the vector is shrunk to length {spec.norm}" if isinstance(spec, Vector) else words


def _between(spec: Buckets) -> str:
    """An example of a number that is not whole, where a bucket is named by the one whole number in it."""
    named = holds_one(spec.edges)
    first = next((int(edge) for edge in spec.edges if edge in named), None)
    return "" if first is None else f", so {in_words(first + Fraction(1, 2))} counts as {first}"


def domain_words(spec: Domain) -> str:
    """Which texts a domain holds, in words."""
    if spec.alphabet is None:
        return f"texts of 1 to {spec.length} bytes of UTF-8"
    return f"texts of 1 to {spec.length} of the {len(spec.alphabet)} characters {spec.alphabet}"


def _others(spec: Domain) -> str:
    if spec.outside is None:
        return "any other text counts as no value"
    return f"any other text is counted as {spec.outside!r}, and never listed"


def _describe_counting(question: Question, spec: Occurrences) -> str:
    if question.statistic == "count":
        return "a device counts once, however often the event happened"
    more = "all of them together are the last category" if question.statistic == "histogram" else "more count as many"
    return f"a device counts up to {spec.most} occurrences; {more}"


def coarse_words(recipe: Recipe) -> str | None:
    """A warning where a range has so few steps that rounding may matter more than noise, with a finer unit and its
    cost; None elsewhere, as where each step is an answer. Only the analyst can know whether values lie between the
    steps."""
    spec = recipe.question.encoder
    if not isinstance(spec, Range) or spec.maximum >= FEW_STEPS or recipe.question.statistic == "histogram":
        return None
    unit, between = in_words(spec.step), in_words(spec.least + Fraction(3, 10) * spec.step)
    steps = "1 step" if spec.maximum == 1 else f"{spec.maximum} steps"
    return (
        f"unit {unit} is coarse: {spec.low} to {spec.high} has {steps}, {between} counts as {spec.low}, and rounding "
        f"may move a mean by {in_words(Fraction(spec.step) / 2)}, which no interval shows; right where values are "
        f"multiples of {unit}, otherwise {_finer(recipe, spec)}"
    )


def _finer(recipe: Recipe, spec: Range) -> str:
    """A finer unit, and how many bits a number of a report then has."""
    for steps in _FINER:
        largest = _largest(recipe, spec, steps)
        if largest is not None:
            bits, now = largest.bit_length(), _largest_now(recipe).bit_length()
            unit = in_words(Fraction(spec.most - spec.least) / steps)
            return f"take unit {unit}: the noise stays as it is, a number of a report has about {bits} bits, now {now}"
    return "take a smaller range, or more devices: their noise leaves no room for a finer unit"


def _largest_now(recipe: Recipe) -> int:
    """The largest number that a report adds to a sum."""
    spec = vdaf_spec(recipe)
    if spec.vector is not None:
        return spec.vector.scale * spec.vector.max_value + spec.vector.flips
    return spec.max_measurement or 1


def _largest(recipe: Recipe, spec: Range, steps: int) -> int | None:
    """The largest number in a report with that many steps, and noise that is as large in the question's own units; None
    where there is no such question, or a device would add too many coin flips."""
    shares, factor = recipe.randomizer, Fraction(steps, spec.maximum)
    try:
        type(spec).model_validate({**spec.canonical(), "unit": quantity(spec.step / factor)})
    except (ValidationError, ValueError):
        return None
    scale = max(1, int((shares.scale or 1) / factor))
    flips = (shares.flips or 0) * (factor * scale / (shares.scale or 1)) ** 2
    return None if flips > MAX_FLIPS else scale * steps + int(flips)
