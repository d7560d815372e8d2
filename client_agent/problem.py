"""Reads the one member of a problem document that a device acts on."""

from __future__ import annotations

import json


def problem_type(body: bytes) -> str:
    """The type of an RFC 9457 document, or an empty text for anything else."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    found = document.get("type") if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""
