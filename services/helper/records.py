"""Which states an aggregation job of the Helper goes through."""

from __future__ import annotations

import enum

from tacit.states import Move, States


class JobState(enum.StrEnum):
    """Of a job whose row is there; which of the two its response says: it is empty until the job is answered."""

    TAKEN = "taken"
    ANSWERED = "answered"


JOB_STATES = States(
    "a job at the Helper",
    JobState,
    [
        Move(None, JobState.TAKEN, "its request comes, and no other transaction has the job"),
        Move(JobState.TAKEN, JobState.ANSWERED, "in the same transaction, with outcomes and buckets"),
        Move(JobState.ANSWERED, None, "the Leader deletes it, or the task has ended"),
    ],
)
