"""What people read of recipes that watch an event: before they are made, in a file, in the log, and when checked."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.cli import run
from infra.lab.kit.recipes import NOW
from infra.lab.kit.watched import CELLS, ONE, TWO, WatchingKit
from infra.views.recipe_outlook import outlook_lines
from infra.views.recipe_view import show_check, show_recipe
from tacit.errors import FieldError, UsageError
from tacit.operations.checking import check_recipe
from tacit.operations.design import requirements_of
from tacit.operations.outlook import outlook
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.writing.series_builder import Shape, propose_series

KIT = WatchingKit()


def shown(recipe: Recipe, state: str) -> str:
    stream = io.StringIO()
    show_recipe(recipe, {"state": state}, Console(file=stream, width=240))
    return stream.getvalue()


@pytest.mark.parametrize(
    ("cell", "kept", "sent"),
    [
        ((TWO, "count"), 256, 256),
        ((TWO, "histogram"), 2_048, 1_280),
        ((ONE, "count"), 64, 64),
        ((ONE, "histogram"), 320, 320),
        ((ONE, "mean"), 320, 64),
    ],
)
def test_the_outlook_has_the_sizes_of_the_state_and_of_the_report(cell: tuple[str, str], kept: int, sent: int) -> None:
    """k = 4: k + 1 ciphertexts of 64 bytes with one server; four of them a cell, 2 k cells, k + 1 sent, with two."""
    found = outlook(KIT.watched_recipe(*cell)).of_features["watched"]
    assert (found.state_bytes, found.report_bytes) == (kept, sent)


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_the_outlook_names_the_period_and_against_whom_epsilon_is(cell: tuple[str, str]) -> None:
    recipe = KIT.watched_recipe(*cell)
    period, sizes, claim, error, counted = outlook_lines(recipe, outlook(recipe))
    assert "visit for 10 steps of 60 seconds" in period
    assert "tell an intruder nothing" in sizes
    charged = recipe.privacy.epsilon["analyzer" if cell[0] == ONE else "aggregator"]
    assert f"epsilon {float(charged):.4f} against {'the analyzer' if cell[0] == ONE else 'one aggregator'}" in claim
    assert ("in the result alone" in claim) == (cell[0] == ONE)
    assert ("occurrences" if cell[1] == "mean" else "devices") in error
    assert "a device counts" in counted


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_a_recipe_is_shown_with_its_event_and_the_servers_that_opt_in(cell: tuple[str, str]) -> None:
    recipe = KIT.watched_recipe(*cell)
    said = shown(recipe, "pending")
    assert "10 steps of 60 seconds; reports come after" in said
    assert ("analyzer has not opted in" if cell[0] == ONE else "leader or helper has not opted in") in said
    assert ("active: analyzer has opted in" if cell[0] == ONE else "active: leader and helper have") in shown(
        recipe, "active"
    )
    assert "who reads a device's storage and memory between two updates" in said
    assert shown(recipe, "{odd}").count("{odd}") == 1


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_a_check_shows_every_adversary_of_the_model(cell: tuple[str, str]) -> None:
    recipe, policy = KIT.watched_recipe(*cell), KIT.default_policy
    context = Context(Stage.DRAFT, NOW - 10, directory=KIT.directory())
    found = check_recipe(recipe, policy, context)
    stream = io.StringIO()
    show_check(found, policy, Console(file=stream, width=240))
    said = stream.getvalue()
    assert f"accepted by all {len(found.verdicts)} rules" in said
    assert "unbounded" in said
    assert "at B/2" in said


def test_ways_to_ask_are_not_compared_for_models_with_one_way() -> None:
    with pytest.raises(FieldError, match="model: pan-private is not compared"):
        requirements_of(KIT.watched_survey(TWO, "count"))


def test_models_that_watch_have_no_series() -> None:
    recipe = KIT.watched_recipe(TWO, "count")
    with pytest.raises(UsageError, match="model pan-private has no series"):
        propose_series(recipe, Shape(3, None, recipe.interval.start, 3_600))


WHEN = ["--start", "3600000", "--duration", "3600", "--epoch", "41", "--slot", "0"]
EVENT = ["--name", "visits", "--event", "visit", "--steps", "10", "--step-seconds", "60", "--watch-start", "3599400"]


def new(folder: Path, model: str, *words: str) -> int:
    parties = folder / "parties.json"
    parties.write_text(json.dumps(KIT.parties_of(model).model_dump(mode="json")))
    common = ["--model", model, "--population", "1000", "--parties", str(parties), "--json"]
    return run(["recipe", "new", *common, *WHEN, *words])


def made(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("cell", CELLS, ids=" ".join)
def test_flags_and_a_file_make_the_same_recipe(
    cell: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, statistic = cell
    most = [] if statistic == "count" else ["--most", "4"]
    assert new(tmp_path, model, *EVENT, "--statistic", statistic, *most) == 0
    by_flags = made(capsys)
    encoder = {
        "kind": "occurrences",
        "start": 3_599_400,
        "step_seconds": 60,
        "steps": 10,
        **({"most": 4} if most else {}),
    }
    survey = tmp_path / "survey.json"
    stated = {"name": "visits", "model": model, "metric": "visit", "statistic": statistic, "encoder": encoder}
    survey.write_text(json.dumps(stated))
    assert new(tmp_path, model, "--file", str(survey)) == 0
    by_file = made(capsys)
    assert by_file["hash"] == by_flags["hash"]
    assert by_flags["recipe"]["model"] == model
    assert by_flags["watched"]["epsilon"]["intruder"] == 0
    assert new(tmp_path, model, "--file", str(survey), "--statistic", statistic, "--steps", "5") == 0
    assert made(capsys)["recipe"]["question"]["encoder"]["steps"] == 5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*EVENT, "--statistic", "histogram"], "--most: is needed: the largest number counted in a histogram"),
        ([*EVENT, "--most", "4", "--statistic", "mean"], "--statistic: model pan-private has count, histogram"),
        ([*EVENT, "--statistic", "count", "--most", "4"], "--most: does not belong to a count"),
        ([*EVENT, "--metric", "visit"], "give either --metric or --event"),
        ([*EVENT, "--event", "A visit"], "--event: must name an event"),
        ([*EVENT, "--dummies", "auto"], "--dummies: must be left out in model pan-private"),
        ([*EVENT, "--boolean"], "give only one of"),
        (["--name", "visits", "--boolean"], "--boolean: model pan-private asks how often an event happened"),
        (["--name", "visits"], "missing --event, --steps, --step-seconds"),
        (["--name", "visits", "--event", "visit", "--steps", "3"], "--steps: needs --step-seconds too"),
    ],
)
def test_what_is_wrong_is_one_line_with_its_flag(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert new(tmp_path, TWO, *words) == 2
    assert message in made(capsys)["error"]["detail"]
