"""The recipe's form: canonical bytes, strict decoding, derivations, encoders, policy files."""

from __future__ import annotations

import copy
import hashlib
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.recipes import NOW, RecipeKit, changed
from infra.lab.kit.reports import issuer_key
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.messages import BatchMode, Role
from tacit.methods.base.statistics import StatisticName
from tacit.recipe.derive import randomizer_of, shape_of, slot_of, task_configuration, task_id, task_of, vdaf_of
from tacit.recipe.encoder import MISSING, BooleanEncoder, BucketEncoder, CategoryEncoder, encoder_of, labels
from tacit.recipe.encoder_specs import (
    Attributes,
    Boolean,
    Buckets,
    Categories,
    EncoderSpec,
    Number,
    Occurrences,
    Vector,
)
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import Policy, parse_policy
from tacit.tlog.canonical import canonical_bytes
from tacit.tokens.slots import Slot

KIT = RecipeKit()
RECIPE = KIT.recipe()


def altered(path: str, value: Any) -> bytes:
    """Canonical bytes of the recipe with one member set (or, with ..., taken away)."""
    body = copy.deepcopy(RECIPE.body())
    *parents, last = path.split(".")
    at: Any = body
    for parent in parents:
        at = at[parent]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return canonical_bytes(body)


def test_the_encoding_is_canonical_and_decodes_to_the_same_recipe() -> None:
    data = RECIPE.encode()
    again = Recipe.decode(data)
    assert again == RECIPE
    assert again.encode() == data
    assert again.hash == hashlib.sha256(data).digest() == RECIPE.hash


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("version", 2, "version"),
        ("version", True, "version"),
        ("name", "Doctor visits", "name"),
        ("name", ..., "name"),
        ("surprise", 1, "surprise"),
        ("question.surprise", 1, "question.surprise"),
        ("question.encoder.kind", "hash", "question.encoder"),
        ("question.encoder.edges", [1, 1], "question.encoder"),
        ("question.encoder.edges", [2, 1], "question.encoder"),
        ("question.encoder.edges", ["1", "2"], "question.encoder"),
        ("question.encoder", {"kind": "categories", "categories": ["a", "a"]}, "question.encoder"),
        ("question.encoder", {"kind": "boolean", "edges": []}, "question.encoder"),
        ("randomizer.epsilon0", "3,1", "randomizer.epsilon0"),
        ("randomizer.epsilon0", "1e3", "randomizer.epsilon0"),
        ("randomizer.epsilon0", "NaN", "randomizer.epsilon0"),
        ("randomizer.epsilon0", "-1", "randomizer.epsilon0"),
        ("randomizer.epsilon0", 3, "randomizer.epsilon0"),
        ("randomizer.max_weight", None, "null"),
        ("sampling.rate", "01", "sampling.rate"),
        ("batch.min_batch_size", "200", "batch.min_batch_size"),
        ("batch.min_batch_size", 0, "batch.min_batch_size"),
        ("batch.close", "never", "batch.close"),
        ("vdaf.length", 1 << 21, "vdaf.length"),
        ("interval.start", -60, "interval.start"),
        ("token.slot", 1 << 32, "token.slot"),
        ("parties.leader.hpke_config", "A", "parties.leader.hpke_config"),
        ("parties.leader.hpke_config", "", "parties.leader.hpke_config"),
        ("parties.leader.hpke_config", "AA==", "parties.leader.hpke_config"),
        ("parties.leader.signing_key", "AAAA", "parties.leader.signing_key"),
        ("parties.leader.url", "https://exämple", "parties.leader.url"),
        ("parties.leader.url", "", "parties.leader.url"),
        ("parties.helper", ..., "parties.helper"),
        ("parties.shuffler", {"operator": "x"}, "parties.shuffler"),
    ],
)
def test_malformed_members_are_refused_by_name_in_one_line(path: str, value: Any, named: str) -> None:
    with pytest.raises(DecodeError) as caught:
        Recipe.decode(altered(path, value))
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("recipe: ")


def test_floats_duplicates_and_other_spellings_are_refused() -> None:
    data = RECIPE.encode()
    for wrong, message in (
        (data.replace(b'"version":1', b'"version":1.0'), "float"),
        (data.replace(b'"version":1', b'"version":NaN'), "float"),
        (data.replace(b'"version":1', b'"version":1,"version":1'), "version appears twice"),
        (data + b"\n", "canonical"),
        (json.dumps(RECIPE.body(), sort_keys=True).encode(), "canonical"),
        (data.replace(b"doctor", b"\\u0064octor"), "canonical"),
        (b"\xef\xbb\xbf" + data, "not JSON"),
        (data[:-1], "not JSON"),
        (b"[]", "not a JSON object"),
        (b"[" * 100_000, "not JSON"),
        (b'{"a":"\\ud800"}', "canonical JSON form"),
        (b'{"a":' + b"9" * 30 + b"}", "canonical JSON form"),
        (b'{"a":' + b"9" * 5000 + b"}", "not JSON"),
    ):
        with pytest.raises(DecodeError, match=message):
            Recipe.decode(wrong)


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_with_a_decode_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        Recipe.decode(data)


