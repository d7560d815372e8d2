"""A complete recipe from a question and a privacy target: the local epsilon or the noise shares, the VDAF and the claim
follow.

Used by ``tacit recipe new`` and by the demonstration; what it returns passes the rules under the default policy
wherever the target can be met.
"""

from __future__ import annotations

import bisect
import math
from decimal import ROUND_FLOOR, Decimal
from typing import Any, Literal

from tacit.dp.binomial_noise import NoiseShare, noise_share
from tacit.dp.calibrate import largest_epsilon0
from tacit.dp.claim import MECHANISM_OF
from tacit.dp.vector_noise import vector_share
from tacit.errors import Refusal, UsageError
from tacit.randomizers.flips import Flips
from tacit.randomizers.registry import randomizer_from
from tacit.recipe.checks.design import MODE_OF_CLOSE, RANDOMIZERS_OF_STATISTIC, VDAF_OF_RANDOMIZER, VDAF_OF_SHARES
from tacit.recipe.claims import claim_of
from tacit.recipe.derive import range_of, vector_step
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import UNBOUNDED, Parties, Question, Recipe, TokenSlot, Vector
from tacit.vdaf.registry import chunk_length_for

FILL = Decimal("0.8")
"""Default B as a share of the expected contributions."""
EPSILON_PLACES = 4
REJECTION_SHARE = 0.001
"""Share of delta kept for RAPPOR outputs above the weight bound."""


def default_batch_size(population: int, rate: Decimal) -> int:
    """B = floor(0.8 q N)."""
    return int((FILL * rate * population).to_integral_value(ROUND_FLOOR))


def propose(
    *,
    name: str,
    question: Question,
    population: int,
    parties: Parties,
    token: TokenSlot,
    start: int,
    duration: int,
    rate: Decimal = Decimal("0.5"),
    min_batch_size: int | None = None,
    epsilon: Decimal = Decimal(1),
    delta: Decimal = Decimal("0.000001"),
    max_epsilon0: Decimal = Decimal(8),
    randomizer: str | None = None,
    aggregator_flips: int = 0,
    close: Literal["interval_end", "at_B"] = "interval_end",
    time_precision: int = 60,
    account: str = "default",
    audience: str = "all",
) -> Recipe:
    """The recipe that asks ``population`` devices with the largest epsilon0, up to ``max_epsilon0``, whose claim
    against an aggregator with the relay (no sampling counted) stays within ``epsilon``.

    With the randomizer ``flips`` (the only one for sums, means and vector sums) it is the least noise with which that
    claim holds although only half of B is honest; ``aggregator_flips`` of each aggregator come on top.

    ``start`` and ``duration`` are seconds and multiples of ``time_precision``. Raises ``UsageError`` where the
    numbers give no recipe.
    """
    chosen = _randomizer_for(question, randomizer)
    batch_size = default_batch_size(population, rate) if min_batch_size is None else min_batch_size
    spec = calibrated(chosen, question, batch_size, epsilon, delta, max_epsilon0)
    body: dict[str, Any] = {
        "version": 1,
        "name": name,
        "question": question.canonical(),
        "model": "secure-aggregation",
        **spec,
        **({"aggregator_noise": {"flips": aggregator_flips}} if aggregator_flips else {}),
        "sampling": {"rate": plain(rate)},
        "batch": {
            "min_batch_size": batch_size,
            "mode": MODE_OF_CLOSE[close],
            "close": close,
            "time_precision": time_precision,
            "expected_contributions": max(batch_size, math.ceil(rate * population)),
        },
        "interval": {"start": start, "duration": duration},
        "audience": {"population": audience},
        "token": token.model_dump(mode="json"),
        "parties": parties.model_dump(mode="json"),
    }
    return with_claim(body, delta=delta, account=account)


def calibrated(
    name: str, question: Question, batch_size: int, epsilon: Decimal, delta: Decimal, max_epsilon0: Decimal
) -> dict[str, Any]:
    """The members ``randomizer`` and ``vdaf`` of the randomizer ``name`` with the claim against an aggregator with the
    relay within (epsilon, delta). Raises ``UsageError``."""
    if name == Flips.NAME:
        return _shares_and_vdaf(question, batch_size, epsilon, delta)
    return _local_and_vdaf(name, question, batch_size, epsilon, delta, max_epsilon0)


def _randomizer_for(question: Question, wanted: str | None) -> str:
    """The randomizer that is wanted, or the usual one. Raises ``UsageError`` for one that does not fit the question."""
    fitting = RANDOMIZERS_OF_STATISTIC[question.statistic]
    chosen = wanted or fitting[0]
    known = (*VDAF_OF_RANDOMIZER, Flips.NAME)
    if chosen not in known:
        raise UsageError(f"randomizer {chosen!r} is not known; {', '.join(known)} are")
    if chosen not in fitting:
        raise UsageError(f"a {question.statistic} needs the randomizer {' or '.join(fitting)}, not {chosen}")
    return chosen


