"""The one document that says what is asked: flags, files and code fill it, and what is wrong is named by its path."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from infra.authoring.survey_flags import FLAGS
from infra.cli import run
from infra.commands.recipes.design import design
from infra.commands.recipes.recipe import census, new
from infra.lab.kit.recipes import RecipeKit, survey_from
from infra.tools.documents.schemas import schema_of
from tacit.accounting.requirements import Requirements
from tacit.errors import FieldError, UsageError
from tacit.operations.design import requirements_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Number
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import ImportancePlan, Survey, read_survey

KIT = RecipeKit()
WITHOUT_FLAG = {"time_precision", "account", "encoder.kind", "encoder.training"}
"""Members that files and code fill, and the word for a kind of answers, which a flag's own name tells."""
ASKED: dict[str, Any] = {
    "name": "errors",
    "metric": "error",
    "encoder": {"kind": "number", "low": 0, "high": 1, "unit": "0.01"},
    "statistic": "mean",
    "population": 20_000,
    "rate": "0.25",
    "start": 3_600_000,
    "duration": 1_800,
    "epoch": 5,
    "slot": 0,
}


def members() -> Iterator[str]:
    for name, field in Survey.model_fields.items():
        if name == "encoder":
            kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
            yield from {f"encoder.{member}" for kind in kinds for member in kind.model_fields}
        elif name == "importance":
            yield from (f"importance.{member}" for member in ImportancePlan.model_fields)
        else:
            yield name


def test_every_member_has_a_flag_and_every_flag_a_member() -> None:
    by_flag = {flag.field for flag in FLAGS.values()}
    assert by_flag - {"encoder.kind"} == set(members()) - WITHOUT_FLAG
    taken = {name for command in (new, census, design) for name in inspect.signature(command).parameters}
    assert set(FLAGS) <= taken


def test_a_flag_refuses_what_the_document_refuses_and_has_its_default() -> None:
    properties = schema_of("survey")["properties"]
    for name, flag in FLAGS.items():
        if "." in flag.field:
            continue
        schema = properties[flag.field]
        branches = schema.get("anyOf", [schema])
        least = next((one["minimum"] for one in branches if one.get("type") == "integer" and flag.kind is int), None)
        assert flag.least == least, name
        assert flag.parameter(name).default == schema.get("default"), name


def test_every_member_is_described() -> None:
    for model in (Survey, ImportancePlan):
        plain = [name for name, field in model.model_fields.items() if not field.description]
        assert set(plain) <= {"encoder", "importance", "account"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder": {"kind": "number", "low": 3, "high": 3}}, "encoder.low: must be below `high`"),
        ({"encoder": {"kind": "number", "low": 3}}, "encoder: needs `encoder.high` too"),
        ({"encoder": {"kind": "boolean", "low": 3}}, "encoder.low: does not belong to `boolean`"),
        ({"encoder": {"kind": "guess"}}, "encoder.kind: must be one of"),
        ({"encoder": {"low": 3}}, "encoder.kind: must be one of"),
        ({"encoder": {"kind": "boolean"}}, "encoder: a mean needs `number`, not `boolean`"),
        ({"statistic": None}, "statistic: is needed"),
        ({"importance": {"default": "no"}}, "importance: needs `importance.default_rate`, `importance.non_default"),
        ({"rate": 0.5}, "rate: takes a number above 0 such as 1 or '0.5', not 0.5"),
        ({"rate": "1.5"}, "rate: must be above 0 and at most 1"),
        ({"rate": True}, "rate: takes a number"),
        ({"epsilon": "NaN"}, "epsilon: takes a number"),
        ({"epsilon": 10**9}, "epsilon: takes at most 9 digits"),
        ({"delta": 1}, "delta: must be above 0 and below 1"),
        ({"dummies": "many"}, "dummies: takes a number"),
        ({"dummy_epsilon": "1"}, "dummy_epsilon: belongs to `dummies` auto"),
        ({"randomizer": "rr"}, "randomizer: a mean needs flips or one-bit, not rr"),
        ({"mechanism": "flips", "randomizer": "flips"}, "mechanism: give either it or `randomizer`"),
        ({"randomizer": "magic"}, "randomizer: 'magic' is not known"),
        ({"aggregator_flips": 3}, "aggregator_flips: must be a multiple of 2"),
        ({"criteria": {"Locale": "de"}}, "criteria.Locale: takes 1 to 32 of a-z"),
        ({"population": 0}, "population: must be at least 1"),
        ({"surprise\n": 1}, "surprise?: is not known"),
    ],
)
def test_what_is_wrong_is_one_line_with_the_members_path(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError) as caught:
        Survey.from_body({**ASKED, **changes})
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert "--" not in str(caught.value)


