"""Counting supports by one transform, and the search for frequent items."""

from __future__ import annotations

from array import array
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.methods.base.affine import PUBLIC_SIZE, AffineHashing, hash_of
from tacit.methods.base.design import SampleDesign
from tacit.methods.estimators.affine import AffineEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.randomisers.affine import AffineRandomiser
from tacit.recipe.candidates import TextPrefixes
from tacit.recipe.encoder import StringEncoder
from tacit.recipe.encoder_specs import Strings
from tacit.succinct import supports
from tacit.succinct.supports import Reports, count_supports
from tacit.succinct.tree import MAX_TOP, Collected, Found, Level, others_below, search, threshold
from tests.kit.long_texts import crash_signatures

EVERYBODY = SampleDesign(1.0)
SEEDS = st.integers(0, 2**64 - 1)


def reports_of(hash_bits: int, rows: list[tuple[int, int]]) -> Reports:
    found = Reports(hash_bits)
    found.add(array("Q", [seed for seed, _ in rows]), bytes(value % (1 << hash_bits) for _, value in rows))
    return found


@settings(max_examples=60)
@given(st.integers(1, 4), st.lists(st.tuples(SEEDS, st.integers(0, 15)), max_size=20), st.data())
def test_the_kernel_counts_what_the_definition_counts(
    hash_bits: int, rows: list[tuple[int, int]], data: st.DataObject
) -> None:
    free = data.draw(st.integers(0, 5))
    prefix_bits = data.draw(st.integers(0, 512 - free))
    prefixes = data.draw(st.lists(st.integers(0, (1 << prefix_bits) - 1), min_size=1, max_size=3))
    reports = reports_of(hash_bits, rows)
    wanted = [
        [
            sum(
                hash_of(seed, prefix << free | last, hash_bits) == value
                for seed, value in zip(reports.seeds, reports.values, strict=True)
            )
            for last in range(1 << free)
        ]
        for prefix in prefixes
    ]
    assert [list(row) for row in count_supports(reports, prefixes, prefix_bits, free)] == wanted
    assert [list(row) for row in supports._pure(reports, prefixes, prefix_bits, free)] == wanted


def test_more_prefixes_than_share_a_spectrum_are_counted_alike() -> None:
    reports = reports_of(2, [(seed * 2**40 + 1, seed) for seed in range(50)])
    found = count_supports(reports, list(range(70)), 7, 2)
    assert found == supports._pure(reports, list(range(70)), 7, 2)


def test_without_the_kernel_the_counts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = reports_of(3, [(seed * 2**40 + 7, seed) for seed in range(50)])
    before = count_supports(reports, [1, 2], 4, 3)
    monkeypatch.setenv("TACIT_NATIVE", "off")
    assert count_supports(reports, [1, 2], 4, 3) == before


def test_reports_that_would_overflow_a_spectrum_are_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    reports = reports_of(2, [(seed * 2**40 + 3, seed) for seed in range(50)])
    whole = count_supports(reports, [0, 5], 3, 4)
    monkeypatch.setattr(supports, "MAX_SIGNS", 4 * 16)
    assert [len(part) for part in reports.parts()] == [16, 16, 16, 2]
    assert count_supports(reports, [0, 5], 3, 4) == whole
    assert [len(part) for part in Reports(2).parts()] == [0]


@pytest.mark.parametrize(("prefixes", "bits", "free"), [([4], 2, 3), ([0], 508, 5), ([0], 0, 21), ([-1], 2, 2)])
def test_lengths_and_prefixes_out_of_range_are_refused(prefixes: list[int], bits: int, free: int) -> None:
    with pytest.raises(ValueError, match="bits"):
        count_supports(reports_of(1, [(1, 1)]), prefixes, bits, free)


