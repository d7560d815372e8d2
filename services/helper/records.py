"""The states of the Helper's aggregation jobs."""

from __future__ import annotations

import enum

from tacit.states import Move, States


class JobState(enum.StrEnum):
    """State of a job that has a row. The response tells which: it is empty until the job is answered."""

    TAKEN = "taken"
    ANSWERED = "answered"


JOB_STATES = States(
    "a job at the Helper",
    JobState,
    [
        Move(None, JobState.TAKEN, "its request arrives, and no other transaction has the job"),
        Move(JobState.TAKEN, JobState.ANSWERED, "in the same transaction, with outcomes and buckets"),
        Move(JobState.ANSWERED, None, "the Leader deletes it, or the task has ended"),
    ],
)