@pytest.mark.parametrize("name", ["name", "metric", "encoder", "population", "start", "duration", "epoch", "slot"])
def test_a_recipe_names_the_member_that_it_lacks(name: str) -> None:
    survey = Survey.from_body({**ASKED, name: None, "statistic": None if name == "encoder" else "mean"})
    with pytest.raises(FieldError) as caught:
        propose(survey, KIT.parties())
    assert caught.value.field == name


def test_a_survey_cannot_be_changed_and_its_json_makes_the_same_recipe() -> None:
    survey = Survey.from_body(ASKED)
    with pytest.raises(ValidationError):
        survey.name = "other"  # type: ignore[misc]
    again = read_survey(json.dumps(survey.canonical()).encode(), "survey.json")
    assert again == survey
    recipe = propose(survey, KIT.parties())
    assert propose(again, KIT.parties()).hash == recipe.hash
    assert recipe.question.encoder == Number(kind="number", low=0, high=1, unit="0.01")
    assert recipe.batch.time_precision == 60


def test_a_census_is_a_survey_of_attributes() -> None:
    encoder = {"kind": "attributes", "attributes": {"os": ["linux", "mac"]}}
    recipe = propose(Survey.from_body({**ASKED, "metric": None, "statistic": None, "encoder": encoder}), KIT.parties())
    assert recipe.is_census
    assert recipe.question.metric == "attributes"


def test_the_planner_is_asked_what_the_survey_says_and_what_policy_accepts() -> None:
    survey = Survey.from_body({**ASKED, "max_epsilon0": "3"})
    needs = requirements_of(survey, allow_unbounded_local=True)
    number = Number(kind="number", low=0, high=1, unit="0.01")
    assert needs == Requirements(20_000, 1, 1.0, 1e-6, 3.0, "mean", 0, 1, number.step, allow_unbounded_local=True)
    policy = Policy(max_epsilon_local="2")
    assert requirements_of(survey, policy).max_epsilon0 == 2
    cells = survey.having(statistic=None, encoder={"kind": "cells", "cells": 16})
    assert requirements_of(cells) == Requirements(20_000, 16, 1.0, 1e-6, 3.0)
    with pytest.raises(FieldError, match=r"^encoder: is needed"):
        requirements_of(Survey(population=100))
    with pytest.raises(FieldError, match=r"^encoder: needs the names of its answers"):
        cells.question()


TOML = """
name = "errors"
metric = "error"
statistic = "mean"
population = 20000
rate = "0.25"
start = 3600000
duration = 1800
epoch = 5
slot = 0

[encoder]
kind = "number"
low = 0
high = 1
unit = "0.01"
"""


def parties(folder: Path) -> list[str]:
    file = folder / "parties.json"
    file.write_text(json.dumps(KIT.parties().model_dump(mode="json")))
    return ["--parties", str(file), "--json"]


