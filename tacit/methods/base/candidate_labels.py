"""How the labels of a round's categories look: those of candidates, and those for which there is no candidate."""

from __future__ import annotations

from typing import Final

QUOTE: Final = '"'
"""How the label of a candidate begins."""
UNUSED: Final = "(unused"
"""How the label of a category without a candidate begins."""


def unused_label(place: int) -> str:
    """The label of a round's category at ``place`` (from 1 on), for which there is no candidate."""
    return f"{UNUSED} {place})"


def printable(text: str) -> str:
    """``text`` on one line, with backslashes and all characters that are not printable escaped as in Python."""
    return "".join(
        char if char.isprintable() and char != "\\" else char.encode("unicode_escape").decode() for char in text
    )