def test_a_position_that_is_visited_more_often_than_a_byte_counts_is_counted_rightly() -> None:
    """600 reports of five seeds, by which a position has up to 255, 256 and more signs before they are settled."""
    reports = reports_of(3, [(at % 5, at % 8) for at in range(600)])
    found = count_supports(reports, [3, 9, 12], 4, 2)
    for row, prefix in zip(found, [3, 9, 12], strict=True):
        assert list(row) == [
            sum(hash_of(at % 5, prefix << 2 | last, 3) == at % 8 for at in range(600)) for last in range(4)
        ]


def test_a_report_that_does_not_fit_is_not_kept() -> None:
    with pytest.raises(ValueError, match="2 bits"):
        Reports(2).add(array("Q", [1, 2]), bytes([3, 4]))
    with pytest.raises(ValueError, match="a seed"):
        Reports(2).add(array("Q", [1, 2]), bytes([3]))
    with pytest.raises(ValueError, match="hash_bits"):
        Reports(9)


def collected(method: AffineHashing, items: list[int], seed: bytes = b"devices") -> Collected:
    found, entropy = Collected(method), SeededEntropy(seed)
    for item in items:
        put(found, AffineRandomiser(method).randomise(item, entropy))
    return found


def put(found: Collected, report: list[int]) -> None:
    public, value = report
    found.add(public.to_bytes(PUBLIC_SIZE, "big") + bytes([value]))


def test_planted_items_are_found_over_three_levels_with_their_numbers() -> None:
    method = AffineHashing(Decimal(6), 6, 40)
    planted = {123_456_789_012: 900, 987_654_321_098: 600, 5: 400}
    rest = [one * 7_919 % 2**40 for one in range(1_100)]
    items = [item for item, count in planted.items() for _ in range(count)] + rest
    found = search(collected(method, items, b"three levels"), 5)
    assert set(found.items[:3]) == set(planted)
    estimate = estimator_of(method).estimate(found.supports, found.levels[-1].reports, EVERYBODY)
    for item, value, stderr in zip(found.items[:3], estimate.values, estimate.stderrs, strict=False):
        assert abs(value - planted[item]) < 5 * stderr
    least = threshold(found, method, EVERYBODY, 0.05)
    assert [value >= least for value in estimate.values] == [True, True, True, False, False]
    assert others_below(found.first(3), method, EVERYBODY, 0.95) < 400
    assert sum(level.reports for level in found.levels) == len(items)


def test_long_texts_that_share_their_beginnings_are_found_and_what_does_not_fit_is_counted() -> None:
    """Eight levels; six standard errors."""
    texts = [one for one in crash_signatures(280) if len(one) <= 16]
    spec = Strings(kind="strings", length=16, outside="(does not fit)")
    encoder, method = StringEncoder(spec), AffineHashing(Decimal(6), 8, spec.bits)
    values = [texts[0]] * 900 + texts[1:] + ["x" * 17] * 700
    items = [item for item in map(encoder.encode, values) if isinstance(item, int)]
    reports = collected(method, items, b"crashes")
    found = search(reports, 5, keep=16, domain=TextPrefixes(spec))
    assert encoder.text(found.items[0]) == texts[0]
    assert all(encoder.text(item) is not None for item in found.items), "places are for texts alone"
    assert found.outside is not None
    estimate, stderr = AffineEstimator(method).estimate_of_all(found.outside, len(items), EVERYBODY)
    assert abs(estimate - 700) < 6 * stderr
    assert Found.from_document(found.document()) == found
    assert found.levels[-1].candidates < 16 << 16, "a text that has ended has one extension"


