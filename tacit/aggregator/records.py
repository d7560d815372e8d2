"""The records that an aggregator keeps about a recipe."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tacit.codec import b64url
from tacit.messages import Interval
from tacit.states import Move, States

Batch = bytes | Interval | None
"""Selects buckets of a task: one bucket, the buckets of the reports in an interval (units of the task's precision), or
all."""

ACCEPTED = 0
"""The ``code`` of a report that counts; any other is the DAP report error with which it was rejected."""


class OutcomeRow(NamedTuple):
    """The outcome of one report, in the order of the table's columns after the task. ``nullifier``: that of a valid
    token, which this row spends; ``bucket``: where an accepted report counts; ``digest``: SHA-256 of the report as it
    was uploaded."""

    report_id: bytes
    nullifier: bytes | None
    code: int
    cause: str = ""
    bucket: bytes | None = None
    job_id: bytes | None = None
    digest: bytes | None = None

    def __repr__(self) -> str:
        return f"OutcomeRow(report_id={self.report_id!r}, code={self.code}, cause={self.cause!r})"


@dataclass(frozen=True, slots=True)
class Known:
    """The outcome of a report that has one: its ``code``, and the SHA-256 of the report as it was uploaded, if that is
    kept."""

    code: int
    digest: bytes | None = field(default=None, repr=False)


class TaskState(enum.StrEnum):
    """What an aggregator does with a recipe. ``TASK_STATES`` has the moves from one state to another."""

    WAITING = "waiting"
    OPTED_IN = "opted-in"
    ACTIVE = "active"
    REFUSED = "refused"
    ENDED = "ended"


OPEN_STATES = frozenset({TaskState.OPTED_IN, TaskState.ACTIVE})
"""The states of a task for which something may still be spent or released."""

TASK_STATES = States(
    "a task",
    TaskState,
    [
        Move(None, TaskState.WAITING, "the key of its slot, or its series, is not in the log yet"),
        Move(None, TaskState.REFUSED, "a rule refuses it"),
        Move(None, TaskState.OPTED_IN, "rules passed, own opt-in stored"),
        Move(None, TaskState.ACTIVE, "added by the interoperation API, without a log"),
        Move(TaskState.WAITING, TaskState.WAITING, "the log has grown"),
        Move(TaskState.WAITING, TaskState.REFUSED, "a rule refuses it"),
        Move(TaskState.WAITING, TaskState.OPTED_IN, "rules passed, own opt-in stored"),
        Move(TaskState.REFUSED, TaskState.REFUSED, "the log has grown"),
        Move(TaskState.REFUSED, TaskState.WAITING, "only the slot's key or the series is missing"),
        Move(TaskState.REFUSED, TaskState.OPTED_IN, "rules passed, own opt-in stored"),
        Move(TaskState.OPTED_IN, TaskState.OPTED_IN, "the log has grown, or a void leaf is kept"),
        Move(TaskState.OPTED_IN, TaskState.ACTIVE, "all opt-ins are in the log and equal"),
        Move(TaskState.OPTED_IN, TaskState.ENDED, "the database was restored from the past"),
        Move(TaskState.ACTIVE, TaskState.ACTIVE, "a void leaf is kept"),
        Move(TaskState.ACTIVE, TaskState.ENDED, "end and retention have passed, or the database is from the past"),
        Move(TaskState.ENDED, TaskState.ENDED, "another process has ended it as well"),
    ],
)


@dataclass(frozen=True)
class TaskRow:
    """One recipe as the aggregator keeps it. ``rule`` and ``detail`` say why it waits or was refused."""

    recipe_hash: bytes
    state: TaskState
    recipe: bytes = field(repr=False)
    task_id: bytes | None = None
    rule: str = ""
    detail: str = ""
    token_key_spki: bytes = field(default=b"", repr=False)
    opt_in: bytes = field(default=b"", repr=False)
    void: bytes = field(default=b"", repr=False)
    """The signed void leaf, once the task is closed for good without a release."""


def recipe_status(rows: Iterable[TaskRow]) -> list[dict[str, str]]:
    """What an aggregator tells its operator and its collector about recipes, one mapping each: hash, task id, state,
    and the rule and detail of a refusal. Nothing about reports."""
    return [
        {
            "recipe_hash": b64url(row.recipe_hash),
            "task_id": b64url(row.task_id) if row.task_id is not None else "",
            "state": row.state.value,
            "rule": row.rule,
            "detail": row.detail,
        }
        for row in rows
    ]
