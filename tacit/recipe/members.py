"""The members ``randomizer`` and ``vdaf`` of a recipe, for a local epsilon or for a noise share."""

from __future__ import annotations

import bisect
import math
from decimal import Decimal
from typing import Any

from tacit.dp.binomial_noise import NoiseShare, noise_share
from tacit.dp.vector_noise import vector_share
from tacit.errors import UsageError
from tacit.methods.flips import Flips
from tacit.methods.registry import randomizer_from
from tacit.recipe.checks.design import VDAF_OF_RANDOMIZER, VDAF_OF_SHARES
from tacit.recipe.derive import range_of, vector_step
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Question, Vector
from tacit.vdaf.registry import chunk_length_for

REJECTION_SHARE = 0.001
"""Share of delta kept for RAPPOR outputs above the weight bound."""

Members = dict[str, Any]


def plain(number: Decimal) -> str:
    """A decimal as recipes write it: no exponent, no trailing zeros."""
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def noise_members(question: Question, honest: int, epsilon: float, delta: float, batch_size: int) -> Members:
    """The least noise with which the shares of ``honest`` devices are (epsilon, delta)-private. Raises ``UsageError``,
    which names ``batch_size``."""
    maximum, cells = range_of(question), len(encoder_of(question).labels)
    try:
        share = _share(question, honest, epsilon, delta)
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


def local_members(name: str, question: Question, epsilon0: Decimal, batch_size: int, delta: float) -> Members:
    """A local randomizer at ``epsilon0``; RAPPOR's weight bound costs ``REJECTION_SHARE`` of delta in a batch."""
    vdaf_name = VDAF_OF_RANDOMIZER[name]
    categories = 2 if name == "rr" else len(encoder_of(question).labels)
    length = 1 if name == "rr" else categories
    weight: dict[str, int] = {}
    elements = length
    if name == "rappor":
        spent = REJECTION_SHARE * delta / math.exp(epsilon0)
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
