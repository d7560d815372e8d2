"""``tacit recipe design`` for frequent texts: every way with its trust, error and cost, or why it finds nothing."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.cli import run
from tacit.errors import FieldError
from tacit.methods.affine import AffineHashing
from tacit.methods.design import SampleDesign
from tacit.operations.design_searched import PREFIXES, searched_ways
from tacit.recipe.survey import Survey
from tacit.succinct.engines import TreeEngine

STRINGS = {"kind": "strings", "length": 4}


def survey(**members: Any) -> Survey:
    body = {"model": "local", "statistic": "heavy-hitters", "encoder": STRINGS, "population": 100_000, **members}
    return Survey.from_body({"epsilon": Decimal(1), **body})


def test_each_way_is_there_and_the_most_accurate_comes_first() -> None:
    found = searched_ways(survey(epsilon=Decimal(3)))
    assert {(one.model, one.way) for one in found} == {
        ("local", "tree"),
        ("local", "paper"),
        (PREFIXES, "prefix rounds"),
    }
    assert {one.epsilon for one in found if one.way == "tree"} == {1, 2, 3, 4, 8}
    errors = [math.inf if one.stderr is None else one.stderr for one in found]
    assert errors == sorted(errors)
    assert all((one.stderr is None) == (one.listed_from is None) == (one.refusal is not None) for one in found)
    assert {one.trust for one in found if one.model == "local"} == {"nobody"}


def test_a_local_way_has_the_error_of_its_own_estimator() -> None:
    (one,) = [one for one in searched_ways(survey()) if (one.way, one.epsilon) == ("tree", 2)]
    method = AffineHashing(Decimal(2), 3, 32)
    least, stderr = TreeEngine(method).expected(100_000, SampleDesign(1.0))
    assert (one.stderr, one.listed_from, one.payload_bytes, one.messages, one.rounds) == (stderr, least, 17, 100_000, 1)


@pytest.mark.parametrize(("length", "rounds"), [(1, 1), (2, 2), (4, 5), (8, 10)])
def test_prefix_rounds_ask_everybody_in_each_round_and_err_more_the_more_there_are(length: int, rounds: int) -> None:
    found = searched_ways(survey(encoder={"kind": "strings", "length": length}))
    (one,) = [one for one in found if one.model == PREFIXES]
    assert (one.rounds, one.messages, one.available) == (rounds, rounds * 100_000, False)
    assert one.stderr is not None
    assert one.stderr > 5 * rounds


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
    assert "prefix rounds" in shown
    assert "paper at epsilon 8: succinct-histogram finds nothing" in shown
    assert (tmp_path / "ways.png").read_bytes().startswith(b"\x89PNG")
    assert run([*asked, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["alternatives"]
    assert len(rows) == 9
    assert {"trust", "stderr", "payload_bytes", "messages", "rounds", "epsilon"} <= set(rows[0])
    assert run([*asked, "--plot", str(tmp_path / "no" / "ways.png")]) != 0
    assert capsys.readouterr().err.count("\n") == 1
