"""Claims and members as they were made before methods had a room, to compare with."""

from __future__ import annotations

import bisect
import math
from decimal import Decimal
from typing import Any

from tacit.dp import parameters
from tacit.dp.amplification import delta_fmt22, epsilon_fmt22
from tacit.dp.binomial_noise import epsilon_noise
from tacit.dp.rr_exact import (
    delta_one_cell,
    delta_two_cells,
    epsilon_one_cell,
    epsilon_two_cells,
    rappor_flip,
    rr_flip,
)
from tacit.dp.sampling import amplify_visible
from tacit.dp.solve import largest_where
from tacit.dp.vector_noise import VectorStep, epsilon_vector_noise
from tacit.methods.rappor import Rappor
from tacit.vdaf.chunks import chunk_length_for

MECHANISM_OF = {"krr": "shuffle-fmt22", "rr": "rr-exact", "rappor": "rappor-exact"}
VDAF_OF = {"krr": "Prio3Histogram", "rappor": "Prio3MultihotCountVec", "rr": "Prio3Count"}


def epsilon_shuffle(mechanism: str, epsilon0: float, n: int, delta: float, reject: float = 0.0) -> float:
    general = epsilon_fmt22(float(epsilon0), n, delta)
    if mechanism == "shuffle-fmt22":
        return general
    if mechanism == "rr-exact":
        return min(general, epsilon_one_cell(rr_flip(epsilon0), n, delta))
    eta = -math.expm1(n * math.log1p(-reject))
    inner = delta * (1 - eta) - math.exp(general) * eta
    if inner < parameters.MIN_DELTA:
        return general
    return min(general, epsilon_two_cells(rappor_flip(epsilon0), n, inner))


def local_claim(
    name: str, epsilon0: float, n: int, rate: float, delta: float, reject: float
) -> tuple[str, tuple[float, ...]]:
    mechanism = MECHANISM_OF[name]
    one = epsilon_shuffle(mechanism, epsilon0, n, delta, reject)
    both = epsilon_shuffle("shuffle-fmt22", epsilon0, n, delta)
    one_sampled, both_sampled = amplify_visible(one, rate, n, delta), amplify_visible(both, rate, n, delta)
    epsilons = (
        one if one_sampled is None else one_sampled,
        one,
        both if both_sampled is None else both_sampled,
        float(epsilon0),
    )
    return mechanism + ("" if one_sampled is None else "+sampling"), epsilons


def noise_claim(
    spec: dict[str, int], vector: VectorStep | None, cells: int, batch_flips: int, n: int, rate: float, delta: float
) -> tuple[str, tuple[float, ...]]:
    total = n * spec["flips"] + batch_flips
    if vector is not None:
        one = epsilon_vector_noise(total, vector, spec["scale"], delta)
    else:
        one = epsilon_noise(total, spec["scale"] * spec["maximum"], delta, cells)
    sampled = amplify_visible(one, rate, n, delta)
    mechanism = "flips-exact" if vector is None else "flips-vector"
    epsilons = (one if sampled is None else sampled, one, math.inf, math.inf)
    return mechanism + ("" if sampled is None else "+sampling"), epsilons


def local_members(name: str, cells: int, epsilon0: Decimal, batch_size: int, delta: float) -> dict[str, Any]:
    categories = 2 if name == "rr" else cells
    length = 1 if name == "rr" else categories
    weight: dict[str, int] = {}
    elements = length
    if name == "rappor":
        spent = 0.001 * delta / math.exp(epsilon0)
        bound = rappor_weight(epsilon0, categories, spent / (2 * batch_size))
        weight, elements = {"max_weight": bound}, length + bound.bit_length()
    chunk = 1 if name == "rr" else chunk_length_for(elements)
    return {
        "randomizer": {"categories": categories, **weight},
        "vdaf": {"name": VDAF_OF[name], "length": length, "chunk_length": chunk, **weight},
    }


def rappor_weight(epsilon0: Decimal, categories: int, tail: float) -> int:
    def rarely_exceeded(weight: int) -> bool:
        return Rappor(epsilon0, categories, weight).reject_probability <= tail

    return bisect.bisect_left(range(1, categories), x=True, key=rarely_exceeded) + 1


def largest_epsilon0(name: str, n: int, delta: float, target: float, places: int = 4) -> float:
    mechanism = MECHANISM_OF[name]
    left = delta * (1 - 0.001) if name == "rappor" else delta

    def holds(epsilon0: float) -> bool:
        if epsilon0 <= target or delta_fmt22(target, epsilon0, n, tail=left * 1e-4) <= left:
            return True
        if mechanism == "rr-exact":
            return delta_one_cell(target, rr_flip(epsilon0), n) <= left
        return mechanism == "rappor-exact" and delta_two_cells(target, rappor_flip(epsilon0), n) <= left

    found = largest_where(holds, target, parameters.MAX_EPSILON0, 0.25 * 10.0**-places)
    if found is None:
        return target
    scale = float(10**places)
    rounded = math.floor(found * scale) / scale
    while rounded > target and not holds(rounded):
        rounded = math.floor(rounded * scale - 0.5) / scale
    return max(rounded, target)
