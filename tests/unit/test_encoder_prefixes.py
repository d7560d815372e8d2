"""A round's candidates: their form, what a device answers, and what a round with bad ones is refused for."""

from __future__ import annotations

import dataclasses
import json
import string
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from infra.lab.kit.recipes import NOW, RecipeKit
from tacit.errors import DecodeError, FieldError, Refusal
from tacit.recipe.candidates import (
    Candidates,
    asked_prefixes,
    extensions,
    is_prefix,
    label_of,
    most_candidates,
    read_candidates,
)
from tacit.recipe.context import Context, Stage
from tacit.recipe.encoder import PrefixEncoder, StringEncoder, encoder_of, labels
from tacit.recipe.encoder_specs import Prefixes, PrefixSearch
from tacit.recipe.model import MAX_ROUND_INPUT, Question, Recipe
from tacit.recipe.series import Series
from tacit.recipe.writing.series_builder import Shape, propose_series
from tacit.rules import series_table
from tacit.rules.table import check

WORDS = asked_prefixes(PrefixSearch(kind="prefixes", length=4, alphabet=string.ascii_lowercase), "no value")
TINY = asked_prefixes(PrefixSearch(kind="prefixes", length=2, alphabet="abc", levels=(1, 3, 4), candidates=12), None)
BYTES = asked_prefixes(PrefixSearch(kind="prefixes", length=8), "no value")
KIT = RecipeKit()
RULE = "round-candidates"


def question(**members: Any) -> Question:
    encoder = {"kind": "prefixes", "length": 4, "alphabet": string.ascii_lowercase}
    return KIT.survey(
        question=Question.model_validate(
            {
                "text": "Which word?",
                "metric": "word",
                "statistic": "histogram",
                "encoder": WORDS.model_dump() | encoder | members,
            }
        )
    ).question()


def words_series(**members: Any) -> Series:
    """Three rounds about the words of the kit's devices, with a minute between them."""
    recipe = KIT.recipe(name="words", question=question(**members), population=20_000, rate=Decimal(1))
    return propose_series(recipe, Shape(3, 3, recipe.interval.start, 600, per_epoch=4, pause_seconds=60))


SERIES = words_series()


def first(spec: Prefixes = WORDS) -> Candidates:
    found = extensions(spec, 0, 0, spec.levels[0], spec.candidates)
    assert found is not None
    return Candidates(spec.levels[0], tuple(found))


def extended(spec: Prefixes, prefix: int, bits: int, longer: int) -> Candidates:
    found = extensions(spec, prefix, bits, longer, spec.candidates)
    assert found is not None
    return Candidates(longer, tuple(found))


def context(recipe: Recipe, before: Recipe | None = None, stage: Stage = Stage.LOGGED) -> Context:
    base = Context(
        stage, NOW, leaf=KIT.recipe_leaf(recipe), index=2, slot_owner=recipe.hash, directory=KIT.directory(),
        series=SERIES, round_owner=recipe.hash,
    )  # fmt: skip
    return dataclasses.replace(base, round_before=before)


def refused(recipe: Recipe, before: Recipe | None = None) -> list[str]:
    return [str(one) for one in check(recipe, KIT.policy, context(recipe, before))]


# Candidates


@pytest.mark.parametrize("spec", [TINY, WORDS])
def test_prefixes_are_those_of_the_domains_texts_and_no_others(spec: Prefixes) -> None:
    strings, alphabet = StringEncoder(spec), spec.alphabet or ""
    texts = ("".join(text) for length in (1, 2) for text in product(alphabet, repeat=length))
    items = {item for item in map(strings.encode, texts) if isinstance(item, int)}
    if spec is WORDS:  # longer texts only add what follows the first two letters
        bits = 2 * spec.symbol_bits
        items = {item >> spec.bits - bits for item in items}
    else:
        bits = spec.bits
    for level in range(1, bits + 1):
        wanted = sorted({item >> bits - level for item in items})
        assert extensions(spec, 0, 0, level, 10_000) == wanted
        assert [one for one in range(1 << level) if is_prefix(spec, one, level)] == wanted


def test_the_work_of_extending_is_bounded() -> None:
    assert extensions(BYTES, 0, 0, 64, 512) is None
    assert extensions(BYTES, 0, 0, 8, 255) == list(range(1, 256))
    assert extensions(BYTES, 0, 0, 8, 254) is None


@given(st.sets(st.integers(0, 2**14 - 1), min_size=1, max_size=200))
def test_candidates_come_back_from_their_round_input(numbers: set[int]) -> None:
    prefixes = tuple(sorted(one for one in numbers if is_prefix(WORDS, one, 14)))
    if prefixes:
        found = Candidates(14, prefixes)
        assert read_candidates(found.text(), WORDS) == found