def with_claim(body: dict[str, Any], *, delta: Decimal, account: str = "default") -> Recipe:
    """The recipe of ``body`` (without ``privacy``) with the claim that its parameters give, rounded up."""
    epsilon0 = body["randomizer"].get("epsilon0", UNBOUNDED)
    unclaimed = dict.fromkeys(
        ("aggregator", "aggregator_with_relay", "both_aggregators", "both_aggregators_with_relay"), "0"
    )
    privacy = {
        "delta": plain(delta),
        "relation": "replacement",
        "mechanism": "none",
        "n": body["batch"]["min_batch_size"],
        "epsilon0": epsilon0,
        "account": account,
        "epsilon": unclaimed,
    }
    try:
        claim = claim_of(Recipe.from_body({**body, "privacy": privacy}))
    except (Refusal, ValueError) as error:
        raise UsageError(str(error)) from error
    stated = {**claim.rounded_up(), "both_aggregators_with_relay": epsilon0}
    return Recipe.from_body({**body, "privacy": {**privacy, "mechanism": claim.mechanism, "epsilon": stated}})


def plain(number: Decimal) -> str:
    """A decimal as recipes write it: no exponent, no trailing zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _local_and_vdaf(
    name: str, question: Question, batch_size: int, epsilon: Decimal, delta: Decimal, max_epsilon0: Decimal
) -> dict[str, Any]:
    kept = float(delta) * (1 - REJECTION_SHARE) if name == "rappor" else float(delta)
    try:
        largest = largest_epsilon0(MECHANISM_OF[name], batch_size, kept, float(epsilon), places=EPSILON_PLACES)
    except ValueError as error:
        raise UsageError(f"no local epsilon fits B = {batch_size}: {error}") from error
    return _randomizer_and_vdaf(name, question, min(Decimal(repr(largest)), max_epsilon0), batch_size, delta)


def _shares_and_vdaf(question: Question, batch_size: int, epsilon: Decimal, delta: Decimal) -> dict[str, Any]:
    """The members ``randomizer`` and ``vdaf`` of noise shares for half of B."""
    maximum, cells = range_of(question), len(encoder_of(question).labels)
    try:
        share = _share(question, max(1, batch_size // 2), float(epsilon), float(delta))
    except ValueError as error:
        raise UsageError(
            f"no noise share fits B = {batch_size} and values up to {maximum}: {error}, or the range must be coarser"
        ) from error
    largest, name = share.largest(maximum), VDAF_OF_SHARES[question.statistic]
    single = name == "Prio3Sum"
    return {
        "randomizer": {
            "name": Flips.NAME,
            "categories": cells,
            "scale": share.scale,
            "flips": share.flips,
            "maximum": maximum,
        },
        "vdaf": {
            "name": name,
            "length": cells,
            "chunk_length": 1 if single else chunk_length_for(cells * largest.bit_length()),
            "max_measurement": largest,
        },
    }


def _share(question: Question, honest: int, epsilon: float, delta: float) -> NoiseShare:
    if isinstance(question.encoder, Vector):
        return vector_share(epsilon, delta, honest, vector_step(question.encoder))
    cells = 2 if question.statistic == "histogram" else 1
    return noise_share(epsilon, delta, honest, step=range_of(question), cells=cells)


def _randomizer_and_vdaf(
    name: str, question: Question, epsilon0: Decimal, batch_size: int, delta: Decimal
) -> dict[str, Any]:
    """The members ``randomizer`` and ``vdaf``."""
    vdaf_name = VDAF_OF_RANDOMIZER[name]
    categories = 2 if name == "rr" else len(encoder_of(question).labels)
    length = 1 if name == "rr" else categories
    weight: dict[str, int] = {}
    elements = length
    if name == "rappor":
        spent = REJECTION_SHARE * float(delta) / math.exp(epsilon0)
        bound = rappor_weight(epsilon0, categories, spent / (2 * batch_size))
        weight, elements = {"max_weight": bound}, length + bound.bit_length()
    return {
        "randomizer": {"name": name, "epsilon0": plain(epsilon0), "categories": categories, **weight},
        "vdaf": {
            "name": vdaf_name,
            "length": length,
            "chunk_length": 1 if name == "rr" else chunk_length_for(elements),
            **weight,
        },
    }


def rappor_weight(epsilon0: Decimal, categories: int, tail: float) -> int:
    """The least weight bound that a RAPPOR output over ``categories`` exceeds with probability <= ``tail``."""

    def rarely_exceeded(weight: int) -> bool:
        return randomizer_from("rappor", epsilon0, categories, weight).reject_probability <= tail

    return bisect.bisect_left(range(1, categories), x=True, key=rarely_exceeded) + 1
