"""What the collector keeps: collections with the exact bytes they ask with, and results."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tacit.states import Move, States


class CollectionState(enum.StrEnum):
    """How far a collection is."""

    REQUESTED = "requested"
    COLLECTING = "collecting"
    FINISHING = "finishing"
    RELEASED = "released"
    REFUSED = "refused"


COLLECTION_STATES = States(
    "a collection",
    CollectionState,
    [
        Move(None, CollectionState.REQUESTED, "the operator asks"),
        Move(CollectionState.REQUESTED, CollectionState.REQUESTED, "the Leader did not answer, later again"),
        Move(
            CollectionState.REQUESTED,
            CollectionState.COLLECTING,
            "the Leader, or the analyzer, knows it",
        ),
        Move(CollectionState.REQUESTED, CollectionState.REFUSED, "the Leader says no"),
        Move(CollectionState.COLLECTING, CollectionState.COLLECTING, "not ready yet, later again"),
        Move(CollectionState.COLLECTING, CollectionState.REQUESTED, "the Leader does not know the job any more"),
        Move(CollectionState.COLLECTING, CollectionState.FINISHING, "the result of a leader-selected batch is stored"),
        Move(
            CollectionState.COLLECTING,
            CollectionState.RELEASED,
            "the result of an interval is stored",
        ),
        Move(CollectionState.COLLECTING, CollectionState.REFUSED, "the Leader says no, or what came is refused"),
        Move(CollectionState.FINISHING, CollectionState.FINISHING, "the Leader did not answer, later again"),
        Move(CollectionState.FINISHING, CollectionState.RELEASED, "the Leader has forgotten the job"),
        Move(CollectionState.REFUSED, CollectionState.REQUESTED, "the operator asks again"),
    ],
)
UNFINISHED = (CollectionState.REQUESTED, CollectionState.COLLECTING, CollectionState.FINISHING)


@dataclass(frozen=True, slots=True)
class Collection:
    """One batch that was asked for. ``request`` is the CollectionJobReq as it is sent, ``job`` the Leader's id; both
    are empty where one server is asked.

    ``rule`` (a rule's name or a problem type) and ``detail`` say why it was refused, or what the last attempt
    met.
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
