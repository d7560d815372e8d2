"""Problem documents (RFC 9457) with which a peer answered: bytes that may be anything.

This is the only module that reads them. A member whose value does not have the type that RFC 9457 section 3.1 gives it
is ignored, as that section requires, and so is anything that is not a problem document.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

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
"""Problem types with which an OHTTP gateway answers in place of a target."""


@dataclass(frozen=True, slots=True)
class Problem:
    """The contents of a problem document: its type (a URI), title and detail, each empty where it has none."""

    type: str = ""
    title: str = ""
    detail: str = ""


def read_problem(body: bytes) -> Problem:
    """The document in ``body``; an empty one for anything else, however deeply nested or malformed."""
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
    """Which party made the statement in ``body``: ``target``, or the gateway before it. For display only: a target may
    use the same types."""
    return "the gateway" if problem_type(body) in OF_GATEWAY else target
