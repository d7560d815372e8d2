"""Results of model ``local`` from a search: what fits the recipe is ranked, everything else refused, at once."""

from __future__ import annotations

import copy
import math
import random
from decimal import Decimal
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import Refusal
from tacit.messages import Interval
from tacit.methods.base.affine import PUBLIC_SIZE, AffineHashing, hash_of, level_of, levels_of, seed_of, share_of_last
from tacit.methods.estimators.affine import AffineEstimator
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.randomisers.affine import AffineRandomiser
from tacit.methods.result import Ranked
from tacit.models.forms import form_of
from tacit.models.local.collector import LocalCollector
from tacit.recipe.derive import design_of, randomizer_of
from tacit.recipe.encoder import encoder_of
from tacit.roles.batches import RATE_FACTOR
from tacit.roles.collector import AggregateResult
from tacit.succinct.tree import MAX_TOP, Collected, search
from tests.unit.test_local_laws import HASHED

METHOD = cast(AffineHashing, randomizer_of(HASHED))
ENCODER = encoder_of(HASHED.question)
MOST = RATE_FACTOR * HASHED.batch.expected_contributions
REPORTS = HASHED.batch.expected_contributions
HALF = REPORTS // 2
GOOD: dict[str, Any] = {
    "items": [ENCODER.encode("ab"), 5],
    "supports": [HALF, HALF // 4],
    "levels": [[HALF, 1024, HALF // 3], [REPORTS - HALF, 64 * 1024, HALF // 4]],
}


def result(found: Any, reports: int = REPORTS) -> Ranked:
    made = LocalCollector().result(HASHED, AggregateResult(reports, Interval(0, 1), (reports,), found))
    assert isinstance(made, Ranked)
    return made


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    body: Any = copy.deepcopy(GOOD)
    *parents, last = path
    at = body
    for parent in parents:
        at = at[parent]
    at[last] = value
    return dict(body)


def test_the_search_of_its_own_reports_fits_a_recipe() -> None:
    assert [one.text for one in result(GOOD).items] == ["ab"]
    collected, entropy = Collected(METHOD), SeededEntropy(b"results")
    item = ENCODER.encode("word")
    assert isinstance(item, int)
    for _ in range(REPORTS):
        public, value = AffineRandomiser(METHOD).randomise(item, entropy)
        collected.add(public.to_bytes(PUBLIC_SIZE, "big") + bytes([value]))
    found = search(collected, MAX_TOP).document()
    best = result({**found, "levels": [list(level) for level in found["levels"]]})
    assert [one.text for one in best.items][:1] == ["word"]


def test_an_item_that_no_text_has_is_left_out() -> None:
    assert result({**GOOD, "items": [1, 5]}).items == ()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("items", 0), 1 << 20),
        (("items", 0), 10**4000),
        (("levels", 1, 1), 10**400),
        (("levels", 1, 1), 0),
        (("levels", 1, 1), (MAX_TOP + 1) * 1024),
        (("levels", 0, 1), 2048),
        (("levels", 0, 0), HALF + 1),
        (("levels",), [[REPORTS, 1024, 1]]),
        (("levels",), [[HALF // 3, 1024, 1]] * 3),
    ],
)
def test_numbers_that_no_search_of_the_recipe_has_are_refused(path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(Refusal) as caught:
        result(changed(path, value))
    assert caught.value.rule == "collection-values"


def test_more_reports_than_are_ever_released_are_refused_before_anything_is_computed() -> None:
    """A bound on 2^62 reports would take days."""
    for reports in (MOST + 1, 1 << 62):
        half = reports // 2
        levels = [[half, 1024, 0], [reports - half, 64 * 1024, 0]]
        with pytest.raises(Refusal, match="more reports"):
            result({**GOOD, "levels": levels}, reports)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["items", "levels"]), inner),
    max_leaves=6,
)
PLACES = st.sampled_from(
    [(), ("items",), ("supports",), ("levels",), ("levels", 0), ("items", 0), ("supports", 1), ("levels", 1, 2)]
)


@settings(max_examples=200)
@given(PLACES, JSON)
def test_whatever_an_analyzer_says_is_a_ranking_or_refused(path: tuple[Any, ...], value: Any) -> None:
    try:
        made = result(changed(path, value) if path else value)
    except Refusal as refusal:
        rule = refusal.rule
    else:
        rule = "collection-values"
        assert all(math.isfinite(number) for number in (made.threshold, made.below))
    assert rule == "collection-values"


def test_one_report_moves_an_estimate_by_no_more_than_the_levels_allow() -> None:
    """A device that chooses its id looks for a hash function and a level that suit it. It raises an item by at most
    ``(1 - 1/g) / (p - 1/g)`` devices over the share of the last level, and lowers none by more than a third of that."""
    design, reports, share = design_of(HASHED), 400, 1 / METHOD.values
    before, without, more = (
        estimator_of(METHOD).estimate([supports], total, design).values[0]
        for supports, total in ((100, reports), (100, reports + 1), (101, reports + 1))
    )
    most = (1 - share) / AffineEstimator(METHOD).gain / share_of_last(len(METHOD.levels))
    assert more - before == pytest.approx(most)
    assert before - without == pytest.approx(most * share / (1 - share))


def test_an_id_that_favours_many_items_at_once_is_found_quickly() -> None:
    """Three items of a report of four values: one id in 16 gives all of them one hash; 200 ids have none with
    probability 3e-6 or less. What binds a device is one token, not one item."""
    items = [item for item in map(ENCODER.encode, ("ab", "cd", "ef")) if isinstance(item, int)]
    drawn = (SeededEntropy(seed)(PUBLIC_SIZE) for seed in range(200))
    suits = [
        public for public in drawn if len({hash_of(seed_of(public), item, METHOD.hash_bits) for item in items}) == 1
    ]
    assert suits
    assert {level_of(int.from_bytes(public[8:], "big"), len(levels_of(METHOD.bits))) for public in suits} == {0, 1}


def test_who_knew_which_device_has_which_public_bytes_could_read_all_values_from_a_search() -> None:
    """Were the public bytes report ids, then the gateway, the relay and the analyst, to whom the search goes, could
    solve for the values of 100 devices: fewer unknown numbers than supports. So they are sealed to the analyzer, and
    the relay's claim is the analyzer's anyway, not the result's."""
    method, entropy, datum = AffineHashing(Decimal(1), 2, 16), SeededEntropy(b"relay"), random.Random(1)
    collected, devices = Collected(method), 100
    reports = [AffineRandomiser(method).randomise(datum.randrange(5), entropy) for _ in range(devices)]
    seeds = [seed_of(public.to_bytes(PUBLIC_SIZE, "big")) for public, _ in reports]
    for public, value in reports:
        collected.add(public.to_bytes(PUBLIC_SIZE, "big") + bytes([value]))
    found = search(collected, MAX_TOP)
    known = np.zeros((len(found.items) + devices, devices * method.values))
    for row, item in enumerate(found.items):
        for device, seed in enumerate(seeds):
            known[row, device * method.values + hash_of(seed, item, method.hash_bits)] = 1
    for device in range(devices):
        known[len(found.items) + device, device * method.values : (device + 1) * method.values] = 1
    solved = np.linalg.lstsq(known, np.array([*found.supports, *[1] * devices]), rcond=None)[0]
    assert [int(values.argmax()) for values in solved.reshape(devices, -1)] == [value for _, value in reports]
    assert form_of("local").charged_with_relay == form_of("local").charged == "analyzer"
