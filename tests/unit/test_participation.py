"""P27 by exact enumeration of the whole device path, from datum to message or silence.

Data of every kind are tried: each answer, numbers outside, text of no category, nothing, and sources that fail. Laws
are exact: every outcome of a device's randomness is run (``tests.unit.device_path``).
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client_agent.data.sources import Reading, read
from infra.lab.kit.recipes import census_question
from tacit.errors import UsageError
from tacit.methods.estimators.registry import estimator_of
from tacit.methods.randomisers.registry import device_randomiser_of
from tacit.methods.registry import METHODS
from tacit.models.forms import FORMS
from tacit.recipe.derive import design_of, randomizer_of, shape_of, vdaf_of, vdaf_spec
from tacit.recipe.encoder import MISSING, encoder_of
from tacit.recipe.model import Question, Recipe
from tacit.tlog.canonical import validate
from tests.claims import compute_claim
from tests.unit.device_path import KIT, SILENCE, Law, Path, Sent, convolved, divergence, log_ratio

BASE = KIT.recipe()
EPSILON0 = 1.0
SLACK = 1e-9


def failing(_metric: str) -> Any:
    raise UsageError("data.csv: cannot read the data source")


def crashing(_metric: str) -> Any:
    raise KeyError("whatever")


def given_value(value: Any) -> Callable[[str], Any]:
    return lambda _metric: value


def question(statistic: str, **encoder: Any) -> Question:
    body = {"text": "?", "metric": "m", "encoder": encoder, "statistic": statistic}
    return validate(Question, body, "question")


BUCKETS = question("histogram", kind="buckets", edges=[1000, 2000])
"""The data that are tried for each kind of encoder."""
ODD: list[Callable[[str], Any]] = [
    *map(given_value, (None, "", "text", float("nan"), float("inf"), True, 10**5000, [1, "x"], [])),
    failing,
    crashing,
]
DATA: dict[str, list[Any]] = {
    "buckets": [999, 1000, "1999.5", 2000, -1, "-1e999", float("-inf")],
    "categories": ["a", "b", "c"],
    "boolean": [True, "no", "maybe", 2],
    "number": [-5, -1, 0, "1", 2, 99],
    "vector": [[0, 0], "1,-1", [9, 9], [1], "1,2,3", [1, float("nan")]],
}


def recipe_with(asked: Question, name: str, randomizer: dict[str, Any], sampling: dict[str, Any]) -> Recipe:
    """A recipe that asks so, with this noise and sampling; nothing here looks at what it claims."""
    method, shape = METHODS[name], shape_of(asked)
    members = {"categories": method.categories_of(shape), **randomizer}
    if "maximum" in method.MEMBERS:
        members["maximum"] = shape.maximum
    numbers = {name: Decimal(value) if isinstance(value, str) else value for name, value in members.items()}
    proof = {**FORMS[BASE.model].proof(method.of(shape, numbers)).members(), "chunk_length": 1}
    body = {**BASE.body(), "question": asked.canonical(), "randomizer": {"name": name, **members}, "vdaf": proof}
    return Recipe.from_body({**body, "sampling": {"rate": "0.5", **sampling}})


LOCAL: dict[str, tuple[Question, str, dict[str, Any]]] = {
    "krr, buckets": (BUCKETS, "krr", {"epsilon0": "1"}),
    "krr, categories": (question("histogram", kind="categories", categories=["a", "b"]), "krr", {"epsilon0": "1"}),
    "rr": (question("count", kind="boolean"), "rr", {"epsilon0": "1"}),
    "rappor": (BUCKETS, "rappor", {"epsilon0": "1", "max_weight": 1}),
}
SHARES: dict[str, Any] = {"scale": 1, "flips": 2}
NOISE: dict[str, tuple[Question, str, dict[str, Any]]] = {
    "count": (question("count", kind="boolean"), "flips", SHARES),
    "sum": (question("sum", kind="number", low=-1, high=2), "flips", SHARES),
    "mean": (question("mean", kind="number", low=1, high=3), "flips", SHARES),
    "histogram": (BUCKETS, "flips", SHARES),
    "vector": (question("vector-sum", kind="vector", length=2, low=-2, high=2, norm=2), "flips", SHARES),
}
SAMPLING: dict[str, dict[str, Any]] = {
    "everybody": {"rate": "1"},
    "uniform": {},
    "dummies": {"dummies": {"intensity": "1", "population": 4}},
    "importance": {"importance": {"default": 0, "default_rate": "0.25"}},
    "importance, dummies": {
        "importance": {"default": 0, "default_rate": "0.25"},
        "dummies": {"intensity": "1", "population": 4},
    },
}
MEANT_FOR_TOTALS = {"mean", "vector"}


def recipe_of(kind: str, sampling: str) -> Recipe:
    asked, name, randomizer = {**LOCAL, **NOISE}[kind]
    return recipe_with(asked, name, randomizer, SAMPLING[sampling])


def sources(recipe: Recipe) -> list[Callable[[str], Any]]:
    return [*map(given_value, DATA[recipe.question.encoder.kind]), *ODD]


def answer_to(recipe: Recipe, source: Callable[[str], Any]) -> Any:
    try:
        return encoder_of(recipe.question).encode(source("m"))
    except (UsageError, KeyError):
        return MISSING


CASES = [
    (kind, sampling)
    for kind, sampling in itertools.product((*LOCAL, *NOISE), SAMPLING)
    if not (kind in MEANT_FOR_TOTALS and "importance" in sampling)
]


async def laws_by_answer(path: Path, seen: Callable[[Sent], Any]) -> dict[Any, Law]:
    """One law per answer: of equal answers the first one is enumerated in full, of the others what they draw from a few
    outcomes is compared (the code that follows the encoder has nothing else to tell them apart)."""
    found: dict[Any, Law] = {}
    for source in sources(path.recipe):
        answer = answer_to(path.recipe, source)
        if answer not in found:
            found[answer] = await path.law(source, seen)
    return found


@pytest.mark.parametrize(("kind", "sampling"), CASES)
async def test_whether_a_device_sends_depends_on_nothing_but_the_sampling_that_the_recipe_states(
    kind: str, sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = recipe_of(kind, sampling)
    laws = await laws_by_answer(Path(recipe, monkeypatch), lambda sent: (sent.measurement, sent.charged))
    assert MISSING in laws
    assert len(laws) >= 3, "several answers, and none"
    charged = {paid for law in laws.values() for _, paid in law}
    assert charged == {(recipe.privacy.epsilon["aggregator"], recipe.privacy.delta)}
    silence = {answer: sum(p for (made, _), p in law.items() if made is SILENCE) for answer, law in laws.items()}
    sends, rejects = Fraction(1) if sampling == "everybody" else Fraction(1, 2), Fraction(0)
    randomizer = randomizer_of(recipe)
    if kind == "rappor":
        keep, flip = randomizer.output_probabilities()  # type: ignore[attr-defined]
        rejects = keep * flip
    dummy = Fraction(1, 4) if "dummies" in sampling else Fraction(0)
    for answer, silent in silence.items():
        rate = Fraction(1, 4) if "importance" in sampling and answer in (MISSING, 0) else sends
        assert abs(silent - (1 - rate * (1 - rejects)) * (1 - dummy)) < Fraction(1, 2**120), answer


@pytest.mark.parametrize(("kind", "sampling"), [case for case in CASES if case[0] in LOCAL])
async def test_all_that_one_device_sends_or_not_is_within_the_local_claim(
    kind: str, sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With importance sampling the claim adds what taking part tells: the larger log ratio of two rates."""
    laws = await laws_by_answer(Path(recipe_of(kind, sampling), monkeypatch), lambda sent: sent.measurement)
    part = 0.0
    if "importance" in sampling:
        silent = sorted({float(law[SILENCE]) for law in laws.values()})
        part = max(math.log(silent[-1] / silent[0]), math.log((1 - silent[0]) / (1 - silent[-1])))
    for one, other in itertools.permutations(laws.values(), 2):
        assert log_ratio(one, other) <= EPSILON0 + part + SLACK


