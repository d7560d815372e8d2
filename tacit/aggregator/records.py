"""What an aggregator keeps of a recipe."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tacit.messages import Interval
from tacit.states import Move, States

Batch = bytes | Interval | None
"""Which of a task's buckets: one, those of reports of an interval (units of the task's precision), or all."""

ACCEPTED = 0
"""The ``code`` of a report that counts; any other is the DAP report error that it got."""


@dataclass(slots=True)
class OutcomeRow:
    """What became of one report. ``nullifier``: of a good token, which is spent hereby; ``bucket``: where an accepted
    one counts; ``digest``: SHA-256 of the report as it was uploaded."""

    report_id: bytes
    nullifier: bytes | None = field(repr=False)
    code: int
    cause: str = ""
    bucket: bytes | None = None
    job_id: bytes | None = None
    digest: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Known:
    """A report of which an outcome exists."""

    code: int
    digest: bytes | None = field(default=None, repr=False)


class TaskState(enum.StrEnum):
    """What an aggregator does with a recipe."""

    WAITING = "waiting"
    OPTED_IN = "opted-in"
    ACTIVE = "active"
    REFUSED = "refused"
    ENDED = "ended"


TASK_STATES = States(
    "a task",
    TaskState,
    [
        Move(None, TaskState.WAITING, "the log has yet to show its slot's key, or its series"),
        Move(None, TaskState.REFUSED, "a rule says no"),
        Move(None, TaskState.OPTED_IN, "rules passed, own opt-in stored"),
        Move(None, TaskState.ACTIVE, "named by the interoperation API, of which no log tells"),
        Move(TaskState.WAITING, TaskState.WAITING, "the log has grown"),
        Move(TaskState.WAITING, TaskState.REFUSED, "a rule says no"),
        Move(TaskState.WAITING, TaskState.OPTED_IN, "rules passed, own opt-in stored"),
        Move(TaskState.REFUSED, TaskState.REFUSED, "the log has grown"),
        Move(TaskState.REFUSED, TaskState.WAITING, "only the slot's key is missing, or the series"),
        Move(TaskState.REFUSED, TaskState.OPTED_IN, "rules passed, own opt-in stored"),
        Move(TaskState.OPTED_IN, TaskState.OPTED_IN, "the log has grown, or a void leaf is kept"),
        Move(TaskState.OPTED_IN, TaskState.ACTIVE, "all opt-ins are in the log and equal"),
        Move(TaskState.OPTED_IN, TaskState.ENDED, "the database was restored from the past"),
        Move(TaskState.ACTIVE, TaskState.ACTIVE, "a void leaf is kept"),
        Move(TaskState.ACTIVE, TaskState.ENDED, "end and retention have passed, or the database is from the past"),
        Move(TaskState.ENDED, TaskState.ENDED, "another process ended it too"),
    ],
)


@dataclass(frozen=True)
class TaskRow:
    """One recipe as the aggregator holds it. ``rule`` and ``detail`` say why it waits or was refused."""

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