@given(st.data())
def test_a_flipped_byte_gives_another_recipe_or_a_decode_error(data: st.DataObject) -> None:
    encoded = bytearray(RECIPE.encode())
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= data.draw(st.integers(1, 255))
    try:
        other = Recipe.decode(bytes(encoded))
    except DecodeError:
        return
    assert other.hash != RECIPE.hash
    assert other.encode() == bytes(encoded)


def test_a_recipe_shows_no_way_to_change_it() -> None:
    with pytest.raises(ValueError, match="frozen"):
        RECIPE.name = "other"  # type: ignore[misc]


def test_everyone_derives_the_same_task_from_a_recipe() -> None:
    configuration = task_configuration(RECIPE)
    assert configuration.task_info == RECIPE.hash
    assert configuration.batch_mode is BatchMode.TIME_INTERVAL
    assert configuration.min_batch_size == 200
    task = task_of(Recipe.decode(RECIPE.encode()), issuer_key().token_key.spki)
    assert task.task_id == task_id(RECIPE)
    assert task.recipe_hash == RECIPE.hash
    assert task.slot == slot_of(RECIPE) == Slot("issuer.example", RECIPE.token.epoch, 0)
    assert (task.start_seconds, task.end_seconds) == (RECIPE.interval.start, RECIPE.interval.end)
    assert task.hpke_config(Role.LEADER) == KIT.hpke_config(Role.LEADER)
    assert task.configuration == configuration
    assert randomizer_of(RECIPE).cells == 16
    assert labels(RECIPE) == (*map(str, range(15)), "15+")


def test_a_change_of_any_parameter_is_another_task() -> None:
    for path, value in (("sampling.rate", "0.4"), ("question.text", "Why?"), ("batch.min_batch_size", 201)):
        assert task_id(changed(RECIPE, path, value)) != task_id(RECIPE)


def test_what_cannot_be_derived_is_a_named_refusal() -> None:
    for path, value, rule in (
        ("interval.start", NOW + 1, "interval-unaligned"),
        ("parties.helper.hpke_config", "AAAA", "hpke-key-invalid"),
    ):
        with pytest.raises(Refusal) as caught:
            task_of(changed(RECIPE, path, value), b"")
        assert caught.value.rule == rule
    multihot = changed(RECIPE, "vdaf", {"name": "Prio3MultihotCountVec", "length": 4, "chunk_length": 2})
    with pytest.raises(Refusal) as caught:
        vdaf_of(multihot)
    assert caught.value.rule == "vdaf-parameters"
    with pytest.raises(Refusal) as caught:
        randomizer_of(changed(RECIPE, "randomizer.name", "identity"))
    assert caught.value.rule == "randomizer-parameters"


def test_buckets_take_their_lower_edge_and_the_last_is_open() -> None:
    encoder = BucketEncoder((0, 1, 2, 5, 10))
    assert encoder.labels == ("0", "1", "2 to <5", "5 to <10", "10+")
    values: list[Any] = ["0", "0.5", "1", " 2 ", 4.99, 5, Decimal("9.9"), "10", "1e3", 10**9]
    assert [encoder.encode(value) for value in values] == [0, 0, 1, 2, 2, 3, 3, 4, 4, 4]
    tens = BucketEncoder((0, 10, 20))
    assert (tens.encode(9.5), tens.labels[0]) == (0, "0 to <10")
    assert BucketEncoder((-5, 0, 2)).labels == ("-5 to <0", "0 to <2", "2+")


@pytest.mark.parametrize(
    "value", ["", "many", "NaN", "inf", float("nan"), Decimal("sNaN"), None, True, "1_000", "٣", "0x1", [1], b"1", {}]
)
def test_what_is_no_number_is_missing_or_of_the_category_that_is_stated_for_it(value: Any) -> None:
    assert BucketEncoder((0, 1)).encode(value) is MISSING
    assert BucketEncoder((0, 1), other="below").encode(value) is MISSING
    stated = BucketEncoder((0, 1), "below", "none")
    assert stated.labels == ("0", "1+", "below", "none")
    assert stated.encode(value) == 3
    assert BucketEncoder((0, 1), missing="none").encode(value) == 2


def test_numbers_below_the_first_edge_are_of_the_first_bucket_or_of_the_category_that_is_stated_for_them() -> None:
    for value in ("-1", -0.001, -(10**400), float("-inf"), "-1e999"):
        assert BucketEncoder((0, 1)).encode(value) == 0
        assert BucketEncoder((0, 1), "below", "none").encode(value) == 2
    assert BucketEncoder((0, 1)).encode(float("inf")) == BucketEncoder((0, 1)).encode(10**400) == 1


