"""``tacit recipe census`` and ``--target``: what they write, what they refuse, what ``show`` says of an audience."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from infra.cli import run
from infra.lab.kit.recipes import CENSUS_ATTRIBUTES, NOW, RecipeKit
from infra.views.audience_view import audience_document, audience_lines
from infra.views.recipe_view import show_recipe
from tacit.adapters.system import SystemClock
from tacit.recipe.census import Census
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import vdaf_spec
from tacit.recipe.model import Recipe

KIT = RecipeKit()
POLICY = KIT.policy.model_copy(update={"attributes": dict(CENSUS_ATTRIBUTES), "min_audience": 100})
TARGETED = KIT.recipe(criteria={"locale": "de", "os": "linux"})


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    """Flags of a recipe without a stack."""
    parties = tmp_path / "parties.json"
    parties.write_text(json.dumps(KIT.parties().model_dump(mode="json")))
    start = int(SystemClock().now()) // 3600 * 3600 + 3600
    return ["--parties", str(parties), "--start", str(start), "--duration", "1800", "--epoch", "5", "--slot", "0"]


def made(capsys: pytest.CaptureFixture[str]) -> Recipe:
    return Recipe.from_body(json.loads(capsys.readouterr().out)["recipe"])


def test_a_census_is_written_from_attributes_and_their_values(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--attribute", "locale=de, en,fr", "--attribute", "os=linux,mac", "--population", "400", "--rate", "1"]
    assert run(["recipe", "census", *asked, *place, "--json"]) == 0
    recipe = made(capsys)
    assert recipe.is_census
    assert (recipe.name, recipe.sampling.rate, recipe.randomizer.categories) == ("census", "1", 7)
    assert run(["recipe", "census", *asked, "--randomizer", "flips", *place, "--json"]) == 0
    assert vdaf_spec(made(capsys)).name == "Prio3SumVec"


def test_a_target_goes_into_the_recipe_and_the_default_policy_refuses_it(
    place: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    question = ["--name", "crashes", "--metric", "crashed", "--boolean", "--population", "400"]
    targets = ["--target", "os=linux", "--target", "locale=de"]
    assert run(["recipe", "new", *question, *targets, *place, "--out", "crashes.json", "--json"]) == 0
    assert made(capsys).criteria == {"locale": "de", "os": "linux"}
    assert run(["recipe", "check", "crashes.json", "--json"]) == 1
    rules = json.loads(capsys.readouterr().out)["rules"]
    assert [one["rule"] for one in rules if not one["passed"]] == ["audience-attribute"]
    assert run(["recipe", "show", "crashes.json"]) == 0
    assert "devices with locale=de,os=linux" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "--boolean", "--target", "locale"], "--target: takes NAME=VALUE"),
        (["new", "--boolean", "--target", "a=b", "--target", "a=c"], "each name once"),
        (["new", "--boolean", "--target", "Locale=de"], "--target: takes 1 to 32 of a-z"),
        (["census", "--attribute", "os"], "--attribute: takes NAME=VALUE"),
        (["census", "--attribute", "os=linux"], "--attribute: needs at least 2 values"),
        (["census", "--attribute", "os=linux,linux"], "distinct"),
    ],
)
def test_malformed_criteria_are_a_usage_error_before_anybody_is_asked(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = ["--name", "crashes", "--population", "400", *(["--metric", "crashed"] if words[0] == "new" else [])]
    assert run(["recipe", *words, *named, "--state-dir", "nowhere"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def document(*censuses: Census) -> dict[str, Any]:
    return audience_document(TARGETED, POLICY, Context(Stage.PUBLISH, NOW, censuses=censuses))


def test_show_says_what_the_log_attests_of_an_audience() -> None:
    census = KIT.census()
    counts = [400, 20, 20, 20, 20, 20]
    leader, helper = (KIT.census_share(census, role, 500, counts) for role in ("leader", "helper"))
    found = document(Census(census, {"leader": leader, "helper": helper}, 3))
    assert (found["needed"], found["census"]) == (100, census.hash_text)
    assert 300 < found["floor"] < found["estimate"] - 3 * found["stderr"]
    assert 0 < found["membership_epsilon"] < 0.5
    console = Console(file=io.StringIO(), width=200)
    show_recipe(TARGETED, {"state": "file", "audience": found}, console)
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert f"at least {found['floor']} by census census" in said
    assert "the number of messages reveals whether one device is among them with at most epsilon" in said
    show_recipe(census, {"state": "file"}, console)
    assert "leader and helper publish what they release" in console.file.getvalue()  # type: ignore[attr-defined]
    assert audience_lines(document()) == ["no census in the log counts them; at least 100 are needed"]
    other = helper.model_copy(update={"report_count": 501})
    assert "500 and 501 reports" in audience_lines(document(Census(census, {"leader": leader, "helper": other}, 3)))[0]
