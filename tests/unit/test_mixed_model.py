"""A shuffler before leader and helper: what devices seal to it, what it can read, and what recipes say of it."""

from __future__ import annotations

from infra.lab.kit.mixed import MixedDevices, MixedKit
from infra.lab.kit.recipes import NOW, RecipeKit
from infra.lab.kit.reports import issuer_key
from tacit.models.servers import shuffler_side
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import AnalyzerParty, Counted, open_reports
from tacit.rules.table import check
from tacit.tokens.slots import TokenVerifier

KIT = MixedKit()
RECIPE = KIT.recipe()
SPKI = issuer_key().token_key.spki


def party() -> AnalyzerParty:
    side = shuffler_side(RECIPE.model)
    task = side.task(RECIPE, SPKI)
    reading, onward = side.reading(RECIPE, None), side.onward(RECIPE, SPKI)
    key_pair, closes = KIT.shuffler_key.key_pair, float(task.end_seconds)
    return AnalyzerParty(task, key_pair, TokenVerifier(SPKI, task.slot), reading, closes, onward=onward)


def test_a_recipe_with_a_shuffler_passes_every_rule() -> None:
    assert check(RECIPE, KIT.policy, Context(Stage.DRAFT, float(NOW))) == []
    assert Recipe.decode(RECIPE.encode()) == RECIPE


def test_a_recipe_without_one_has_the_bytes_that_it_had() -> None:
    assert b"shuffler" not in RecipeKit().recipe().encode()


def test_the_shuffler_opens_a_report_to_one_that_it_cannot_open() -> None:
    found, devices = party(), MixedDevices(RECIPE)
    token = devices.token()
    (counted,) = open_reports(found, [found.task.report_in(devices.report(3, token))])
    assert isinstance(counted, Counted)
    assert counted.numbers == (1,)
    assert found.onward is not None
    assert len(counted.record) == found.onward.size