@given(st.text(max_size=60))
def test_any_other_text_is_no_round_input(text: str) -> None:
    with pytest.raises(DecodeError, match="round_input"):
        read_candidates(text, WORDS)


GOOD = {"bits": 9, "prefixes": ["010", "011"]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**GOOD, "more": 1}, "members"),
        ({"bits": 9}, "members"),
        ({**GOOD, "bits": 8}, "bits must be one of 9, 14, 20"),
        ({**GOOD, "bits": True}, "bits"),
        ({**GOOD, "prefixes": []}, "1 to 512"),
        ({**GOOD, "prefixes": "010"}, "1 to 512"),
        ({**GOOD, "prefixes": [f"{one:03x}" for one in range(16, 529)]}, "1 to 512"),
        ({**GOOD, "prefixes": ["011", "010"]}, "rise"),
        ({**GOOD, "prefixes": ["010", "010"]}, "rise"),
        ({**GOOD, "prefixes": ["10"]}, "3 hexadecimal digits"),
        ({**GOOD, "prefixes": ["01A"]}, "3 hexadecimal digits"),
        ({**GOOD, "prefixes": [16]}, "3 hexadecimal digits"),
        ({**GOOD, "prefixes": ["000"]}, "belongs to no text"),
        ({**GOOD, "prefixes": ["1ff"]}, "belongs to no text"),
        ({**GOOD, "prefixes": ["fff"]}, "belongs to no text"),
    ],
)
def test_a_round_input_with_one_fault_is_refused_by_name(body: Any, words: str) -> None:
    assert read_candidates(json.dumps(GOOD, separators=(",", ":")), WORDS).prefixes == (16, 17)
    with pytest.raises(DecodeError, match=words):
        read_candidates(json.dumps(body, separators=(",", ":"), sort_keys=True), WORDS)
    with pytest.raises(DecodeError, match="canonical"):
        read_candidates(json.dumps(GOOD), WORDS)


@given(st.sampled_from([WORDS, BYTES, TINY]), st.data())
def test_as_many_candidates_as_are_allowed_fit_into_a_round_input(spec: Prefixes, data: st.DataObject) -> None:
    bits = data.draw(st.sampled_from(spec.levels))
    most = most_candidates(spec, bits)
    text = Candidates(bits, tuple(range(most))).text()
    assert len(text) <= MAX_ROUND_INPUT
    assert 1 <= most <= spec.candidates


@pytest.mark.parametrize(("spec", "bits"), [(TINY, 3), (TINY, 4), (WORDS, 9), (WORDS, 14), (BYTES, 9)])
def test_labels_of_a_round_are_distinct_and_printable(spec: Prefixes, bits: int) -> None:
    found = extensions(spec, 0, 0, bits, 20_000) or []
    named = [label_of(spec, one, bits) for one in found]
    assert len(set(named)) == len(named) > 3
    assert all(label.isprintable() and label.startswith('"') for label in named)


# What a device answers


def encoded(text: object, candidates: Candidates, spec: Prefixes = WORDS) -> str | None:
    encoder = PrefixEncoder(spec, candidates)
    answer = encoder.encode(text)  # type: ignore[arg-type]
    assert len(encoder.labels) == spec.cells
    return None if answer is None else encoder.labels[answer]


def test_a_device_answers_the_prefix_of_its_text_or_other_or_missing() -> None:
    strings = StringEncoder(WORDS)
    tree, one = (strings.encode(word) for word in ("tree", "t"))
    assert isinstance(tree, int)
    assert isinstance(one, int)
    found = Candidates(14, tuple(sorted((tree >> 6, one >> 6))))
    assert encoded("tree", found) == encoded("tref", found) == '"tr"+0010…'
    assert encoded("t", found) == '"t"'
    assert encoded("to", found) == encoded("zoo", found) == "(other)"
    for other in ("trees", "tréé", "TREE", 3.5, "\ud800"):
        assert encoded(other, found) == "(does not fit)"
    for nothing in (None, "", b"tree", object(), ["tree"]):
        assert encoded(nothing, found) == "no value"
    older = WORDS.model_copy(update={"outside": None})
    assert encoded("trees", found, older) == encoded(None, found, older) == "no value"


@given(st.one_of(st.none(), st.text(max_size=9), st.integers(), st.floats(), st.binary(), st.lists(st.text())))
def test_every_value_has_an_answer_in_every_round(value: object) -> None:
    for spec in (WORDS, BYTES):
        for candidates in (None, Candidates(spec.levels[0], (spec.levels[0],))):
            answer = PrefixEncoder(spec, candidates).encode(value)  # type: ignore[arg-type]
            assert answer is not None
            assert 0 <= answer < spec.cells


