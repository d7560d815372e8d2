"""The states of the Helper's aggregation jobs."""

from __future__ import annotations

import enum

from tacit.states import Move, States


class JobState(enum.StrEnum):
    """The only state that has a row: a job that is not answered yet, or was deleted, has none."""

    ANSWERED = "answered"


JOB_STATES = States(
    "a job at the Helper",
    JobState,
    [
        Move(None, JobState.ANSWERED, "its outcomes and buckets are committed, and nobody has answered it before"),
        Move(JobState.ANSWERED, None, "the Leader deletes it, or the task has ended"),
    ],
)
