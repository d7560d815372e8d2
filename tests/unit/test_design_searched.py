"""``tacit recipe design`` for frequent texts: every way with its trust, error and cost, or why it finds nothing."""

from __future__ import annotations

import json
import math
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from infra.lab.kit.recipes import RecipeKit
from tacit.errors import FieldError
from tacit.methods.base.affine import AffineHashing
from tacit.methods.base.design import SampleDesign
from tacit.operations.design_searched import PREFIXES, searched_ways
from tacit.recipe.claims import total_claim
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.recipe.writing.survey import Survey
from tacit.succinct.engines import TreeEngine

STRINGS = {"kind": "strings", "length": 4}


def survey(**members: Any) -> Survey:
    body = {"model": "local", "statistic": "heavy-hitters", "encoder": STRINGS, "population": 100_000, **members}
    return Survey.from_body({"epsilon": Decimal(1), **body})


def test_each_way_is_there_and_the_one_that_finds_the_rarest_texts_comes_first() -> None:
    found = searched_ways(survey(epsilon=Decimal(3)))
    assert {(one.model, one.way) for one in found} == {
        ("local", "tree"),
        ("local", "paper"),
        (PREFIXES, "prefix rounds"),
    }
    assert {one.epsilon for one in found if one.way == "tree"} == {1, 2, 3, 4, 8}
    least = [math.inf if one.listed_from is None else one.listed_from for one in found]
    assert least == sorted(least)
    assert all((one.stderr is None) == (one.listed_from is None) == (one.refusal is not None) for one in found)
    assert {one.trust for one in found if one.model == "local"} == {"nobody"}


def test_a_local_way_has_the_error_of_its_own_estimator() -> None:
    (one,) = [one for one in searched_ways(survey()) if (one.way, one.epsilon) == ("tree", 2)]
    method = AffineHashing(Decimal(2), 3, 32)
    least, stderr = TreeEngine(method).expected(100_000, SampleDesign(1.0))
    assert (one.stderr, one.listed_from, one.payload_bytes, one.messages, one.rounds) == (stderr, least, 17, 100_000, 1)


@pytest.mark.parametrize(("length", "rounds"), [(1, 1), (2, 3), (4, 5), (8, 11)])
def test_prefix_rounds_are_those_of_a_series_in_which_a_device_answers_once(length: int, rounds: int) -> None:
    found = searched_ways(survey(encoder={"kind": "strings", "length": length}))
    (one,) = [one for one in found if one.model == PREFIXES]
    assert (one.rounds, one.available, one.refusal) == (rounds, True, None)
    assert one.series is not None
    assert one.stderr is not None
    assert one.listed_from is not None
    assert (len(one.series.levels), one.series.slots) == (rounds, rounds)
    assert one.messages == sum(one.series.contributions) == pytest.approx(100_000 * one.series.taking_part, abs=rounds)
    assert one.series.min_batch_size == int(0.8 * 100_000 * (1 - 1 / rounds) ** (rounds - 1) / rounds)
    assert one.epsilon == float(one.series.epsilon["aggregator"]) <= float(one.series.epsilon["aggregator_with_relay"])
    assert float(one.series.epsilon["aggregator_with_relay"]) <= 1
    assert 0 < one.stderr < one.listed_from < 100_000


