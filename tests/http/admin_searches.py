"""A series that searches for frequent texts, beside an admin service."""

from __future__ import annotations

from decimal import Decimal

from tacit.recipe.candidates import asked_prefixes
from tacit.recipe.encoder_specs import PrefixSearch
from tacit.recipe.model import Question
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tests.http.admin_stage import KIT

PAUSE = 600


def search() -> Series:
    """Two rounds of texts of two symbols."""
    encoder = asked_prefixes(
        PrefixSearch(kind="prefixes", length=2, alphabet="<ab", levels=(2, 4), candidates=12), "no value"
    )
    question = Question(text="Which text?", metric="text", encoder=encoder, statistic="histogram")
    recipe = KIT.recipe(name="texts", question=question, population=20_000, rate=Decimal(1), randomizer="krr")
    return propose_series(recipe, Shape(2, 2, recipe.interval.start, 1_200, per_epoch=4, pause_seconds=PAUSE))
