"""What a search for frequent texts concludes from releases: thresholds, what is asked next, the ranking, the rest."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from scipy import stats

from infra.lab.kit.recipes import NOW, RecipeKit
from tacit.dp.donation import yield_of
from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.methods.krr import Krr
from tacit.methods.registry import METHODS
from tacit.operations.prefix_rounds import Progress, progress, rounds_of, search_encoder
from tacit.operations.series_rounds import Asked
from tacit.recipe.candidates import asked_prefixes, candidates_of, extensions, read_candidates
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import PrefixSearch
from tacit.recipe.model import Question, Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.rules.table import check

KIT = RecipeKit()
DEVICES = 20_000
WORDS: dict[str | None, float] = {"love": 0.3, "that": 0.2, "with": 0.11, "to": 0.09, "a": 0.05, "tree": 0.004}


def search_of(length: int = 4, alphabet: str = "abcdefghijklmnopqrstuvwxyz", **options: Any) -> Series:
    """A series that searches texts of the alphabet, among ``DEVICES``."""
    chosen = {"kind": "prefixes", "length": length, "alphabet": alphabet, **options.pop("search", {})}
    encoder = asked_prefixes(PrefixSearch.model_validate(chosen), "no value")
    question = Question(text="Which word?", metric="word", encoder=encoder, statistic="histogram")
    members = {"population": DEVICES, "rate": Decimal(1), "randomizer": Krr.NAME, **options}
    recipe = KIT.recipe(name="words", question=question, **members)
    levels = len(encoder.levels)
    return propose_series(recipe, Shape(levels, levels, recipe.interval.start, 600, per_epoch=4, pause_seconds=60))


SEARCH = search_of()


def released(recipe: Recipe, counts: Sequence[int], reports: int) -> dict[str, Any]:
    return {
        "recipe_hash": recipe.hash_text,
        "report_count": reports,
        "buckets": [{"count": count} for count in counts],
    }


def expected(recipe: Recipe, held: Mapping[str | None, float], reports: int) -> dict[str, Any]:
    """A release with the counts that are expected, of devices that hold the texts in these shares."""
    encoder, method = encoder_of(recipe.question), randomizer_of(recipe)
    own, other = map(float, method.output_probabilities())  # type: ignore[attr-defined]
    shares = np.zeros(method.cells)
    for text, share in held.items():
        shares[encoder.encode(text)] += share
    return released(recipe, [round(reports * (other + share * (own - other))) for share in shares], reports)


def followed(series: Series, release: Any) -> tuple[list[Asked], Progress]:
    """All rounds of a search, of which ``release`` makes the documents, and where it then is."""
    rounds: list[Asked] = []
    while True:
        found = progress(series, rounds)
        assert progress(series, rounds) == found, "nothing but the log and the releases says where a search is"
        if found.following is None:
            return rounds, found
        index = len(rounds)
        recipe = series.round(index, series.window(index), found.following.text())
        assert progress(series, [*rounds, (recipe, ())]).following is None, "it waits for the release"
        rounds.append((recipe, [release(recipe, index)]))


SHARES: dict[str | None, float] = {**WORDS, None: 0.1, "zzzz": 1 - 0.1 - sum(WORDS.values())}


def test_a_search_finds_the_frequent_texts_with_their_numbers_and_only_those() -> None:
    sizes = [round(DEVICES * float(SEARCH.probe.rate) * (2 / 3) ** at) for at in range(3)]
    rounds, found = followed(SEARCH, lambda recipe, index: expected(recipe, SHARES, sizes[index]))
    assert len(rounds) == 3
    assert found.ranked is not None
    estimates = {item.text: item.estimate for item in found.ranked.items}
    assert list(estimates) == ["love", "that", "zzzz", "with", "to", "a"]
    for text, estimate in estimates.items():
        assert estimate == pytest.approx(DEVICES * SHARES[text], abs=120), "counts are rounded to whole ones"
    assert found.ranked.threshold <= estimates["a"]
    assert DEVICES * WORDS["tree"] < found.ranked.below < DEVICES * 0.2
    assert found.kept[0][0].startswith('"l"')
    assert set(found.kept[-1]) == {f'"{text}"' for text in estimates}


def test_every_round_of_a_search_passes_the_rules_and_extends_the_one_before() -> None:
    rounds, _ = followed(SEARCH, lambda recipe, _index: expected(recipe, SHARES, 3_000))
    before = None
    for recipe, _ in rounds:
        context = Context(Stage.PUBLISH, NOW, series=SEARCH, round_owner=None, round_before=before)
        assert check(recipe, KIT.policy, context, only={"round-candidates", "series-mismatch", "series-round"}) == []
        before = recipe


@pytest.mark.parametrize("name", ["krr", "oue", "rappor"])
def test_the_threshold_is_the_exact_tail_of_a_count_without_devices(name: str) -> None:
    series = search_of(randomizer=name)
    recipe = series.round(0, series.window(0), first_of(series))
    method = randomizer_of(recipe)
    counts = [0] * method.cells
    counts[0] = 3_000
    found = progress(series, [(recipe, [released(recipe, counts, 3_000)])], 0.01)
    (level,) = found.levels
    own, other = map(float, METHODS[name].output_probabilities(method))  # type: ignore[attr-defined]
    if method.reject_probability == 0:
        assert level.empty == pytest.approx(other)
        assert level.gain == pytest.approx(own - other)
    wanted = 0.01 / len(level.counts)
    tail = stats.binom.sf(level.least - 1, 3_000, level.empty)
    before = stats.binom.sf(level.least - 2, 3_000, level.empty)
    assert tail <= wanted < before
    assert level.passing == [0]


def first_of(series: Series) -> str:
    following = progress(series, []).following
    assert following is not None
    return following.text()


def test_a_search_in_which_nothing_stands_out_is_over_and_bounds_all_texts() -> None:
    rounds, found = followed(SEARCH, lambda recipe, _index: expected(recipe, {None: 1.0}, 3_000))
    assert len(rounds) == 1
    assert found.ranked is not None
    assert found.ranked.items == ()
    assert 0 < found.ranked.below < DEVICES


def test_batches_of_one_round_are_added_up() -> None:
    recipe = SEARCH.round(0, SEARCH.window(0), first_of(SEARCH))
    whole, half = (expected(recipe, {"love": 1.0}, reports) for reports in (4_000, 2_000))
    one, two = (progress(SEARCH, [(recipe, found)]) for found in ([half, half], [whole]))
    assert one.levels[0].reports == two.levels[0].reports == 4_000
    assert one.kept == two.kept


def test_what_a_round_carried_on_is_read_from_the_log_and_not_assumed() -> None:
    """Another operator may have kept fewer prefixes, or have begun with some only: then the rest is bounded worse."""
    rounds, usual = followed(SEARCH, lambda recipe, _index: expected(recipe, SHARES, 3_000))
    assert usual.ranked is not None
    spec = search_encoder(SEARCH)
    second = candidates_of(rounds[1][0].question)
    assert second is not None
    without = [one for one in second.prefixes if label_begins(one, second.bits) != "l"]
    fewer = replace(second, prefixes=tuple(without))
    recipe = SEARCH.round(1, SEARCH.window(1), fewer.text())
    last = extensions(spec, fewer.prefixes[0], fewer.bits, spec.bits, 512)
    assert last is not None
    final = SEARCH.round(2, SEARCH.window(2), replace(fewer, bits=spec.bits, prefixes=tuple(last)).text())
    changed = [rounds[0], (recipe, [expected(recipe, SHARES, 3_000)]), (final, [expected(final, SHARES, 3_000)])]
    found = progress(SEARCH, changed)
    assert found.ranked is not None
    devices = 3 * 3_000 / yield_of(float(SEARCH.probe.rate), 3)
    assert found.ranked.below > devices * WORDS["love"] > usual.ranked.below


def label_begins(prefix: int, bits: int) -> str:
    return chr(ord("a") + (prefix >> bits - 5) - 1)


def test_texts_for_which_the_first_round_had_no_candidate_are_not_bounded() -> None:
    whole = read_candidates(first_of(SEARCH), search_encoder(SEARCH))
    recipe = SEARCH.round(0, SEARCH.window(0), replace(whole, prefixes=whole.prefixes[1:]).text())
    found = progress(SEARCH, [(recipe, [expected(recipe, {None: 1.0}, 3_000)])])
    assert found.ranked is not None
    assert found.ranked.below == pytest.approx(3_000 / float(SEARCH.probe.rate))


@pytest.mark.false_alarm(1e-6, "binomial tail over 300 searches, each wrong with probability 0.05 at most")
def test_a_search_lists_a_text_that_nobody_has_and_misses_a_frequent_one_as_rarely_as_it_says() -> None:
    """Two letters of three: items are few, and counts are multinomial, as those of krr are."""
    series = search_of(2, "abc", search={"levels": (2, 4), "candidates": 12})
    texts = ["aa", "ab", "b", "cc", None]
    weights = np.array([0.5, 0.2, 0.05, 0.02, 0.23])
    generator, rate = np.random.default_rng(5), float(series.probe.rate)
    own, other = map(float, randomizer_of(series.probe).output_probabilities())  # type: ignore[attr-defined]
    strange = missed = 0
    for _ in range(300):
        held = generator.multinomial(2_000, weights)
        left = held.copy()

        def release(recipe: Recipe, _index: int, left: Any = left) -> dict[str, Any]:
            taken = generator.binomial(left, rate)
            left -= taken
            encoder, cells = encoder_of(recipe.question), randomizer_of(recipe).cells
            counts = np.zeros(cells, dtype=int)
            for text, number in zip(texts, taken, strict=True):
                chances = np.full(cells, other)
                chances[encoder.encode(text)] = own
                counts += generator.multinomial(number, chances / chances.sum())
            return released(recipe, counts.tolist(), int(taken.sum()))

        _, found = followed(series, release)
        assert found.ranked is not None
        listed = {item.text for item in found.ranked.items}
        true = Counter(dict(zip(texts, held.tolist(), strict=True)))
        strange += bool(listed - set(texts))
        missed += any(true[text] > found.ranked.below for text in texts if text is not None and text not in listed)
    most = int(stats.binom.isf(5e-7, 300, 0.05))
    assert strange <= most
    assert missed <= most


def test_texts_that_the_domain_does_not_hold_are_counted_over_all_rounds_and_not_listed() -> None:
    held: dict[str | None, float] = {"love": 0.3, "a longer text": 0.6, None: 0.1}
    _, found = followed(SEARCH, lambda recipe, _index: expected(recipe, held, 3_000))
    assert found.ranked is not None
    assert [item.text for item in found.ranked.items] == ["love"]
    assert found.ranked.outside is not None
    estimate, stderr = found.ranked.outside
    devices = 9_000 / (1 - (1 - float(SEARCH.probe.rate)) ** 3)
    assert estimate == pytest.approx(0.6 * devices, rel=1e-3)
    assert stderr == pytest.approx(
        devices * found.levels[0].stderr(found.levels[0].expected(0.6)) / math.sqrt(3), rel=1e-2
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"recipe_hash": "x"}, "not of words-0"),
        ({"buckets": [{"count": 1}]}, "515 counts"),
        ({}, None),
    ],
)
def test_releases_of_another_round_are_refused(change: dict[str, Any], words: str | None) -> None:
    recipe = SEARCH.round(0, SEARCH.window(0), first_of(SEARCH))
    document = {**expected(recipe, SHARES, 3_000), **change}
    if words is None:
        assert progress(SEARCH, [(recipe, [document])]).following is not None
        return
    with pytest.raises(UsageError, match=words):
        progress(SEARCH, [(recipe, [document])])


def test_a_series_that_cannot_be_a_search_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="asks for no prefixes"):
        search_encoder(KIT.series())
    recipe = KIT.recipe(name="words", question=SEARCH.probe.question, population=DEVICES, rate=Decimal(1))
    for shape in (Shape(3, None, recipe.interval.start, 600), Shape(3, 2, recipe.interval.start, 600)):
        with pytest.raises(UsageError, match="no device may be in two"):
            search_encoder(propose_series(recipe, shape))
    flips = search_of(randomizer="flips", epsilon=Decimal(1))
    with pytest.raises(UsageError, match="hide their answers by themselves"):
        search_encoder(flips)
    assert math.isfinite(float(SEARCH.claim.epsilon["aggregator"]))
    encoder = asked_prefixes(PrefixSearch(kind="prefixes", length=4, alphabet="abcd"), None)
    recipe = KIT.recipe(
        name="words",
        question=SEARCH.probe.question.model_copy(update={"encoder": encoder}),
        population=DEVICES,
        rate=Decimal(1),
        missing="ignore",
    )
    levels = len(encoder.levels)
    with pytest.raises(UsageError, match="without a text need a category"):
        search_encoder(propose_series(recipe, Shape(levels, levels, recipe.interval.start, 600)))
    with pytest.raises(UsageError, match="no series called words"):
        rounds_of(LiveLog.from_entries([]), "words")
