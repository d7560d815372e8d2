"""Ways behind a shuffler, and local ones, in the comparison of ways to ask: the next command makes what is shown."""

from __future__ import annotations

import json
import math
import shlex
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from infra.cli import run
from infra.lab.kit.recipes import NOW
from infra.lab.kit.shuffled import ShuffledKit
from tacit.accounting.planner import alternatives, proposal
from tacit.accounting.requirements import Requirements
from tacit.dp.binomial import binomial_window
from tacit.errors import Refusal
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import HISTOGRAM, Shape
from tacit.methods.estimators.shuffled import shuffled_estimator_of
from tacit.methods.planners.registry import planner_of
from tacit.methods.shuffled import MAX_CATEGORIES, Zsum
from tacit.methods.shuffled_few import Unbiased
from tacit.operations.design import ways_of
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.writing.survey import Survey
from tacit.rules.table import check
from tacit.task.shuffled import message_size

KIT = ShuffledKit()


@pytest.mark.parametrize(
    ("flags", "answers"),
    [
        (["--population", "1000"], ["--boolean"]),
        (["--population", "20000", "--cells", "4"], ["--categories", "a,b,c,d", "--missing", "ignore"]),
        (
            ["--population", "20000", "--cells", "4", "--epsilon", "4"],
            ["--categories", "a,b,c,d", "--missing", "ignore"],
        ),
        (["--population", "20000", "--accuracy", "0.02"], ["--boolean"]),
    ],
    ids=["count", "histogram", "large epsilon", "sampled"],
)
def test_the_printed_command_makes_the_way_that_was_shown_and_every_rule_accepts_it(
    flags: list[str],
    answers: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    policy = replace_caps(KIT.policy, flags)
    Path("policy.json").write_text(policy.model_dump_json(), encoding="utf-8")
    assert run(["recipe", "design", "--model", "shuffled", "--policy", "policy.json", "--json", *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    shown = document["proposal"]
    Path("parties.json").write_text(KIT.shuffled_parties().model_dump_json(), encoding="utf-8")
    start = NOW - NOW % 3600 + 3600
    more = ["--name", "asked", "--metric", "m", "--parties", "parties.json", "--epoch", "20000", "--slot", "0"]
    more += ["--start", str(start), "--duration", "3600", "--out", "asked.json", *answers]
    assert run([*shlex.split(document["next"]["shuffled"])[1:], *more]) == 0
    made = Recipe.from_body(json.loads(Path("asked.json").read_text(encoding="utf-8")))
    assert (
        (made.model, made.randomizer.name) == (shown["form"], shown["randomizer"]) == ("shuffled", made.randomizer.name)
    )
    assert (made.batch.min_batch_size, float(made.rate)) == (shown["batch_size"], shown["rate"])
    assert claim_of(made)["analyzer_of_shuffled"] <= shown["epsilon_of_batch"] * (1 + 1e-9)
    assert shown["upload_bytes"] == shown["messages"] * message_size(len(answers))
    assert not check(made, policy, Context(Stage.DRAFT, NOW))


def replace_caps(policy: Policy, flags: list[str]) -> Policy:
    """The default policy, or for a larger epsilon one that accepts it and twice as much of half a batch."""
    if "--epsilon" not in flags:
        return policy
    caps = {"max_epsilon_aggregator": "4", "max_epsilon_half_batch": "8"}
    return policy.model_copy(update=caps)


@pytest.mark.parametrize("holders", [5, 43, 60, 400])
@pytest.mark.parametrize("kind", [Zsum, Unbiased])
def test_the_stated_error_is_that_of_the_estimator_with_what_it_cuts(kind: type[Zsum | Unbiased], holders: int) -> None:
    devices = 2_000
    method = planner_of(kind).tuned(Shape(HISTOGRAM, 8), Decimal(1), devices, 1e-6)
    low, masses = binomial_window(devices, method.noise_mean, 1e-18)
    squares = math.fsum(
        mass * (estimate_of(method, holders + noise, devices) - holders) ** 2 for noise, mass in enumerate(masses, low)
    )
    estimator = shuffled_estimator_of(method)
    stated = estimator.expected_error(holders, devices, SampleDesign(1.0))
    assert stated == pytest.approx(math.sqrt(squares), rel=0.25)
    if estimator.cut_at(devices) is None:
        assert stated == pytest.approx(math.sqrt(squares), rel=1e-6)


def estimate_of(method: Zsum | Unbiased, total: int, devices: int) -> float:
    """The estimate of the first cell, the others being empty."""
    return (
        shuffled_estimator_of(method).estimate([total, *[0] * (method.cells - 1)], devices, SampleDesign(1.0)).values[0]
    )


def test_half_of_the_devices_keep_the_cap_with_what_is_proposed() -> None:
    for cells, population in ((1, 1_000), (1, 300), (16, 3_000)):
        needs = Requirements(population, cells, 1.0, 1e-6, model="shuffled")
        chosen = proposal(alternatives(needs), model="shuffled")
        assert chosen.method is not None
        assert chosen.method.aggregate_epsilon(chosen.batch_size // 2, 1e-6) <= 2 * (1 + 1e-9)
        assert chosen.method.aggregate_epsilon(chosen.batch_size, 1e-6) <= 1 * (1 + 1e-9)


def test_only_ways_of_the_wanted_model_are_proposed_and_the_others_say_that_they_can_be_asked() -> None:
    needs = Requirements(20_000, 8, 1.0, 1e-6)
    for model, trust in (
        ("secure-aggregation", "two servers apart"), ("shuffled", "a shuffler apart"), ("local", "nobody"),
    ):  # fmt: skip
        found = alternatives(replace(needs, model=model))
        assert {one.form for one in found if one.available} == {model}
        assert {one.form for one in found if one.allowed} == {"secure-aggregation", "shuffled", "local"}
        chosen = proposal(found, model=model)
        assert (chosen.form, chosen.trust) == (model, trust)
        assert chosen.stderr == min(one.stderr for one in found if one.form == model and one.allowed)


def test_where_no_shuffled_method_fits_amplification_is_compared_and_not_proposed() -> None:
    wide = Requirements(20_000, MAX_CATEGORIES + 1, 1.0, 1e-6, model="shuffled")
    (one,) = [one for one in alternatives(wide) if one.model == "shuffled"]
    assert (one.randomizer, one.form, one.allowed) == ("krr", None, False)
    with pytest.raises(Refusal, match="hide one another"):
        proposal(alternatives(wide), model="shuffled")
    few = Requirements(20, 4, 1.0, 1e-6, model="shuffled")
    assert not [one for one in alternatives(few) if one.model == "shuffled"]


@pytest.mark.parametrize(
    ("model", "names"), [("shuffled", {"zsum", "unbiased", "flipped"}), ("local", {"krr", "rappor", "oue"})]
)
def test_a_survey_of_another_model_is_compared_with_the_ways_of_its_own(model: str, names: set[str]) -> None:
    encoder = {"kind": "cells", "cells": 4}
    asked = Survey.from_body({"model": model, "encoder": encoder, "population": 20_000, "rate": Decimal(1)})
    ways = ways_of(asked, Policy())
    assert ways.refusal is None
    assert ways.used is not None
    assert ways.used.form == model
    assert {one.randomizer for one in ways.found if one.available} == names
    assert ways.used.batch_size == 16_000


def test_a_way_with_more_messages_than_the_policy_allows_is_not_proposed() -> None:
    asked = Survey.from_body(
        {
            "name": "ports", "metric": "port", "model": "shuffled", "statistic": "histogram", "population": 20_000,
            "rate": "1", "encoder": {"kind": "number", "low": 1, "high": 60_000},
        }
    )  # fmt: skip
    strict, lax = KIT.policy, KIT.policy.model_copy(update={"max_messages": 60_001})
    few, many = ({one.randomizer: one.allowed for one in ways_of(asked, policy).found} for policy in (strict, lax))
    assert (few["zsum"], few["flipped"]) == (False, True)
    assert (many["zsum"], many["flipped"]) == (True, True)


def test_the_error_that_is_shown_is_that_of_an_answer_that_is_not_cut() -> None:
    few, many = (
        next(one for one in alternatives(Requirements(20_000, cells, 1.0, 1e-6, model="shuffled"))
             if (one.randomizer, one.rate) == ("zsum", 1.0))
        for cells in (8, 4_000)
    )  # fmt: skip
    assert many.stderr == pytest.approx(few.stderr, rel=0.02), "not that of zeros alone, which is near 5 devices"
