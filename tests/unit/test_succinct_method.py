"""The succinct histogram as a method of recipes, and the engine that searches its reports."""

from __future__ import annotations

import math
import random
from decimal import Decimal
from typing import Any

import pytest

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.affine import PUBLIC_SIZE, AffineHashing
from tacit.methods.base.design import SampleDesign
from tacit.methods.base.statistics import HEAVY_HITTERS, Shape
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.estimators.succinct_histogram import SuccinctHistogramEstimator
from tacit.methods.krr import Krr
from tacit.methods.randomisers.succinct_histogram import SuccinctHistogramRandomiser
from tacit.methods.registry import METHODS
from tacit.methods.succinct_histogram.histogram import BETA, MOST_REPORTS, PaperHistogram
from tacit.succinct.engines import PaperEngine, TreeEngine, engine_of

SHAPE = Shape(HEAVY_HITTERS, 0, item_bits=8)
EVERYBODY = SampleDesign(1.0)
METHOD = PaperHistogram(Decimal(8), 8, MOST_REPORTS)


def reports(method: PaperHistogram, items: list[int | None]) -> list[bytes]:
    """A device's record after the other, two in each part."""
    entropy = SeededEntropy(b"devices")
    drawn = (SuccinctHistogramRandomiser(method).randomise(item, entropy) for item in items)
    records = [public.to_bytes(PUBLIC_SIZE, "big") + bytes([bit]) for public, bit in drawn]
    return [b"".join(records[at : at + 2]) for at in range(0, len(records), 2)]


def test_a_recipe_states_what_makes_the_method_again() -> None:
    members = METHOD.members()
    assert members == {"epsilon0": "8", "categories": 2, "reports": 1000}
    assert PaperHistogram.of(SHAPE, {**members, "epsilon0": Decimal(8)}) == METHOD
    assert METHODS["succinct-histogram"] is PaperHistogram
    with pytest.raises(ValueError, match="categories must be 2"):
        PaperHistogram.of(SHAPE, {**members, "categories": 4})
    with pytest.raises(ValueError, match="an item must be from 0 to 255"):
        SuccinctHistogramRandomiser(METHOD).randomise(256, SeededEntropy(1))


@pytest.mark.parametrize(
    ("epsilon", "bits", "many", "words"),
    [
        (
            "8",
            8,
            100_000,
            r"T n\^1.5 = 94,868,330 channels of n = 100,000 reports, T n\^2.5 steps; n can be 1,000 at most",
        ),
        (
            "4",
            32,
            1_000,
            r"T = 3 repetitions with K = 32,768 channels, and epsilon / \(T \+ 1\) = 1 in each, and only a",
        ),
        ("8", 8, 300, "n = 300 reports of 8 bits"),
        ("8", 8, 1, "only a share above inf"),
    ],
)
def test_what_cannot_work_is_refused_with_its_numbers(epsilon: str, bits: int, many: int, words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        PaperHistogram(Decimal(epsilon), bits).expecting(many)
    assert "\n" not in str(caught.value)


def test_each_method_has_the_engine_that_it_names() -> None:
    assert type(engine_of(METHOD)) is PaperEngine
    assert type(engine_of(AffineHashing(Decimal(1), 2, 8))) is TreeEngine
    assert engine_of(Krr(Decimal(1), 3)) is None


def test_the_most_frequent_item_agrees_most_and_estimates_add_nothing_for_silence() -> None:
    method, engine = PaperHistogram(Decimal(8), 4, 300), PaperEngine(PaperHistogram(Decimal(8), 4, 300))
    drawn: list[int | None] = random.Random(3).choices([9, 2, None], [80, 10, 10], k=300)
    document = engine.search(reports(method, drawn))
    assert document["items"][0] == 9
    assert document["accepted"] == sum(b"".join(reports(method, drawn))[PUBLIC_SIZE :: PUBLIC_SIZE + 1])
    assert estimator_of(method).missing_adds(EVERYBODY) == (0.0,)
    with pytest.raises(ValueError, match="no report was accepted"):
        engine.search([bytes(PUBLIC_SIZE + 1)] * 5)


@pytest.mark.slow
def test_an_item_that_most_devices_have_is_listed_alone_with_its_number() -> None:
    drawn: list[int | None] = [7] * 850 + [None] * 100 + list(range(50))
    engine = PaperEngine(METHOD)
    found = engine.ranking(engine.search(reports(METHOD, drawn)), 1000, EVERYBODY)
    assert found.items == (7,)
    assert abs(found.estimate.values[0] - 851) < 4 * found.estimate.stderrs[0]


@pytest.mark.parametrize("rate", [1.0, 0.25])
def test_an_estimate_is_unbiased_over_a_report_and_scales_with_the_rate(rate: float) -> None:
    """The expected share of agreeing signs among accepted reports gives the number of holders back."""
    design, accepted, share = SampleDesign(rate), 1_000_000, 0.3
    kept = float(METHOD.output_probabilities()[0])
    agreeing = round(accepted * (share * kept + (1 - share) / 2))
    found = estimator_of(METHOD).estimate([agreeing], accepted, design)
    (value,), (stderr,) = found.values, found.stderrs
    total = SuccinctHistogramEstimator(METHOD).total(accepted, design)
    assert value == pytest.approx(share * total, rel=1e-4)
    assert stderr >= total / math.sqrt(METHOD.histogram.oracle.rows)
    assert total == pytest.approx(accepted / rate / METHOD.one_bit.accepted)


def test_a_ranking_lists_what_passes_the_oracles_bound_and_bounds_the_rest() -> None:
    engine, accepted = PaperEngine(METHOD), 120
    document = {"items": [5, 6], "agreeing": [110, 60], "accepted": accepted}
    found = engine.ranking(document, 1000, EVERYBODY)
    total = SuccinctHistogramEstimator(METHOD).total(accepted, EVERYBODY)
    assert found.items == (5,)
    assert found.threshold == pytest.approx(total * METHOD.histogram.oracle.error_bound(accepted))
    assert [found.false_positive_rate, found.probability] == pytest.approx([BETA / 3, 0.75])
    assert found.threshold < found.below <= total + 1
    least, stderr = engine.expected(1000, EVERYBODY)
    assert 0 < stderr < least < 1000
    assert (engine.report_bits, engine.domain_bits) == (1, 8)


@pytest.mark.parametrize(
    "document",
    [
        None,
        {"items": [], "agreeing": []},
        {"items": [1], "agreeing": [], "accepted": 5},
        {"items": [1, 1], "agreeing": [4, 3], "accepted": 5},
        {"items": [1, 2], "agreeing": [3, 4], "accepted": 5},
        {"items": [1], "agreeing": [6], "accepted": 5},
        {"items": [256], "agreeing": [4], "accepted": 5},
        {"items": [1], "agreeing": [True], "accepted": 5},
        {"items": [1], "agreeing": [4], "accepted": 0},
        {"items": [1], "agreeing": [4], "accepted": 11},
        {"items": [1], "agreeing": [4], "accepted": None},
        {"items": 1, "agreeing": [4], "accepted": 5},
        {"items": list(range(1001)), "agreeing": [4] * 1001, "accepted": 5},
    ],
)
def test_a_document_that_no_search_makes_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r"search|items|accepted"):
        PaperEngine(METHOD).ranking(document, 10, EVERYBODY)