@pytest.mark.parametrize(
    "asked",
    [
        {"strings": "4", "alphabet": "abcdefghijklmnopqrstuvwxyz", "population": "8000", "pause": "60"},
        {"strings": "2", "alphabet": "a b'$\"\\é", "population": "20000", "epsilon": "2", "duration": "600"},
        {"strings": "2", "population": "30000", "max-epsilon0": "3", "delta": "0.0000001"},
    ],
)
def test_the_printed_commands_make_the_series_that_was_shown_and_its_claim(
    asked: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    flags = [word for name, value in asked.items() for word in (f"--{name}", value)]
    assert run(["recipe", "design", *flags, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    shown = next(
        one for one in document["alternatives"] if one["model"] == PREFIXES and one["asked"] == asked_for(asked)
    )
    first, second = (shlex.split(command)[1:] for command in document["next"][PREFIXES])
    parties = RecipeKit().recipe().parties.model_dump(mode="json")
    Path("parties.json").write_text(json.dumps(parties), encoding="utf-8")
    more = ["--name", "words", "--metric", "word", "--parties", "parties.json", "--epoch", "20000", "--slot", "0"]
    more += ["--start", "1728000000"] + ([] if "duration" in asked else ["--duration", "1200"])
    assert run([*first, *more]) == 0
    assert run(second) == 0
    made = Series.from_body(json.loads(Path("search.json").read_text(encoding="utf-8")))
    plan = shown["series"]
    assert made.claim.epsilon.root == plan["epsilon"]
    assert total_claim(made).rounded_up() == plan["epsilon"]
    assert made.claim.delta == plan["delta"]
    assert made.donation is not None
    assert (made.rounds, made.donation.slots, made.donation.pause) == (
        len(plan["levels"]), plan["slots"], plan["pause_seconds"],
    )  # fmt: skip
    assert made.donation.window_seconds == (plan["window_seconds"] or 1200)
    assert made.probe.randomizer.name == plan["randomizer"] == shown["randomizer"]
    assert made.probe.randomizer.epsilon0 == plan["epsilon0"]
    assert made.probe.batch.min_batch_size == plan["min_batch_size"]
    assert float(plan["epsilon0"]) <= float(asked.get("max-epsilon0", "8"))


def asked_for(asked: dict[str, str]) -> str:
    """The epsilon for which the series is made."""
    return asked.get("epsilon", "1")


def test_a_policy_refuses_ways_by_its_own_rules_and_no_party_is_needed() -> None:
    asked = survey(encoder={"kind": "strings", "length": 2})
    (one,) = [one for one in searched_ways(asked, policy=Policy()) if one.model == PREFIXES]
    assert one.available
    strict = Policy(max_epsilon_local="2", min_batch_size=50_000, randomizers=("krr", "affine"))
    found = searched_ways(asked, policy=strict)
    (one,) = [one for one in found if one.model == PREFIXES]
    assert one.refusal is not None
    assert "batch-floor" in one.refusal or "B = " in one.refusal
    assert {one.epsilon for one in found if one.model == "local"} == {1, 2}
    assert {one.way for one in found if one.model == "local" and one.available} == {"tree"}


def test_what_finds_nothing_says_why() -> None:
    refused = [one for one in searched_ways(survey()) if one.way == "paper"]
    assert [one.refusal is not None and "n = 1,000 reports of 32 bits" in one.refusal for one in refused] == [True] * 4
    found = searched_ways(survey(encoder={"kind": "strings", "length": 1}, population=1_000))
    possible = [one for one in found if one.way == "paper" and one.refusal is None]
    assert {(one.epsilon, one.messages) for one in possible} == {(4, 1_000), (8, 1_000)}
    with pytest.raises(FieldError, match="is needed to compare"):
        searched_ways(Survey.from_body({"model": "local", "statistic": "heavy-hitters", "encoder": STRINGS}))


def test_the_command_shows_says_and_draws_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["recipe", "design", "--statistic", "heavy-hitters", "--strings", "4", "--population", "100000"]
    assert run([*asked, "--plot", str(tmp_path / "ways.png")]) == 0
    shown = capsys.readouterr().out
    assert "…" not in shown, "no column is cut"
    assert "model way trust ε ± devices listed from bytes messages rounds" in " ".join(shown.split())
    assert "local tree nobody 8 28 165 17 100,000 1" in " ".join(shown.split())
    assert "prefix rounds" in shown
    assert "paper at epsilon 8 and less: succinct-histogram finds nothing" in shown
    assert "next: tacit recipe new --prefixes 4" in shown
    assert (tmp_path / "ways.png").read_bytes().startswith(b"\x89PNG")
    for flags in (["--statistic", "heavy-hitters"], ["--strings", "4", "--statistic", "histogram"],
                  ["--strings", "4", "--accuracy", "0.1"], ["--strings", "4", "--model", "shuffled"],
                  ["--cells", "4", "--pause", "60"], ["--model", "pan-private"]):  # fmt: skip
        assert run(["recipe", "design", "--population", "1000", *flags]) != 0
        error, hint = capsys.readouterr().err.splitlines()
        assert f"--{'strings' if flags[0] == '--statistic' else flags[-2].strip('-')}" in error or "--strings" in error
        assert hint == "tacit: try: tacit recipe design --help"
    assert run([*asked, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["alternatives"]
    assert len(rows) == 9
    assert {"trust", "stderr", "payload_bytes", "messages", "rounds", "epsilon"} <= set(rows[0])
    assert run([*asked, "--plot", str(tmp_path / "no" / "ways.png")]) != 0
    assert capsys.readouterr().err.count("\n") == 1