def plus(before: tuple[int, ...], more: Any) -> tuple[int, ...]:
    """What an aggregator sees: the number of messages, and their sum; of a category the number of zeros."""
    if more is SILENCE:
        return before
    cells = more if isinstance(more, tuple) else (more,)
    return (before[0] + 1, *(left + right for left, right in zip(before[1:], cells, strict=True)))


@pytest.mark.parametrize("kind", ["krr, buckets", "rr", "rappor"])
@pytest.mark.parametrize("sampling", ["everybody", "uniform"])
async def test_the_claim_against_an_aggregator_holds_in_batches_of_a_few_devices(
    kind: str, sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four devices, the others' answers whatever they are, missing ones among them: what the number of messages and the
    aggregate tell of one device is at most the claim that the accountant gives for as many reports as are surely there,
    and at most the local claim where fewer may come."""
    recipe, devices, delta = recipe_of(kind, sampling), 4, 1e-6
    laws = list((await laws_by_answer(Path(recipe, monkeypatch), lambda sent: sent.measurement)).values())
    width = 1 if kind != "rappor" else 2
    zero = (0,) * (1 + width)
    n = devices if sampling == "everybody" else 1
    claim = compute_claim(randomizer_of(recipe), n=n, sampling_rate=1.0, delta=delta)
    for others in itertools.combinations_with_replacement(laws, devices - 1):
        crowd = convolved(others, plus, zero)
        whole = [convolved([crowd, convolved([law], plus, zero)], added, zero) for law in laws]
        for one, other in itertools.permutations(whole, 2):
            assert divergence(one, other, claim["aggregator"]) <= delta + SLACK


def added(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Two views of an aggregator, of different devices, together."""
    return tuple(left + right for left, right in zip(one, other, strict=True))


async def test_a_device_below_the_first_edge_changes_the_count_no_more_than_any_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Buckets from 1000 on and q = 1: one device going from 999 to 1000 once changed the count of reports by one for
    sure, which told its answer whatever epsilon was."""
    path = Path(recipe_of("krr, buckets", "everybody"), monkeypatch)
    laws = [await path.law(given_value(value)) for value in (999, 1000, 2000, None)]
    counts = [sum(p for made, p in law.items() if made is not SILENCE) for law in laws]
    assert counts == [1, 1, 1, 1]
    assert max(log_ratio(one, other) for one, other in itertools.permutations(laws, 2)) <= EPSILON0 + SLACK


@pytest.mark.parametrize("attributes", [{}, {"os": "linux"}, {"os": "windows", "locale": "de"}])
async def test_a_census_asks_devices_that_lack_an_attribute_like_all_others(
    attributes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = census_question({"os": ("linux", "mac"), "locale": ("de", "en")})
    whole = {"os": "linux", "locale": "en"}
    for missing in ("none of these", None):
        encoder = asked.encoder.model_copy(update={"missing": missing})
        census = recipe_with(asked.model_copy(update={"encoder": encoder}), "krr", {"epsilon0": "1"}, {})
        path = Path(census, monkeypatch)
        lacking = await path.law(given_value(None), attributes=attributes)
        usual = await path.law(given_value(None), attributes=whole)
        assert lacking[SILENCE] == usual[SILENCE]
        assert log_ratio(lacking, usual) <= EPSILON0 + SLACK
        assert lacking != usual
    answers = {made: p for made, p in lacking.items() if made is not SILENCE}
    assert max(answers.values()) - min(answers.values()) < Fraction(1, 2**120), "without a category, any of them"


@pytest.mark.parametrize("randomizer", ["krr", "rr", "rappor", "flips"])
@pytest.mark.parametrize("sampling", ["uniform", "dummies", "importance", "importance, dummies"])
async def test_a_device_without_an_answer_adds_to_the_estimate_what_the_result_says(
    randomizer: str, sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimates are linear in the reports: the expectation of what one device's report adds, over its exact law."""
    recipe = recipe_of({"krr": "krr, buckets", "flips": "count"}.get(randomizer, randomizer), sampling)
    made, design = randomizer_of(recipe), design_of(recipe)
    law = await Path(recipe, monkeypatch).law(given_value(None))
    scale = 2**40
    whole = {sent: round(float(p) * scale) for sent, p in law.items() if sent is not SILENCE}
    reports = sum(whole.values())
    columns = [sent if isinstance(sent, tuple) else cells_of(recipe, sent) for sent in whole]
    counts = [
        sum(n * column[cell] for n, column in zip(whole.values(), columns, strict=True)) for cell in range(made.cells)
    ]
    added_up = [value / scale for value in estimator_of(made).estimate(counts, reports, design).values]
    assert added_up == pytest.approx(estimator_of(made).missing_adds(design), abs=1e-6)


def cells_of(recipe: Recipe, sent: int) -> tuple[int, ...]:
    """What a scalar measurement adds to each cell: a category to its own, a number to the only one."""
    if vdaf_spec(recipe).name != "Prio3Histogram":
        return (sent,)
    return tuple(int(cell == sent) for cell in range(vdaf_spec(recipe).length))


# Sources, and encoders, always answer


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=4)
    | st.decimals(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)


@given(JUNK)
def test_every_encoder_has_an_answer_to_everything(value: Any) -> None:
    for asked, name, randomizer in (*LOCAL.values(), *NOISE.values()):
        encoder = encoder_of(asked)
        answer = encoder.encode(value)
        if answer is MISSING:
            continue
        recipe = recipe_with(asked, name, randomizer, {})
        made, flp = device_randomiser_of(randomizer_of(recipe)).randomise(answer, bytes), vdaf_of(recipe).flp
        assert made is None or len(flp.encode(made)) == flp.MEAS_LEN


async def test_a_source_that_does_not_answer_in_time_has_no_value() -> None:
    assert await read(lambda: time.sleep(0.5), 0.01) == Reading(
        None, "the data source did not answer within 0.01 seconds"
    )
    assert await read(lambda: 3) == Reading(3)
    assert await read(partial(failing, "m")) == Reading(None, "data.csv: cannot read the data source")
    assert (await read(partial(crashing, "m"))).trouble == "the data source failed: KeyError"
    await asyncio.sleep(0)
