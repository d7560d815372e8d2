"""What the demo of a search proposes, refuses and shows, without running it."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
import typer
from jsonschema import Draft202012Validator
from rich.console import Console

from infra.lab.commands.demo_local import epsilon_of
from infra.lab.commands.demo_search import in_few_bits, levels_of
from infra.lab.demo.local_run import LocalRun
from infra.lab.demo.results.report import page, write_report
from infra.lab.demo.results.result import Bucket, StagedRefusal
from infra.lab.demo.results.search_result import Round, SearchResult
from infra.lab.demo.results.view import Stages, show
from infra.lab.demo.search_run import MOST_ROUNDS, SearchRun, bad_rounds, second
from infra.lab.demo.words import Texts
from tacit.errors import UsageError
from tacit.recipe.candidates import Candidates, candidates_of
from tacit.recipe.encoder_specs import Prefixes
from tests.kit.long_texts import urls

SMALL = {"kind": "strings", "length": 3, "alphabet": "abc"}
PRIVACY = {
    "mechanism": "shuffle-fmt22+sampling, in one of 2 rounds",
    "relation": "replacement",
    "n": 80,
    "delta": 1e-6,
    "epsilon": 0.9,
    "epsilon0": 2.0,
    "by_adversary": {"aggregator": 0.9, "aggregator_with_relay": 2.0},
}
NUMBER = {"type": "number"}
COUNT = {"type": "integer", "minimum": 0}
SCHEMA = {
    "type": "object",
    "required": [
        "heavy_hitters",
        "rounds",
        "epsilon",
        "delta",
        "domain_bits",
        "domain",
        "outside",
        "accepted",
        "seconds",
        "threshold",
    ],
    "properties": {
        "heavy_hitters": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"item": {"type": "string"}, "estimate": NUMBER, "stderr": NUMBER, "truth": COUNT},
                "required": ["item", "estimate", "stderr", "truth"],
                "additionalProperties": False,
            },
        },
        "rounds": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "prefix_bits": COUNT,
                    "candidates": COUNT,
                    "kept": {"type": "array", "items": {"type": "string"}},
                    "contributions": COUNT,
                },
                "required": ["prefix_bits", "candidates", "kept", "contributions"],
                "additionalProperties": False,
            },
        },
        "epsilon": {"type": "object", "additionalProperties": NUMBER, "minProperties": 1},
        "delta": NUMBER,
        "threshold": NUMBER,
        "false_positive_rate": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "others_below": NUMBER,
        "domain_bits": COUNT,
        "domain": {"type": "string", "pattern": "^texts of 1 to "},
        "outside": {
            "type": "object",
            "properties": {"devices": COUNT, "estimate": NUMBER, "stderr": NUMBER},
            "required": ["devices", "estimate", "stderr"],
        },
        "planned_rounds": COUNT,
        "accepted": COUNT,
        "seconds": NUMBER,
        "frequent": {"type": "array", "items": {"type": "object", "required": ["item", "devices"]}},
    },
}
"""What a program may rely on in the document of ``--json``; the end-to-end tests check real ones against it."""


def result() -> SearchResult:
    rounds = (Round(4, 9, ("'a'…", *(f"'{number}'…" for number in range(9))), 90), Round(6, 3, ("'ab'",), 80))
    return SearchResult(
        source="rows",
        question="Which values of [b]word[/b] are frequent?",
        recipe={"name": "demo", "hash": "h", "model": "secure-aggregation"},
        devices=300,
        staged=51,
        sampled=170,
        accepted=170,
        rejected=0,
        rejected_by_cause={},
        privacy=PRIVACY,
        buckets=(Bucket("ab", 120, 131.04, 20.0),),
        sightings=(),
        refusals=(StagedRefusal("a round", "recipe server", "round-candidates: [/i]no"),),
        seconds=1.0,
        threshold=60.0,
        false_positive_rate=0.05,
        rest_below=99.0,
        rest_probability=0.95,
        domain_bits=6,
        domain="texts of 1 to 3 of the 3 characters abc",
        outside=150,
        outside_estimate=(152.25, 9.0),
        frequent=(("ab", 120), ("c", 40)),
        rounds=rounds,
        planned=2,
    )


def test_the_document_of_a_search_says_what_each_round_kept_and_the_truth_beside_the_estimates() -> None:
    document = result().document()
    Draft202012Validator(SCHEMA).validate(document)
    assert document["heavy_hitters"] == [{"item": "ab", "truth": 120, "estimate": 131.04, "stderr": 20.0}]
    assert [one["prefix_bits"] for one in document["rounds"]] == [4, 6]
    assert document["epsilon"] == {"aggregator": 0.9, "aggregator_with_relay": 2.0}
    assert document["outside"] == {"devices": 150, "estimate": 152.25, "stderr": 9.0}
    assert document["frequent"][1] == {"item": "c", "devices": 40}


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_the_rounds_and_how_many_texts_were_found(width: int) -> None:
    shown = io.StringIO()
    show(result(), Console(file=shown, width=width), [])
    text = " ".join(shown.getvalue().replace("│", " ").split())
    assert "1 of the 2 most frequent texts were found, and 0 that nobody has" in text
    assert "every other one of the texts of 1 to 3 of the 3 characters abc has fewer than 99 devices" in text
    assert "150 devices have another text, which is never listed (estimate: 152 ± 18)" in text
    assert "and 2 more" in text
    assert "round-candidates: [/i]no" in text, "what is shown is text, not markup"
    assert "--heavy-hitters --input FILE" in text
    assert max(map(len, shown.getvalue().splitlines())) <= width
    assert "What each round asked, and kept" in page(result(), b"")


def test_a_search_that_found_nothing_is_shown_and_drawn(tmp_path: Path) -> None:
    shown = io.StringIO()
    nothing = replace(result(), buckets=())
    show(nothing, Console(file=shown, width=80), write_report(nothing, tmp_path))
    assert "0 of the 2 most frequent texts were found" in shown.getvalue()
    assert nothing.document()["heavy_hitters"] == []
    assert (tmp_path / "result.png").read_bytes().startswith(b"\x89PNG")


def test_a_round_that_kept_nothing_says_so() -> None:
    assert replace(result().rounds[0], kept=()).cells == ("4", "9", "90", "0", "nothing stands out")


def test_an_alphabet_is_proposed_from_the_frequent_characters_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    texts = Texts("file", "word", {"kind": "strings", "length": 8}, ("stop", "go", "", "[b]") * 40)
    found = in_few_bits(texts)
    assert found.encoder == {"kind": "strings", "length": 4, "alphabet": "[]bgopst"}
    rarely = in_few_bits(replace(texts, values=("go",) * 98 + ("a much longer one",) * 2))
    assert rarely.encoder["length"] == 2, "what few devices have is counted, and not listed"
    assert "'[]bgopst'" in capsys.readouterr().err
    strange = replace(texts, values=tuple(chr(0x4E00 + number) for number in range(200)))
    assert in_few_bits(strange).encoder == {"kind": "strings", "length": 3}, "so many characters need bytes"
    many = replace(texts, values=tuple(urls(100)))
    length = in_few_bits(many).encoder["length"]
    assert len(levels_of({**in_few_bits(many).encoder, "length": length})) <= MOST_ROUNDS
    assert len(levels_of({**in_few_bits(many).encoder, "length": length + 1})) > MOST_ROUNDS


@pytest.mark.parametrize("given", ["0", "-1", "nan", "inf", "4.1", "x", "", "1e999999999"])
def test_an_epsilon_out_of_range_is_refused(given: str) -> None:
    with pytest.raises(typer.BadParameter, match="--epsilon takes a number"):
        epsilon_of(given, "2", "4")
    assert epsilon_of(None, "2", "4") == Decimal(2)


def test_too_few_devices_for_the_rounds_are_refused_before_anything_starts(tmp_path: Path) -> None:
    stages = Stages(Console(stderr=True, quiet=True))
    with pytest.raises(UsageError, match="devices are too few for 1 round"):
        SearchRun(Texts("rows", "word", SMALL, ("ab",) * 60), Decimal(2), 5, tmp_path / "stack", stages)


URL = "https://www.example.org/a/page/that/many/have"


def test_a_run_that_would_find_nothing_is_refused_with_the_number_of_rows_that_it_needs(tmp_path: Path) -> None:
    few = Texts(
        "rows", "word", {"kind": "strings", "length": 4, "alphabet": "abcdef"}, ("face", "ab", "cd", "e") * 1250
    )
    with pytest.raises(
        UsageError, match=r"5,000 rows .* listed from about [\d,]+ devices on.*'face', is on 1,250; about"
    ) as no:
        SearchRun(few, Decimal("0.5"), 5, tmp_path / "stack", QUIET)
    needed = int(re.search(r"about ([\d,]+) rows like these would be enough", str(no.value))[1].replace(",", ""))  # type: ignore[index]
    enough = replace(few, values=few.values[:4] * (needed // 4))
    assert SearchRun(enough, Decimal("0.5"), 5, tmp_path / "stack", QUIET).notes == []
    rare = Texts("rows", "word", {"kind": "strings", "length": 8}, tuple(f"{at:04}" for at in range(1_000)))
    with pytest.raises(UsageError, match="not even the most rows would be enough"):
        LocalRun(rare, Decimal(1), 5, "tree", tmp_path / "stack", QUIET)


def test_rows_that_do_not_fit_are_told_of_before_the_run(tmp_path: Path) -> None:
    texts = Texts("rows", "url", {"kind": "strings", "length": 8}, ("a.org",) * 1_600 + (URL,) * 2_390 + ("",) * 10)
    (words,) = LocalRun(texts, Decimal(4), 5, "tree", tmp_path / "stack", QUIET).notes
    assert words.startswith("2,390 of 4,000 rows are not texts of 1 to 8 bytes of UTF-8: they are counted")


@pytest.mark.parametrize("engine", ["tree", "paper"])
def test_texts_of_which_the_domain_holds_none_are_refused_before_anything_starts(tmp_path: Path, engine: str) -> None:
    texts = Texts("rows", "word", {"kind": "strings", "length": 8}, ("a\0b",) * 2000)
    with pytest.raises(UsageError, match="rows: no row is a text of 1 to 8 bytes, without NUL"):
        LocalRun(texts, Decimal(2), 5, engine, tmp_path / "stack", QUIET)
    with pytest.raises(UsageError, match="no row is a text of 1 to 3 characters of 'abc'"):
        SearchRun(Texts("rows", "word", SMALL, ("xyz", "") * 1000), Decimal(2), 5, tmp_path / "stack", QUIET)
    assert not (tmp_path / "stack").exists()


def test_bad_rounds_are_well_formed_recipes_that_differ_from_the_round_in_what_they_say(tmp_path: Path) -> None:
    domain = {"kind": "strings", "length": 3, "alphabet": "abcdefghijklmnopqrstuvwxyz"}
    run = SearchRun(Texts("rows", "word", domain, ("ab",) * 2000), Decimal(2), 5, tmp_path / "stack", QUIET)
    series, spec = run.series, run.series.probe.question.encoder
    assert isinstance(spec, Prefixes)
    first, then = spec.levels[:2]
    before = series.round(0, series.window(0), Candidates(first, (1 << first - 5,)).text())
    following = Candidates(then, ((1 << first - 5) << then - first,))
    bad = list(bad_rounds(series, spec, 1, before, following))
    assert [one.rule for one in bad] == ["round-candidates"] * 3 + ["series-missing"]
    strange = bad[2].recipe.question.round_input
    assert strange is not None
    assert f'"bits":{then}' in strange
    found = candidates_of(before.question)
    assert found is not None
    assert second(series, before, found) is None, "it has one candidate"
    assert len({one.recipe.hash for one in bad}) == 4


QUIET = Stages(Console(stderr=True, quiet=True))
