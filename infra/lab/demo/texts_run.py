"""What the demos that look for frequent texts have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from infra.lab.demo.dataset import Dataset, Question
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import DemoRun
from infra.lab.demo.words import MAX_DEVICES, Texts
from tacit.errors import UsageError
from tacit.methods.base.candidate_labels import printable
from tacit.recipe.encoder import StringEncoder
from tacit.recipe.encoder_specs import Domain, Strings
from tacit.recipe.model import Recipe
from tacit.recipe.rounding import domain_words

STEP = 1_000
"""Numbers of rows that are tried for the one that would be enough are multiples of this."""
SURE, HOPELESS = 0.9, 0.05
"""Chances of the most frequent text to be listed, from which on nothing is said, and below which nothing is run."""


@dataclass(frozen=True, slots=True)
class Expected:
    """From how many devices on a text is expected to be listed, and the chance of one that ``most`` devices have."""

    listed_from: float
    chance: float


class TextsRun(DemoRun):
    """A run over ``texts``, of which at most the best ``top`` are shown. ``epsilon``: what is told to whom a recipe is
    planned for. ``notes``: what to know before it runs, a sentence each. Raises ``UsageError`` where the domain holds
    no device's text, and a class that plans also where not even the most frequent one would be found."""

    def __init__(
        self, texts: Texts, epsilon: Decimal, top: int, state_dir: Path, stages: Stages, servers: Sequence[str]
    ) -> None:
        spec = _domain_of(texts)
        self._domain = StringEncoder(spec)
        self._held = Counter(text for text in texts.values if self._domain.item(text) is not None)
        number, fitting = len(texts.values), self._held.total()
        if not fitting:
            symbols = "bytes, without NUL" if spec.alphabet is None else f"characters of {spec.alphabet!r}"
            raise UsageError(f"{texts.source}: no row is a text of 1 to {spec.length} {symbols}; give others")
        self._other_texts = sum(1 for text in texts.values if text.strip()) - fitting
        self.notes = list[str]()
        if self._other_texts:
            self.notes.append(
                f"{self._other_texts:,} of {number:,} rows are not {domain_words(spec)}: they are counted, and not "
                "listed"
            )
        question = Question(f"Which values of {texts.metric} are frequent?", texts.metric)
        super().__init__(Dataset(texts.source, question, texts.values), state_dir, stages, servers)
        self._texts = texts
        self._epsilon = epsilon
        self._top = top

    def _shown_besides(self, recipe: Recipe, document: Mapping[str, Any], truth: Counter[str]) -> dict[str, Any]:
        ranked, spec, outside = document["ranked"], recipe.question.encoder, document["ranked"].get("outside")
        return {
            "threshold": ranked["threshold"]["estimate"],
            "false_positive_rate": ranked["threshold"]["false_positive_rate"],
            "rest_below": ranked["rest"]["below"],
            "rest_probability": ranked["rest"]["probability"],
            "domain_bits": spec.bits if isinstance(spec, Domain) else 0,
            "domain": domain_words(spec) if isinstance(spec, Domain) else "",
            "outside": self._other_texts,
            "outside_estimate": None if outside is None else (outside["estimate"], outside["stderr"]),
            "frequent": tuple(truth.most_common(self._top)),
        }

    def _truth(self, recipe: Recipe) -> Counter[str]:
        """How many devices have each text of the domain."""
        del recipe
        return self._held

    def _require_enough(self, expected: Callable[[int, float], Expected | None]) -> None:
        """Refuse a run that would hardly find anything, and note one that may find nothing. ``expected``: what so many
        rows would show, of which so many have the most frequent text; None where they are too few for a plan. Raises
        ``UsageError``."""
        number, ((best, most),) = len(self._texts.values), self._held.most_common(1)
        found = expected(number, most)
        if found is not None and found.chance >= SURE:
            return
        low, high = number // STEP, MAX_DEVICES // STEP + 1  # the least number, of rows like these, that is enough
        while high - low > 1:
            middle = STEP * ((low + high) // 2)
            told = expected(middle, most * middle / number)
            low, high = (low, middle // STEP) if told is not None and told.chance >= SURE else (middle // STEP, high)
        needed = f"about {high * STEP:,} rows like these" if high * STEP <= MAX_DEVICES else "not even the most rows"
        advice = f"{needed} would be enough; give more rows, a larger --epsilon, or texts of fewer characters"
        if found is None:
            raise UsageError(f"{number:,} rows are too few: {advice}")
        words = (
            f"with {number:,} rows a text is listed from about {found.listed_from:,.0f} devices on, and the most "
            f"frequent one, {printable(best)!r}, is on {most:,}; {advice}"
        )
        if found.chance < HOPELESS:
            raise UsageError(words)
        self.notes.append(words)

    def _outside(self) -> str:
        return "a text that is longer than every one of the domain"


def _domain_of(texts: Texts) -> Strings:
    members = {name: value for name, value in texts.encoder.items() if name in Domain.model_fields}
    return Strings.model_validate({**members, "kind": "strings"})
