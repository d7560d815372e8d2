"""The collector's records: collections, with the exact bytes of their requests, and results."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tacit.states import Move, States


class CollectionState(enum.StrEnum):
    REQUESTED = "requested"
    COLLECTING = "collecting"
    FINISHING = "finishing"
    RELEASED = "released"
    REFUSED = "refused"


COLLECTION_STATES = States(
    "a collection",
    CollectionState,
    [
        Move(None, CollectionState.REQUESTED, "the operator asks for it"),
        Move(
            CollectionState.REQUESTED, CollectionState.REQUESTED, "the Leader did not answer and is asked again later"
        ),
        Move(
            CollectionState.REQUESTED,
            CollectionState.COLLECTING,
            "the Leader or the analyzer has accepted the request",
        ),
        Move(CollectionState.REQUESTED, CollectionState.REFUSED, "the Leader refuses"),
        Move(
            CollectionState.COLLECTING,
            CollectionState.COLLECTING,
            "the result is not ready and is asked for again later",
        ),
        Move(CollectionState.COLLECTING, CollectionState.REQUESTED, "the Leader no longer knows the job"),
        Move(CollectionState.COLLECTING, CollectionState.FINISHING, "the result of a leader-selected batch is stored"),
        Move(
            CollectionState.COLLECTING,
            CollectionState.RELEASED,
            "the result of an interval is stored",
        ),
        Move(
            CollectionState.COLLECTING, CollectionState.REFUSED, "the Leader refuses, or its answer is not acceptable"
        ),
        Move(
            CollectionState.FINISHING, CollectionState.FINISHING, "the Leader did not answer and is asked again later"
        ),
        Move(CollectionState.FINISHING, CollectionState.RELEASED, "the Leader has deleted the job"),
        Move(CollectionState.REFUSED, CollectionState.REQUESTED, "the operator asks again"),
    ],
)
UNFINISHED = (CollectionState.REQUESTED, CollectionState.COLLECTING, CollectionState.FINISHING)


@dataclass(frozen=True, slots=True)
class Collection:
    """One requested batch. ``request`` is the CollectionJobReq as it is sent, ``job`` the Leader's id; both are empty
    for a recipe with one server.

    ``rule`` (a rule's name or a problem type) and ``detail`` say why the collection was refused, or why the last
    attempt failed.
    """

    id: str
    recipe_hash: bytes
    number: int
    state: CollectionState
    request: bytes = field(repr=False)
    job: str = ""
    rule: str = ""
    detail: str = ""
    attempts: int = 0
    next_attempt: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """One release: the result document (JSON text) of the recipe's batch ``number``."""

    collection: str
    recipe_hash: bytes
    number: int
    document: str
    published: bool = False
