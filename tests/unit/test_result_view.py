"""A released result in the terminal and as a page: who sent, what it costs, and nothing that could be markup."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from infra.views.result_page import result_page
from infra.views.result_view import price_rows, sampling_lines, show_result
from services.admin.pages import charts
from services.admin.pages.rendering import environment, render
from services.admin.pages.views.published import release_row
from tacit.methods.base.candidate_labels import UNUSED
from tacit.methods.figures import interval_of, number
from tacit.methods.result import rows
from tacit.operations.results import in_order
from tacit.recipe.candidates import Candidates
from tacit.recipe.cautions import cautions
from tacit.recipe.encoder import PrefixEncoder
from tacit.recipe.encoder_specs import Prefixes

PRIVACY = {"aggregator": 0.9, "both_aggregators": 0.95, "both_aggregators_with_relay": "unbounded"}
DOCUMENT: dict[str, Any] = {
    "recipe_hash": "abcdefghijkl",
    "name": "visits",
    "statistic": "histogram",
    "batch": 0,
    "report_count": 458,
    "interval": {"start": 1_700_000_000, "duration": 60},
    "released_at": 1_700_000_070,
    "buckets": [
        {"label": "no", "count": 288, "estimate": 2720.4, "stderr": 167.0},
        {"label": "<b>yes", "count": 170, "estimate": -24.0, "stderr": 27.0},
    ],
    "sampling": {
        "rate": 0.5,
        "importance": {"default": 0, "default_label": "no", "default_rate": 0.1},
        "dummies": {"intensity": 76.9, "population": 3000},
    },
    "privacy": {
        "delta": 1e-6,
        "mechanism": "shuffle-fmt22+importance+dummies",
        "relation": "replacement",
        "n": 388,
        "by_adversary": PRIVACY,
    },
    "privacy_of_batch": {"n": 458, "mechanism": "shuffle-fmt22", "by_adversary": {**PRIVACY, "aggregator": 0.8}},
}


def shown(document: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=120)
    show_result(document, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_a_result_says_who_sent_and_what_the_claim_and_this_batch_cost() -> None:
    text = shown(DOCUMENT)
    assert "sampled q = 0.1 for no, 0.5 for any other answer" in text
    assert "dummies 76.9 expected among 3,000 devices; estimates allow for them" in text
    assert "reported 2023-11-14 22:13:20 to 22:14:20 UTC" in text
    assert "0.9000" in text
    assert "0.8000" in text
    assert "stated at n = 388 contributions; this batch has 458" in text


def test_the_claim_against_both_aggregators_is_shown_with_its_condition_and_what_holds_without_it() -> None:
    rows = {row[0]: row[1:] for row in price_rows(DOCUMENT)}
    assert rows["both aggregators, if at least 388 honest devices reported"][2] == "", "how many were honest is unknown"
    assert rows["both aggregators otherwise, or with the relay"][0] == "unbounded"
    for text in (shown(DOCUMENT), result_page([DOCUMENT])):
        assert "if at least 388 honest devices reported" in text
        assert "both aggregators otherwise" in text


@pytest.mark.parametrize(
    ("sampling", "lines"),
    [
        ({}, []),
        ({"rate": 1.0}, ["sampled q = 1 for every device"]),
        ({"rate": 0.25}, ["sampled q = 0.25 for every device"]),
        (
            {"rate": 0.5, "dummies": {"intensity": 10.0, "population": 160, "expected": 9.97}},
            [
                "sampled q = 0.5 for every device",
                "dummies 10 expected among 160 devices, about 10.0 of them counted here; estimates allow for them",
            ],
        ),
    ],
)
def test_sampling_is_told_in_sentences(sampling: dict[str, Any], lines: list[str]) -> None:
    assert sampling_lines(sampling) == lines


def test_a_round_says_of_which_series_it_is() -> None:
    text = shown({**DOCUMENT, "series": {"hash": "pugWnE2oKtHy", "index": 2}})
    assert "round 2 of series pugWnE2o, charged once for all rounds" in text


def test_a_mean_is_shown_with_the_decimals_that_its_error_leaves() -> None:
    mean = {"label": "mean", "count": 31_060, "estimate": 7.31349, "stderr": 0.0745}
    text = shown({**DOCUMENT, "statistic": "mean", "buckets": [mean]})
    assert "7.313" in text
    assert "0.146" in text


def test_the_page_holds_the_same_and_no_markup_of_others() -> None:
    page = result_page([DOCUMENT])
    for words in ("sampled q = 0.1 for no", "&lt;b&gt;yes", "2,720", "0.8000", "unbounded", "this batch has 458"):
        assert words in page, words
    assert "<b>yes" not in page
    assert "<script" not in page
    assert "http" not in page
    assert "Nothing was released yet" in result_page([])


def test_what_is_rounded_to_nothing_has_no_sign() -> None:
    assert [number(value, ",.0f") for value in (-0.4, 0.4, -0.6, -1234.5)] == ["0", "0", "-1", "-1,234"]
    assert number(-0.004, ",.2f") == "0.00"
    none = {"label": "none", "count": 0, "estimate": -0.3, "stderr": 9.0}
    assert "-0<" not in result_page([{**DOCUMENT, "buckets": [none]}])


def test_a_result_shows_its_question_and_what_is_estimated_and_results_stand_as_they_were_released() -> None:
    asked = {**DOCUMENT, "question": "How many doctor visits?"}
    for text in (shown(asked), result_page([asked])):
        assert "How many doctor visits?" in text
        assert "an estimate is the total of the devices that answered, and its interval is for these" in text
    assert "an estimate is the mean of the devices that answered" in shown({**asked, "statistic": "mean"})
    times = [{**DOCUMENT, "released_at": at, "name": f"at-{at}"} for at in (30, 10, 20)]
    assert [one["released_at"] for one in in_order(times)] == [10, 20, 30]
    page = result_page(times)
    assert page.index("at-10, batch") < page.index("at-20, batch") < page.index("at-30, batch")


RESPONSE = {
    "estimates_are_of": "devices that answered",
    "counted": 458,
    "answered": {"estimate": 916.0, "stderr": 21.4},
    "asked": {"least": 1_200, "most": 1_200, "by": "recipe"},
    "expected": {"contributions": 600.0, "share": 0.7633, "low": 543, "high": 657, "false_alarm": 0.001},
    "verdict": "fewer",
}
BEHIND = {"share": 0.1, "share_stderr": 0.012, "population_low": 60.4, "population_high": 410.2}
ANSWERED = {**DOCUMENT, "response": RESPONSE, "buckets": [{**row, **BEHIND} for row in DOCUMENT["buckets"]]}


def test_a_result_says_of_whom_it_speaks_and_warns_of_devices_that_stayed_silent() -> None:
    for text in (" ".join(shown(ANSWERED).replace("│", " ").split()), result_page([ANSWERED])):
        for words in (
            "asked 1,200 devices, as the recipe states · 600 contributions expected · 458 contributions counted, 76.3%",
            "sent by a sample of 916 ± 42 devices that answered",
            "458 contributions from 1,200 devices, not the 543 to 657 that chance allows if all had answered",
            "about 24% of the devices, stayed silent",
            "10 ± 2 %",
            "60 to 410",
            "of all 1,200 asked",
            "whatever the silent ones would have answered",
        ):
            assert words in text, words
        assert "arning" in text


def test_where_the_number_of_asked_devices_is_unknown_or_refuted_nothing_is_said_of_all_of_them() -> None:
    unknown = {**DOCUMENT, "response": {"counted": 458, "verdict": "unknown"}}
    text = shown(unknown)
    assert "458 contributions counted; how many devices were asked is not known (--asked N states it)" in text
    assert "nothing is said about devices that stayed silent" in text
    assert cautions(unknown) == []
    (refuted,) = cautions({**DOCUMENT, "response": {**RESPONSE, "verdict": "more"}})
    assert "more devices were asked than the recipe states" in refuted
    assert cautions({**DOCUMENT, "response": {**RESPONSE, "verdict": "expected"}}) == []


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_number_of_a_result_is_cut_in_a_narrow_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    show_result(ANSWERED, console)
    file = console.file
    assert isinstance(file, io.StringIO)
    lines = file.getvalue().splitlines()
    for numbers in (("2,720", "327", "10 ± 2 %", "60 to 410"), ("-24", "53", "10 ± 2 %", "60 to 410")):
        assert any(all(one in line for one in numbers) for line in lines), lines


@pytest.mark.parametrize(
    ("statistic", "words"),
    [
        ("histogram", "devices without a value cannot be told from others, and each adds 0.25 to an estimate"),
        ("mean", "devices without a value are in the mean, each with 0.25"),
    ],
)
def test_a_warning_stands_beside_what_missing_values_bias_wherever_it_is_shown(statistic: str, words: str) -> None:
    missing = {"outside": "clipped", "adds": [0.25, 0.25], "biases": True}
    document = {**DOCUMENT, "statistic": statistic, "missing": missing}
    assert words in " ".join(shown(document).replace("│", " ").split())
    assert f"<b>Warning:</b> {words}" in result_page([document])
    assert f"<strong>Warning:</strong> {words}" in render("release.html", release=release_row(document))
    counted = {**document, "missing": {"outside": "clipped", "label": "no value"}}
    assert "Warning" not in result_page([counted])
    assert "devices without a value are counted as &#x27;no value&#x27;" in result_page([counted])


def test_the_page_of_a_release_has_the_shares_and_the_intervals_for_all_asked_as_the_terminal_has() -> None:
    page = render("release.html", release=release_row(ANSWERED))
    for heading, cell in (("Share of those that answered", "10 ± 2 %"), ("Of all asked, 95 %", "60 to 410")):
        assert f'<th scope="col" class="n">{heading}</th>' in page
        assert f'data-name="{heading}">{cell}</td>' in page
    without = render("release.html", release=release_row(DOCUMENT))
    assert "Of all asked" not in without


def test_of_many_answers_a_terminal_shows_the_largest_and_says_where_all_are() -> None:
    buckets = [{"label": f"port {at}", "count": at, "estimate": float(at), "stderr": 7.0} for at in range(150)]
    text = shown({**DOCUMENT, "buckets": buckets})
    assert "the 40 largest of 150 answers; --format csv and --html have all" in text
    assert text.count("port ") == 40
    assert text.index("port 149") < text.index("port 110")
    assert "port 109" not in text
    assert result_page([{**DOCUMENT, "buckets": buckets}]).count("<b>port ") == 150


def test_the_interval_of_a_count_that_was_cut_begins_at_zero() -> None:
    zeros = {"below": 67.0, "probability": 0.95, "false_positive_rate": 0.0}
    found = {**DOCUMENT, "buckets": [{"label": "rare", "count": 0, "estimate": 0.0, "stderr": 36.0}]}
    row = found["buckets"][0]
    assert interval_of(row, {**found, "zeros": zeros}) == pytest.approx((0.0, 70.56))
    assert interval_of(row, found) == pytest.approx((-70.56, 70.56))


def test_a_round_of_a_search_shows_its_candidates_and_not_the_places_that_it_did_not_need() -> None:
    domain = {"kind": "prefixes", "length": 2, "alphabet": "abc", "levels": (2, 4), "candidates": 8, "other": "others"}
    encoder = PrefixEncoder(Prefixes.model_validate(domain), Candidates(2, (1, 2, 3)))
    buckets = [{"label": label, "count": 9, "estimate": 50.0, "stderr": 7.0} for label in encoder.labels]
    document = {**DOCUMENT, "buckets": buckets}
    assert sum(row["label"].startswith(UNUSED) for row in rows(document)) == 5, "files have every row"
    named = ['"a"…', '"b"…', '"c"…', "others"]
    assert [row["label"] for row in charts.answers(document)["rows"]] == named
    assert [row["label"] for row in environment().filters["answers"](document)] == named
    for text in (shown(document), result_page([document]).replace("&quot;", '"')):
        assert all(label in text for label in named)
        assert UNUSED not in text
    usual = {**DOCUMENT, "buckets": [{**row, "label": f"{UNUSED} 1)"} for row in DOCUMENT["buckets"][:1]]}
    assert UNUSED in shown(usual), "a category may have this name"
