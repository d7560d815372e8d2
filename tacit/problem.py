"""Problem documents (RFC 9457) that a peer answered with: bytes that may be anything."""

from __future__ import annotations

import json
from typing import Any

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


def party_of(body: bytes, target: str) -> str:
    """Who says what ``body`` says: ``target``, or the gateway before it. For a person: a target may claim the same."""
    return "the gateway" if problem_type(body) in OF_GATEWAY else target


def problem_members(body: bytes) -> dict[str, Any]:
    """The members of the document in ``body``; empty for anything else, however deep or odd."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def problem_type(body: bytes) -> str:
    """The type of the document, or an empty text where it has none."""
    found = problem_members(body).get("type")
    return found if isinstance(found, str) else ""