@given(st.text(min_size=1, max_size=5), st.integers(1, 40), st.integers(0, 2**40 - 1))
def test_a_domain_holds_the_prefixes_of_its_texts_and_ends_where_they_do(text: str, bits: int, any_item: int) -> None:
    spec = Strings(kind="strings", length=5)
    item, prefixes = StringEncoder(spec).item(text), TextPrefixes(spec)
    if item is not None:
        assert prefixes.holds(item >> 40 - bits, bits)
        assert prefixes.holds(item, 40)
        assert prefixes.ends(item >> 40 - bits, bits) == (bits // 8 > len(text.encode()))
    assert prefixes.holds(any_item, 40) == (StringEncoder(spec).text(any_item) is not None)
    assert not prefixes.holds(0, 8)


def test_items_that_nobody_has_pass_the_threshold_as_rarely_as_stated() -> None:
    """200 searches of random items, each allowed a false positive with probability 0.05: more than 22 happen with
    probability 2e-4 at most."""
    method = AffineHashing(Decimal(1), 2, 10)
    passed = 0
    for run in range(200):
        entropy = SeededEntropy(run)
        found = Collected(method)
        for _ in range(300):
            put(found, AffineRandomiser(method).dummy(entropy))
        best = search(found, 1)
        (value,) = estimator_of(method).estimate(best.supports, 300, EVERYBODY).values
        passed += value >= threshold(best, method, EVERYBODY, 0.05)
    assert passed <= 22


def test_what_is_not_listed_stays_below_the_bound() -> None:
    """60 searches at a confidence of 0.95: more than 11 misses happen with probability 1e-4 at most."""
    method, missed = AffineHashing(Decimal(3), 4, 16), 0
    for run in range(60):
        truth = {run * 31 + one: 120 - 10 * one for one in range(10)}
        items = [item for item, count in truth.items() for _ in range(count)]
        found = search(collected(method, items, run.to_bytes(2, "big")), 4)
        below = others_below(found, method, EVERYBODY, 0.95)
        missed += any(count >= below for item, count in truth.items() if item not in found.items)
    assert missed <= 11


@pytest.mark.parametrize(("top", "keep"), [(0, 64), (MAX_TOP + 1, 64), (5, 0), (5, MAX_TOP + 1)])
def test_numbers_of_items_out_of_range_are_refused(top: int, keep: int) -> None:
    with pytest.raises(ValueError, match="1 to 1000"):
        search(collected(AffineHashing(Decimal(1), 2, 4), [1]), top, keep)


def test_a_level_without_reports_cannot_be_searched() -> None:
    with pytest.raises(ValueError, match="level without reports"):
        search(Collected(AffineHashing(Decimal(1), 2, 30)), 3)


def test_fewer_candidates_than_wanted_are_all_listed() -> None:
    found = search(collected(AffineHashing(Decimal(8), 8, 2), [1] * 50), 10)
    assert sorted(found.items) == [0, 1, 2, 3]
    assert found.levels[-1].cut == 0
    assert found.first(9) == found


GOOD = {"items": [5, 3], "supports": [9, 4], "levels": [[20, 64, 2]]}


def test_a_search_goes_through_its_document() -> None:
    found = Found((5, 3), (9, 4), (Level(20, 64, 2),))
    assert Found.from_document(GOOD) == found
    assert found.first(1) == Found((5,), (9,), (Level(20, 64, 4),))


@pytest.mark.parametrize(
    "change",
    [
        {"items": [5, 5]},
        {"items": [5]},
        {"items": [-1, 3]},
        {"items": [True, 3]},
        {"items": "53"},
        {"items": list(range(1001)), "supports": [1] * 1001},
        {"supports": [4, 9]},
        {"supports": [21, 4]},
        {"supports": [9, 4.0]},
        {"levels": []},
        {"levels": [[0, 64, 0]]},
        {"levels": [[20, 64]]},
        {"levels": [[20, 0, 2]]},
        {"levels": [[20, 64, 21]]},
        {"levels": 7},
        {"more": 1},
    ],
)
def test_a_search_that_cannot_be_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"."):
        Found.from_document({**GOOD, **change})
    others: tuple[object, ...] = (None, [], {"items": []})
    for nothing in others:
        with pytest.raises(ValueError, match="members"):
            Found.from_document(nothing)
