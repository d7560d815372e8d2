"""Decides whether this device belongs to a recipe's audience, and what it answers to a census (SA2 5.5).

The attributes stand in the device's configuration and never leave it but for the randomised answer to a census. A
device outside a recipe's audience does nothing: one line in its own journal, nothing on the wire, no charge, no coin;
its tokens are fetched for every slot, whatever recipes exist. That is the one thing about a device on which its silence
depends, and recipes state it. A census asks every device: one that lacks an attribute has no answer and takes part
like all others (P27).
"""

from __future__ import annotations

from collections.abc import Mapping

from client_agent.data.sources import DataSource, Value
from tacit.recipe.encoder_specs import Attributes, conjunction
from tacit.recipe.model import Question, Recipe

OUTSIDE = "outside the recipe's audience"


def includes(recipe: Recipe, attributes: Mapping[str, str]) -> bool:
    """Whether a device with these attributes meets every criterion of the recipe."""
    return recipe.criteria.items() <= attributes.items()


def datum(question: Question, attributes: Mapping[str, str], source: DataSource) -> Value | None:
    """The device's answer to a question: for a census its own conjunction (``None`` if it lacks one of the attributes),
    otherwise the value of the metric in its data. Raises ``UsageError`` if the source cannot be read."""
    spec = question.encoder
    if not isinstance(spec, Attributes):
        return source.value(question.metric, question.round_input)
    asked = {name: attributes[name] for name in spec.attributes if name in attributes}
    return conjunction(asked) if len(asked) == len(spec.attributes) else None
