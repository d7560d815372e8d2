"""What simulated devices would answer together: the truth beside a result of a local stack.

Only because ``tacit up`` drew the data of its agents itself is there anybody who knows it: each agent's folder names
what was drawn (``DRAWN_NAME``). As soon as one of them has other data, perhaps somebody's, nothing is added up.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from client_agent.config import AgentConfig
from client_agent.data.audience import datum, includes
from client_agent.data.sources import open_source
from infra.stacks.agents import CONFIG_NAME, DRAWN_NAME
from infra.stacks.layout import Layout
from tacit.adapters.disk.files import read_bounded
from tacit.errors import UsageError
from tacit.methods.base.statistics import STATISTICS
from tacit.recipe.derive import design_of, is_watched
from tacit.recipe.encoder import encoder_of, labels
from tacit.recipe.encoder_specs import Attributes, Domain, Number
from tacit.recipe.model import Recipe
from tacit.service.base.config_files import load_config

MOST_BYTES: Final = 1 << 16
ONE_BATCH: Final = "interval_end"


@dataclass(frozen=True)
class Truth:
    """What the ``agents`` that a recipe asks hold: one number for each label of its result, in that order."""

    agents: int
    values: tuple[float, ...]

    @property
    def words(self) -> str:
        """Whose truth it is, and why it is known."""
        return (
            f"truth: of the {self.agents} agents of this stack, at work or not; known only because they are simulated, "
            "with data that was drawn here. Of real devices nobody knows it"
        )

    def document(self, recipe: Recipe) -> dict[str, Any]:
        """The members ``agents``, ``because`` and ``truth`` (number by label). Raises ``ValueError`` for a recipe that
        has another number of labels."""
        by_label = dict(zip(labels(recipe), self.values, strict=True))
        return {"agents": self.agents, "because": "simulated", "truth": by_label}


def truth_of(layout: Layout, recipe: Recipe) -> Truth | None:
    """What the stack's agents that ``recipe`` asks hold together. None where it asks others too, where one of them has
    other data than was drawn, or none, and for what is not counted or added up once in one batch."""
    encoder = recipe.question.encoder
    single = recipe.batch.close == ONE_BATCH and recipe.series is None and recipe.sampling.importance is None
    kind = STATISTICS[recipe.question.statistic]
    if not single or is_watched(recipe) or isinstance(encoder, Domain) or kind.is_vector:
        return None
    try:
        answers = _answers(layout, recipe)
    except (UsageError, OSError):
        return None
    design = design_of(recipe)
    asked = round(recipe.batch.expected_contributions / design.sends(design.rate))
    if not answers or None in answers or asked > len(answers) + 1:
        return None
    found = [answer for answer in answers if isinstance(answer, int)]
    if kind.is_one_hot:
        return Truth(len(found), tuple(float(found.count(place)) for place in range(len(labels(recipe)))))
    if isinstance(encoder, Number):
        total = float(encoder.least * len(found) + encoder.step * sum(found))
        return Truth(len(found), (total / len(found) if kind.is_ratio else total,))
    return Truth(len(found), (float(sum(found)),))


def _answers(layout: Layout, recipe: Recipe) -> list[Any]:
    """The encoded answer of every agent that the recipe asks, None for one without. Raises ``UsageError`` where its
    data is not what was drawn."""
    encoder, found = encoder_of(recipe.question), []
    for path in sorted(layout.state_dir.glob(f"agents/*/{CONFIG_NAME}")):
        config, drawn = load_config(path, AgentConfig), _draw(path.parent)
        if config.attributes != drawn.get("attributes"):
            raise UsageError(f"{path}: other attributes than were drawn")
        if not includes(recipe, config.attributes):
            continue
        value = datum(recipe.question, config.attributes, open_source(config.source))
        if not isinstance(recipe.question.encoder, Attributes) and value != drawn["data"].get(recipe.question.metric):
            raise UsageError(f"{path}: other data than was drawn")
        found.append(None if value is None else encoder.encode(value))
    return found


def _draw(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads(read_bounded(folder / DRAWN_NAME, MOST_BYTES))
        return {"attributes": dict(found["attributes"]), "data": dict(found["data"])}
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{folder}: not what was drawn") from error