@pytest.mark.parametrize("encoder", [{"other": "0"}, {"missing": "b"}, {"other": "x", "missing": "x"}])
def test_stated_categories_have_labels_of_their_own(encoder: dict[str, str]) -> None:
    body = {"kind": "categories", "categories": ["0", "b"], **encoder}
    with pytest.raises(DecodeError, match="encoder"):
        changed(RECIPE, "question.encoder", body)


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=30, unique=True), st.integers(-1000, 2000))
def test_every_number_at_or_above_the_first_edge_has_the_bucket_that_contains_it(edges: list[int], value: int) -> None:
    ordered = tuple(sorted(edges))
    encoder = BucketEncoder(ordered)
    bucket = encoder.encode(str(value))
    assert bucket is not MISSING
    assert ordered[bucket] <= value or (bucket == 0 and value < ordered[0])
    assert bucket == len(ordered) - 1 or value < ordered[bucket + 1]
    assert len(encoder.labels) == len(ordered)


def test_categories_match_exactly() -> None:
    encoder = CategoryEncoder(("a", "b", "3"))
    assert [encoder.encode(value) for value in ("a", "b", 3)] == [0, 1, 2]
    nothing: list[Any] = ["A", " a", "", None, 10**5000, ["a"]]
    for wrong in nothing:
        assert encoder.encode(wrong) is MISSING
    stated = CategoryEncoder(("a", "b"), "other", "none")
    assert [stated.encode(value) for value in ("b", "c", None)] == [1, 2, 3]
    assert CategoryEncoder(("a", "b"), None, "none").encode("c") == 2


def test_truth_values_have_a_few_spellings() -> None:
    encoder = BooleanEncoder()
    assert [encoder.encode(value) for value in (True, 1, "yes", "TRUE", "1")] == [1] * 5
    assert [encoder.encode(value) for value in (False, 0, "no", "false", "0")] == [0] * 5
    nothing: list[Any] = ["maybe", 2, None, "", 0.5, float("nan"), 10**5000, [True]]
    for wrong in nothing:
        assert encoder.encode(wrong) is MISSING
    assert isinstance(encoder_of(changed(RECIPE, "question.encoder", {"kind": "boolean"}).question), BooleanEncoder)


def test_policies_come_from_toml_or_json_with_defaults() -> None:
    assert parse_policy(b"", "policy.toml") == Policy() == parse_policy(b"{}", "policy.json")
    policy = parse_policy(b'min_batch_size = 500\nrandomizers = ["krr"]\n', "policy.toml")
    assert (policy.min_batch_size, policy.randomizers) == (500, ("krr",))
    assert Policy().issuer_key("issuer.example") is None


@pytest.mark.parametrize(
    ("data", "name", "message"),
    [
        (b"surprise = 1", "policy.toml", r"^policy.toml: surprise: "),
        (b"max_sampling_rate = 0.5", "policy.toml", r"^policy.toml: max_sampling_rate: "),
        (b"= 1", "policy.toml", r"^policy.toml: "),
        (b'{"max_delta": 0.1}', "policy.json", r"^policy.json: 0.1 is a float"),
        (b'{"analysts": {"a": "short"}}', "policy.json", r"^policy.json: analysts.a: "),
        (b"\xff", "policy.json", r"^policy.json: not JSON"),
    ],
)
def test_a_wrong_policy_file_is_one_line_naming_the_member(data: bytes, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_policy(data, name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("statistic", "encoder"),
    [
        ("count", Boolean(kind="boolean")),
        ("count", Boolean(kind="boolean", missing="no")),
        ("histogram", Buckets(kind="buckets", edges=(0, 10))),
        ("histogram", Buckets(kind="buckets", edges=(0, 10, 20), other="below", missing="no value")),
        ("histogram", Categories(kind="categories", categories=("a", "b"))),
        ("histogram", Categories(kind="categories", categories=("a", "b"), other="another", missing="none")),
        ("histogram", Attributes(kind="attributes", attributes={"os": ("a", "b"), "area": ("n", "s", "w")})),
        ("histogram", Attributes(kind="attributes", attributes={"os": ("a", "b")}, missing="none")),
        ("histogram", Number(kind="number", low=0, high=10)),
        ("sum", Number(kind="number", low=0, high=10)),
        ("vector-sum", Vector(kind="vector", length=3, low=0, high=10, norm=14)),
        ("count", Occurrences(kind="occurrences", start=60, step_seconds=60, steps=3, most=1)),
        ("histogram", Occurrences(kind="occurrences", start=60, step_seconds=60, steps=3, most=10)),
        ("mean", Occurrences(kind="occurrences", start=60, step_seconds=60, steps=3, most=10)),
    ],
)
def test_a_party_without_an_encoder_counts_as_many_cells_as_the_result_has_labels(
    statistic: StatisticName, encoder: EncoderSpec
) -> None:
    question = Question.model_construct(text="?", metric="m", encoder=encoder, statistic=statistic)
    assert shape_of(question).cells == len(encoder_of(question).labels)
