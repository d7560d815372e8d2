"""Whatever numbers a recipe or a series holds, checking it takes a device a bounded amount of work and memory.

Work is counted in calls of Python and library functions, not in seconds.
"""

from __future__ import annotations

import copy
import functools
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from decimal import Decimal
from types import FrameType
from typing import Any

import pytest

from infra.lab.kit.recipes import NOW, RecipeKit, changed
from tacit.errors import DecodeError
from tacit.recipe.context import Context, Stage
from tacit.recipe.derive import vdaf_of
from tacit.recipe.model import Question, Recipe
from tacit.recipe.policy import upload_limits
from tacit.recipe.series import Series
from tacit.rules import series_table as series_rules
from tacit.rules import table as rules
from tacit.tlog.canonical import MAX_INTEGER

MOST_CALLS = 8_000_000
"""Calls that one check may make: some seconds of a small device."""
MOST_BYTES = 256 << 20
KIT = RecipeKit()
POLICY = KIT.policy.model_copy(update={"allow_unbounded_local": True})
DRAFT = Context(Stage.DRAFT, NOW)

EXTREMES = (0, 1024, 65_536, 10**7, MAX_INTEGER)
EXTREME_DECIMALS = ("0", "0." + "0" * 17 + "1", "0.999999", "0." + "9" * 18, "40", "9" * 9)


def _question(statistic: str, **encoder: Any) -> Question:
    return Question.model_validate({"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic})


COUNT = _question("count", kind="boolean")
SUM = _question("sum", kind="number", low=0, high=120)
VECTOR = _question("vector-sum", kind="vector", length=16, low=-10, high=10, norm=20)
RARE: dict[str, Any] = {
    "default": 0,
    "default_rate": Decimal("0.25"),
    "non_default_share": Decimal("0.5"),
    "population": 50_000,
}
BASES: dict[str, dict[str, Any]] = {
    "krr": {},
    "rappor": {"randomizer": "rappor"},
    "rr": {"question": COUNT},
    "shares": {"randomizer": "flips"},
    "sum of shares": {"question": SUM, "randomizer": "flips"},
    "vector of shares": {"question": VECTOR, "randomizer": "flips"},
    "importance, krr": RARE,
    "importance, shares": {"randomizer": "flips", **RARE},
    "dummies, rappor": {"randomizer": "rappor", "population": 50_000, "dummies": Decimal(50)},
    "importance and dummies": {**RARE, "dummies": Decimal(500)},
}


@functools.cache
def base_of(name: str) -> Recipe:
    return KIT.recipe(**BASES[name])


SERIES = {"donation": KIT.series(), "independent": KIT.series(donation_slots=None)}
HARDEST = [
    ("sum of shares", "batch.min_batch_size", 65_536),
    ("rr", "batch.min_batch_size", 10**7),
    ("rappor", "randomizer.categories", 1_000),
    ("rappor", "randomizer.max_weight", 1),
    ("importance and dummies", "sampling.rate", "0.999999"),
    ("vector of shares", "question.encoder.length", 1 << 20),
    ("vector of shares", "randomizer.categories", MAX_INTEGER),
    ("dummies, rappor", "sampling.dummies.population", MAX_INTEGER),
    ("krr", "privacy.delta", "0.000000000000000001"),
    ("krr", "randomizer.epsilon0", "40"),
    ("krr", "batch.min_batch_size", MAX_INTEGER),
]


class TooMuchWork(BaseException):
    """Not an ``Exception``, so that nothing under test takes it for one of its own."""


def bounded(action: Callable[[], object]) -> int:
    """Run ``action`` and count its calls; ``TooMuchWork`` ends it at ``MOST_CALLS``."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}
        if calls > MOST_CALLS:
            raise TooMuchWork

    sys.setprofile(count)
    try:
        action()
    finally:
        sys.setprofile(None)
    return calls


def places(body: dict[str, Any], at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member that is a number, or text that is one."""
    for name, value in body.items():
        if isinstance(value, dict):
            yield from places(value, (*at, name))
        elif isinstance(value, int) or (isinstance(value, str) and value.replace(".", "").isdigit()):
            yield (*at, name)


def spoilt(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The body with each number in turn replaced by each extreme."""
    for *parents, last in places(body):
        if "parties" in parents or last == "version":
            continue
        changed_body = copy.deepcopy(body)
        at: Any = changed_body
        for parent in parents:
            at = at[parent]
        values: tuple[object, ...] = EXTREMES if isinstance(at[last], int) else EXTREME_DECIMALS
        for value in values:
            at[last] = value
            yield f"{'.'.join([*parents, last])} = {value}", copy.deepcopy(changed_body)


def with_b(recipe: Recipe, path: str, value: object) -> Recipe:
    """``changed``; what must go along with B goes along, so that no cheaper rule comes first."""
    found = changed(recipe, path, value)
    if path == "batch.min_batch_size":
        found = changed(changed(found, "privacy.n", value), "batch.expected_contributions", value)
    return found


@pytest.mark.parametrize(("base", "path", "value"), HARDEST)
def test_checking_a_recipe_takes_bounded_work(base: str, path: str, value: object) -> None:
    recipe = with_b(base_of(base), path, value)
    assert bounded(lambda: rules.check(recipe, POLICY, DRAFT)) < MOST_CALLS


def test_checking_a_series_takes_bounded_work_and_never_raises() -> None:
    cases = 0
    for series in SERIES.values():
        for where, body in spoilt(series.body()):
            if where.startswith("template"):
                continue  # what a recipe holds, which the other tests spoil
            try:
                found = Series.from_body(body)
            except DecodeError:
                continue
            calls = bounded(lambda found=found: series_rules.check(found, POLICY, NOW))  # type: ignore[misc]
            assert 0 < calls <= MOST_CALLS, where
            cases += 1
    assert cases > 50


@pytest.mark.slow
@pytest.mark.parametrize("base", BASES)
def test_checking_any_recipe_with_any_extreme_number_takes_bounded_work_and_memory(base: str) -> None:
    cases = 0
    for where, body in spoilt(base_of(base).body()):
        try:
            recipe = Recipe.from_body(body)
        except DecodeError:
            continue
        cases += 1
        tracemalloc.start()
        try:
            bounded(lambda recipe=recipe: rules.check(recipe, POLICY, DRAFT))  # type: ignore[misc]
            assert tracemalloc.get_traced_memory()[1] < MOST_BYTES, where
        finally:
            tracemalloc.stop()
    assert cases > 50


@pytest.mark.parametrize(("chunk_length", "fits"), [(1, False), (180, False), (64, True), (1024, True)])
def test_a_report_that_no_device_could_send_is_refused_before_anything_is_charged(
    chunk_length: int, fits: bool
) -> None:
    bits = 33 if not fits else 12
    spec = {"name": "Prio3SumVec", "length": 1024, "chunk_length": chunk_length, "max_measurement": (1 << bits) - 1}
    recipe = changed(base_of("vector of shares"), "vdaf", spec)
    found = rules.check(recipe, POLICY, DRAFT, only={"vdaf-parameters"})
    assert [refusal.rule for refusal in found] == ([] if fits else ["vdaf-parameters"])
    assert (vdaf_of(recipe).leader_share_size < 1 << 18) is fits
    large = rules.check(recipe, POLICY.model_copy(update=upload_limits(1 << 20)), DRAFT, only={"vdaf-parameters"})
    assert bool(large) is (chunk_length == 1), "an upload of 1 MiB holds what no usual one does"
