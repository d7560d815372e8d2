"""How far a batch is filled, as a server tells it (``tacit.aggregator.yield_looks``): the document, and how to read
it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.errors import DecodeError

LOOKS = 5
"""How often the count of a task is looked at."""
STEPS = 10
"""The number of parts of B in which a count is given."""
MAX_BATCH = 10**10
"""Largest B for which looks are given; the noise can be drawn exactly for it."""


@dataclass(frozen=True, slots=True)
class Look:
    """The ``number``-th look, from 1, at POSIX second ``at``: the count in ``tenths`` of B, with noise; 10 means at
    least B."""

    number: int
    at: int
    tenths: int


@dataclass(frozen=True, slots=True)
class BatchYield:
    """How far a recipe's batch of at least ``min_batch_size`` (B) is filled: the looks so far, and the POSIX second
    from which the next one is available (None: there is no further one)."""

    task_id: str
    min_batch_size: int
    looks: tuple[Look, ...]
    next_at: int | None

    @property
    def epsilon(self) -> Fraction:
        """Upper bound on what all looks together reveal about whether one device's report was counted."""
        return Fraction(LOOKS * STEPS, self.min_batch_size)

    def document(self) -> dict[str, Any]:
        """As JSON; ``read_batch_yield`` is its inverse."""
        return {
            "task_id": self.task_id,
            "min_batch_size": self.min_batch_size,
            "looks": [look_document(one) for one in self.looks],
            "next_at": self.next_at,
        }


def read_batch_yield(body: bytes) -> BatchYield:
    """Parse a server's answer. Raises ``DecodeError``."""
    try:
        members: Any = json.loads(body)
        looks = tuple(_read_look(one) for one in members["looks"])
        size, following = members["min_batch_size"], members["next_at"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise DecodeError("the server's answer about the batch is malformed") from error
    numbers = [one.number for one in looks]
    if numbers != sorted(set(numbers)) or not _whole(size, 1, MAX_BATCH) or not isinstance(members.get("task_id"), str):
        raise DecodeError("the server's answer about the batch is malformed")
    if following is not None and not _whole(following, 0, 1 << 53):
        raise DecodeError("the server's answer about the batch is malformed")
    return BatchYield(members["task_id"], size, looks, following)


def look_document(look: Look) -> dict[str, int]:
    """A look as JSON; ``read_look`` is its inverse."""
    return {"number": look.number, "at": look.at, "tenths": look.tenths}


def read_look(body: bytes) -> Look:
    """Parse a look that a shuffler tells. Raises ``DecodeError``."""
    try:
        return _read_look(json.loads(body))
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise DecodeError("the look is malformed") from error


def _read_look(found: Mapping[str, Any]) -> Look:
    number, at, tenths = found["number"], found["at"], found["tenths"]
    if len(found) != 3 or not (_whole(number, 1, LOOKS) and _whole(at, 0, 1 << 53) and _whole(tenths, 0, STEPS)):
        raise ValueError("a look is malformed")
    return Look(number, at, tenths)


def _whole(value: object, least: int, most: int) -> bool:
    return type(value) is int and least <= value <= most
