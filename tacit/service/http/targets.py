"""What the request line of a listener may name (RFC 9112, section 3.2): a path, or the same in absolute form, whose
authority then stands for the Host field."""

from __future__ import annotations

import re
from collections.abc import Sequence

AUTHORITY = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]+)(?::[0-9]*)?"
"""A host with or without a port; no user information, which RFC 9110 section 4.2.4 takes for an error."""
_HOST = re.compile(rf"(?:{AUTHORITY})?")
ABSOLUTE = rf"(?i:https?)://({AUTHORITY})((?:/[!\"$->@-~]*)?(?:\?[!\"$-~]*)?)"
"""The absolute form of a path, with its query: its authority, and the rest."""


def divide_target(target: str) -> tuple[str, str | None]:
    """The path (with its query) that a request target names, and the authority where it is in absolute form. Raises
    ``ValueError`` for any other target."""
    if target.startswith("/") or target == "*":
        return target, None
    match = re.fullmatch(ABSOLUTE, target)
    if match is None:
        raise ValueError("the request target is neither a path nor the URL of one")
    path = match[2]
    return path if path.startswith("/") else f"/{path}", match[1]


def is_host(values: Sequence[str]) -> bool:
    """Whether these are the values of one Host field that is valid (RFC 9112, section 3.2; it may be empty)."""
    return len(values) == 1 and _HOST.fullmatch(values[0]) is not None