@given(st.text(alphabet="abc", min_size=1, max_size=2))
def test_a_round_tells_exactly_the_candidates_apart(text: str) -> None:
    item = StringEncoder(TINY).encode(text)
    assert isinstance(item, int)
    for bits in TINY.levels:
        found = extended(TINY, 0, 0, bits)
        answer = PrefixEncoder(TINY, found).encode(text)
        assert answer is not None
        assert found.prefixes[answer] == item >> TINY.bits - bits
    assert PrefixEncoder(TINY, first(TINY)).encode(None) is None, "without a category of their own they are missing"


@pytest.mark.parametrize(
    "members",
    [
        {"levels": (9, 14)},
        {"levels": (9, 9, 20)},
        {"levels": (0, 20)},
        {"levels": ()},
        {"candidates": 0},
        {"candidates": 1023},
        {"other": '"a"'},
        {"missing": "(unused 1)"},
        {"missing": "(other)"},
        {"outside": "(other)"},
        {"outside": '"a"'},
        {"alphabet": "aa"},
        {"length": 65},
    ],
)
def test_an_encoder_that_cannot_be_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises((ValidationError, FieldError)):
        Prefixes.model_validate({**WORDS.model_dump(), **members})


def test_a_search_without_room_for_the_first_bits_is_refused() -> None:
    with pytest.raises(FieldError, match="too few"):
        asked_prefixes(PrefixSearch(kind="prefixes", length=4, alphabet="abcd", candidates=1), None)


# Rules


def a_round(index: int, candidates: Candidates | str | None) -> Recipe:
    text = candidates.text() if isinstance(candidates, Candidates) else candidates
    return KIT.round(SERIES, index, text)


def test_rounds_whose_candidates_extend_those_before_are_accepted() -> None:
    assert series_table.check(SERIES, KIT.policy, NOW) == []
    one = a_round(0, first())
    two = a_round(1, extended(WORDS, 17, 9, 14))
    three = a_round(2, extended(WORDS, 17 << 5, 14, 20))
    assert refused(one) == refused(two, one) == refused(three, two) == []
    assert refused(three) == [], "a device need not know the earlier round"
    assert labels(two)[:3] == ('"ab"+0000…', '"ab"+0001…', '"ab"+0010…')
    assert labels(three)[:2] == ('"ab"', '"aba"')


@pytest.mark.parametrize(
    ("index", "given", "words"),
    [
        (0, None, "must hold the round's candidates"),
        (0, "weights: 1, 2", "round_input"),
        (0, Candidates(14, (16 << 5,)), "round 0 is about 9 bits, its candidates have 14"),
        (1, first(), "round 1 is about 14 bits, its candidates have 9"),
        (1, Candidates(14, (200 << 5,)), "a candidate of round 1 extends none of round 0"),
    ],
)
def test_a_round_with_other_candidates_is_refused_by_every_party(
    index: int, given: Candidates | str | None, words: str
) -> None:
    before = a_round(0, Candidates(9, (16, 17)))
    (said,) = refused(a_round(index, given), before if index else None)
    assert said.startswith("round-candidates: ")
    assert words in said


def test_a_round_after_one_without_candidates_is_refused_and_raises_nothing() -> None:
    (said,) = refused(a_round(1, Candidates(14, (16 << 5,))), a_round(0, "{}"))
    assert said.startswith("round-candidates: ")


def test_prefixes_are_asked_for_in_a_series_only_and_a_draft_may_wait() -> None:
    alone = KIT.recipe(question=question(), population=20_000)
    assert check(alone, KIT.policy, Context(Stage.DRAFT, NOW)) == []
    found = check(alone, KIT.policy, Context(Stage.PUBLISH, NOW), only={RULE})
    assert "rounds of a series" in found[0].detail
    with pytest.raises(Refusal, match="round-candidates"):
        encoder_of(a_round(0, "x").question)


def test_a_series_has_no_more_rounds_than_levels() -> None:
    recipe = KIT.recipe(name="words", question=question(), population=20_000, rate=Decimal(1))
    for slots in (4, None):
        series = propose_series(recipe, Shape(4, slots, recipe.interval.start, 600, per_epoch=4))
        (found,) = series_table.check(series, KIT.policy, NOW)
        assert str(found).startswith("round-candidates: the series has 4 rounds, but its encoder states 3 levels")
        late = KIT.round(series, 3)
        said = check(late, KIT.policy, dataclasses.replace(context(late), series=series), only={"round-candidates"})
        assert "round 3 has no level" in said[0].detail


def test_a_pause_between_rounds_is_part_of_the_series() -> None:
    assert [SERIES.window(at).start - SERIES.interval.start for at in range(3)] == [0, 660, 1320]
    assert SERIES.interval.duration == 1920
    assert Series.decode(SERIES.encode()) == SERIES
