"""What the demos that look for frequent texts have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from infra.lab.demo.dataset import Dataset, Question
from infra.lab.demo.results.view import Stages
from infra.lab.demo.run import DemoRun
from infra.lab.demo.words import Texts
from tacit.errors import UsageError
from tacit.recipe.encoder import StringEncoder
from tacit.recipe.encoder_specs import Domain, Strings
from tacit.recipe.model import Recipe


class TextsRun(DemoRun):
    """A run over ``texts``, of which at most the best ``top`` are shown. ``epsilon``: what is told to whom a recipe is
    planned for. Raises ``UsageError`` where the domain holds no device's text."""

    def __init__(
        self, texts: Texts, epsilon: Decimal, top: int, state_dir: Path, stages: Stages, servers: Sequence[str]
    ) -> None:
        _require_texts(texts)
        question = Question(f"Which values of {texts.metric} are frequent?", texts.metric)
        super().__init__(Dataset(texts.source, question, texts.values), state_dir, stages, servers)
        self._texts = texts
        self._epsilon = epsilon
        self._top = top

    def _shown_besides(self, recipe: Recipe, document: Mapping[str, Any], truth: Counter[str]) -> dict[str, Any]:
        ranked, spec = document["ranked"], recipe.question.encoder
        return {
            "threshold": ranked["threshold"]["estimate"],
            "false_positive_rate": ranked["threshold"]["false_positive_rate"],
            "rest_below": ranked["rest"]["below"],
            "rest_probability": ranked["rest"]["probability"],
            "domain_bits": spec.bits if isinstance(spec, Domain) else 0,
            "frequent": tuple(truth.most_common(self._top)),
        }

    def _truth(self, recipe: Recipe) -> Counter[str]:
        """How many devices have each text of the domain."""
        spec = recipe.question.encoder
        if not isinstance(spec, Domain):
            return Counter()
        encoder = StringEncoder(spec)
        items = (encoder.encode(value) for value in self._texts.values)
        texts = (encoder.text(item) for item in items if isinstance(item, int))
        return Counter(text for text in texts if text is not None)

    def _outside(self) -> str:
        """A text that the domain does not hold."""
        return "a text that is longer than every one of the domain"


def _require_texts(texts: Texts) -> None:
    members = {name: value for name, value in texts.encoder.items() if name in Domain.model_fields}
    spec = Strings.model_validate({**members, "kind": "strings"})
    encoder = StringEncoder(spec)
    if not any(isinstance(encoder.encode(value), int) for value in texts.values):
        symbols = "bytes, without NUL" if spec.alphabet is None else f"characters of {spec.alphabet!r}"
        raise UsageError(f"{texts.source}: no row is a text of 1 to {spec.length} {symbols}; give others")
