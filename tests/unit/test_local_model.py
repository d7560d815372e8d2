"""Model ``local``: what a recipe claims, what is refused, and what a report may hold."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.recipes import EPOCH, NOW
from infra.lab.kit.watched import WatchingKit
from tacit.dap_errors import ReportRejected
from tacit.dp.amplification import epsilon_fmt22
from tacit.dp.claim import UNBOUNDED
from tacit.errors import FieldError
from tacit.methods.base.statistics import SUM, Shape
from tacit.methods.flips import Flips
from tacit.methods.packing import BitsPacking, CategoryPacking, HashPacking, packing_of
from tacit.methods.planners.registry import planner_of
from tacit.models.local.form import Local
from tacit.operations.outlook import outlook
from tacit.recipe.claims import claim_of
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import randomizer_of
from tacit.recipe.model import Recipe
from tacit.recipe.writing.builder import propose
from tacit.recipe.writing.survey import Survey
from tacit.rules.table import check

KIT = WatchingKit()
STRINGS = {"kind": "strings", "length": 6, "alphabet": "abcdefghijklmnopqrstuvwxyz'"}
CATEGORIES = {"kind": "categories", "categories": ["a", "b", "c"]}
BASE: dict[str, Any] = {
    "name": "words",
    "model": "local",
    "metric": "word",
    "population": 1_000,
    "rate": "1",
    "epsilon": "2",
    "start": NOW // 60 * 60,
    "duration": 3_600,
    "epoch": EPOCH,
    "slot": 0,
}


def parties() -> Any:
    body = KIT.single_parties()
    del body["analyzer"]["state_key"]
    return Local.parties.model_validate(body)


def recipe(**members: Any) -> Recipe:
    return propose(Survey.from_body({**BASE, **members}), parties())


def refused(found: Recipe) -> list[str]:
    return [one.rule for one in check(found, KIT.default_policy, Context(now=NOW, stage=Stage.DRAFT))]


CASES = [
    ({"encoder": STRINGS}, "affine"),
    ({"encoder": CATEGORIES}, "krr"),
    ({"encoder": CATEGORIES, "randomizer": "oue"}, "oue"),
    ({"encoder": CATEGORIES, "randomizer": "rappor"}, "rappor"),
    ({"encoder": {"kind": "boolean"}}, "rr"),
    ({"encoder": {"kind": "number", "low": 0, "high": 9}, "statistic": "sum"}, "one-bit"),
    ({"encoder": {"kind": "number", "low": 0, "high": 9}, "statistic": "mean"}, "one-bit"),
]
VECTOR = {"kind": "vector", "length": 2, "low": -5, "high": 5, "norm": 6}


@pytest.mark.parametrize(("members", "randomizer"), CASES)
def test_a_proposed_recipe_passes_every_rule_and_costs_what_one_report_tells(
    members: dict[str, Any], randomizer: str
) -> None:
    found = recipe(**members)
    assert refused(found) == []
    assert (found.randomizer.name, found.vdaf) == (randomizer, None)
    assert found.privacy.epsilon.root["analyzer"] == "2"
    claim = claim_of(found)
    assert claim["analyzer"] == 2.0
    assert 0 < claim["release"] <= epsilon_fmt22(2.0, found.batch.min_batch_size, 1e-6) < 1


def test_sampling_is_counted_against_nobody() -> None:
    assert claim_of(recipe(encoder=STRINGS, rate="0.5", min_batch_size=400))["analyzer"] == 2.0


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"encoder": VECTOR, "statistic": "vector-sum"}, "model"),
        ({"encoder": STRINGS, "model": "secure-aggregation"}, "model"),
        ({"encoder": STRINGS, "dummies": "5"}, "dummies"),
        ({"encoder": STRINGS, "aggregator_flips": 2}, "aggregator_flips"),
        ({"encoder": STRINGS, "close": "at_B"}, "close"),
        ({"encoder": STRINGS, "randomizer": "krr"}, "randomizer"),
        (
            {
                "encoder": CATEGORIES,
                "importance": {"default": "a", "default_rate": "0.1", "non_default_share": "0.5"},
            },
            "importance",
        ),
    ],
)
def test_a_survey_that_the_model_does_not_answer_names_the_member(members: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as raised:
        Survey.from_body({**BASE, **members})
    assert raised.value.field.split(".")[0] == field


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("epsilon0", "3", "claim-understated"),
        ("categories", 7, "randomizer-parameters"),
        ("name", "flips", "randomizer-parameters"),
        ("name", "krr", "encoder-mismatch"),
    ],
)
def test_a_recipe_that_was_changed_is_refused(path: str, value: Any, rule: str) -> None:
    body = recipe(encoder=STRINGS).body()
    body["randomizer"][path] = value
    assert rule in refused(Recipe.from_body(body))


def test_heavy_hitters_are_refused_where_reports_are_added_up() -> None:
    body = KIT.recipe().body()
    body["question"] = {**body["question"], "statistic": "heavy-hitters", "encoder": STRINGS}
    body["randomizer"] = {"name": "affine", "categories": 8, "epsilon0": "2"}
    assert {"encoder-mismatch", "randomizer-vdaf-mismatch"} & set(refused(Recipe.from_body(body)))


def test_the_outlook_says_how_many_devices_make_an_answer_stand_out() -> None:
    found = outlook(recipe(encoder=STRINGS)).of_features["ranked"]
    assert (found.report_bits, found.domain_bits) == (3, 30)
    assert found.listed_from > 4 * found.stderr > 0
    assert not outlook(recipe(encoder=CATEGORIES)).of_features


@given(st.integers(1, 40), st.data())
def test_bits_come_back_from_their_payload(cells: int, data: st.DataObject) -> None:
    bits = data.draw(st.lists(st.integers(0, 1), min_size=cells, max_size=cells))
    packing = BitsPacking(cells, max(1, sum(bits)))
    assert packing.unpack(packing.pack(bits)) == tuple(bits)
    assert len(packing.pack(bits)) == packing.size == -(-cells // 8)


@given(st.integers(1, 4096), st.data())
def test_a_category_comes_back_as_its_cell(cells: int, data: st.DataObject) -> None:
    category = data.draw(st.integers(0, max(1, cells - 1)))
    numbers = CategoryPacking(cells).unpack(CategoryPacking(cells).pack(category))
    assert len(numbers) == cells
    assert numbers == ((category,) if cells == 1 else tuple(int(cell == category) for cell in range(cells)))


@pytest.mark.parametrize(
    ("packing", "measurement", "payload"),
    [
        (CategoryPacking(3), 3, b"\x00\x03"),
        (CategoryPacking(1), 2, b"\x00\x02"),
        (CategoryPacking(3), -1, b"\xff\xff"),
        (BitsPacking(3, 2), [1, 1, 1], b"\xe0"),
        (BitsPacking(3, 2), [1, 0], b"\x01"),
        (BitsPacking(3, 2), [2, 0, 0], b"\x90"),
        (HashPacking(8), [0, 8], bytes(16) + b"\x08"),
    ],
)
def test_what_the_method_cannot_make_is_neither_packed_nor_read(packing: Any, measurement: Any, payload: bytes) -> None:
    with pytest.raises(ValueError, match="an answer must"):
        packing.pack(measurement)
    with pytest.raises(ReportRejected):
        packing.unpack(payload)


def test_noise_shares_hide_nothing_alone_and_have_no_packing() -> None:
    shares = planner_of(Flips).tuned(Shape(SUM, 1, low=0, high=9), Decimal(1), 1_000, 1e-6)
    with pytest.raises(ValueError, match="hide nothing"):
        packing_of(shares)
    assert packing_of(randomizer_of(recipe(encoder=STRINGS))) == HashPacking(8)
    assert recipe(encoder=STRINGS).privacy.epsilon0 != UNBOUNDED