def test_a_file_makes_the_recipe_that_flags_make_and_flags_go_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    toml, file = tmp_path / "survey.toml", tmp_path / "survey.json"
    toml.write_text(TOML)
    file.write_text(json.dumps(ASKED))
    flags = ["--name", "errors", "--metric", "error", "--statistic", "mean", "--low", "0", "--high", "1"]
    flags += ["--unit", "0.010", "--population", "20000", "--rate", "0.250", "--start", "3600000"]
    flags += ["--duration", "1800", "--epoch", "5", "--slot", "0"]
    made = []
    for words in (flags, ["--file", str(toml)], ["--file", str(file)]):
        assert run(["recipe", "new", *words, *parties(tmp_path)]) == 0
        made.append(json.loads(capsys.readouterr().out)["hash"])
    assert len(set(made)) == 1
    assert made[0] == propose(Survey.from_body(ASKED), KIT.parties()).hash_text
    assert run(["recipe", "new", "--file", str(file), "--rate", "0.5", "--high", "2", *parties(tmp_path)]) == 0
    recipe = Recipe.from_body(json.loads(capsys.readouterr().out)["recipe"])
    encoder = recipe.question.encoder
    assert isinstance(encoder, Number)
    assert (recipe.sampling.rate, encoder.high, encoder.unit) == ("0.5", 2, "0.01")
    assert run(["recipe", "new", "--file", str(file), "--statistic", "count", "--boolean", *parties(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["recipe"]["question"]["encoder"] == {"kind": "boolean", "missing": "no"}


def test_a_files_mistake_is_named_by_its_member_and_a_flags_by_the_flag(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "survey.json"
    for changes, words in (({"rate": "2"}, f"{file}: rate: must be above 0"), ({"close": "never"}, "close: must be")):
        file.write_text(json.dumps({**ASKED, **changes}))
        assert run(["recipe", "new", "--file", str(file), *parties(tmp_path)]) == 1
        assert words in capsys.readouterr().err
    file.write_text(json.dumps({**ASKED, "slot": None}))
    assert run(["recipe", "new", "--file", str(file), "--rate", "2", *parties(tmp_path)]) == 2
    assert "--rate: must be above 0" in capsys.readouterr().err
    for content in (b"[]", b"{", b"\xff", b'{"rate": 0.5}'):
        with pytest.raises(UsageError, match=r"^survey\.json: "):
            read_survey(content, "survey.json")


def test_a_comparison_reads_the_same_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "survey.json"
    file.write_text(json.dumps({**ASKED, "population": 5_000}))
    common = ["--allow-unbounded-local", "--json"]
    assert run(["recipe", "design", "--file", str(file), *common]) == 0
    from_file = json.loads(capsys.readouterr().out)
    flags = ["--population", "5000", "--statistic", "mean", "--unit", "0.01"]
    assert run(["recipe", "design", *flags, *common]) == 0
    assert json.loads(capsys.readouterr().out) == from_file


def test_what_the_kit_says_in_short_is_a_survey_too() -> None:
    question = Question.model_validate(
        {"text": "?", "metric": "m", "encoder": {"kind": "number", "low": -5, "high": 5}, "statistic": "sum"}
    )
    rare = {"default": 5, "default_rate": "0.05", "non_default_share": "0.1"}
    survey = survey_from(question=question, population=100, **rare)
    assert survey.importance is not None
    assert survey.importance.default == "0"


COLOURS = {"kind": "categories", "categories": ["red", "green"]}


@pytest.mark.parametrize(
    ("encoder", "more", "labels"),
    [
        (COLOURS, {}, ("red", "green", "no value")),
        ({**COLOURS, "other": "another"}, {}, ("red", "green", "another", "no value")),
        ({**COLOURS, "missing": "unknown"}, {}, ("red", "green", "unknown")),
        ({**COLOURS, "categories": ["no value", "(no value)"]}, {}, ("no value", "(no value)", "((no value))")),
        ({"kind": "buckets", "edges": [0, 5]}, {}, ("0 to <5", "5+", "no value")),
        (COLOURS, {"missing": "ignore"}, ("red", "green")),
        ({"kind": "boolean"}, {}, ("yes",)),
    ],
)
def test_devices_without_a_value_are_a_category_of_a_histogram_unless_they_are_ignored(
    encoder: dict[str, Any], more: dict[str, Any], labels: tuple[str, ...]
) -> None:
    survey = Survey.from_body({**ASKED, "encoder": encoder, "statistic": None, **more})
    assert encoder_of(propose(survey, KIT.parties()).question).labels == labels
    if len(labels) > 1:
        assert survey.shape.cells == len(labels), "ways to ask are compared with it too"
