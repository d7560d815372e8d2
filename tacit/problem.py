"""Problem documents (RFC 9457) that a peer answered with: bytes that may be anything.

This is the one place that reads them. A member whose value is not of the type that RFC 9457 section 3.1 gives it is
ignored, as the section asks, and so is a document that is none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tacit.errors import DAP_ERROR_PREFIX, REFUSAL_PREFIX, DapProblem

OF_GATEWAY = tuple(
    f"urn:tacit:problem:{name}"
    for name in (
        "replay-window-away",
        "replay-window-restored",
        "request-replayed",
        "target-unreachable",
        "target-not-allowed",
    )
)
"""Types by which an OHTTP gateway answers in a target's place."""
_UNRECOGNIZED_TASK = DAP_ERROR_PREFIX + DapProblem.UNRECOGNIZED_TASK.value


@dataclass(frozen=True, slots=True)
class Problem:
    """What a problem document says: its type (a URI), title and detail, each empty where it has none."""

    type: str = ""
    title: str = ""
    detail: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the same request would be refused again: DAP's errors and refusals by a rule are, but for a task
        that the peer does not know yet."""
        return self.type.startswith((DAP_ERROR_PREFIX, REFUSAL_PREFIX)) and self.type != _UNRECOGNIZED_TASK


def read_problem(body: bytes) -> Problem:
    """The document in ``body``; an empty one for anything else, however deep or odd."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return Problem()
    if not isinstance(found, dict):
        return Problem()
    texts = {name: found.get(name) for name in ("type", "title", "detail")}
    return Problem(**{name: text for name, text in texts.items() if isinstance(text, str)})


def problem_type(body: bytes) -> str:
    """The type of the document in ``body``, or an empty text where it has none."""
    return read_problem(body).type


def party_of(body: bytes, target: str) -> str:
    """Who says what ``body`` says: ``target``, or the gateway before it. For a person: a target may claim the same."""
    return "the gateway" if problem_type(body) in OF_GATEWAY else target
