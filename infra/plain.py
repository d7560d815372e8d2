"""Words that others wrote, for a terminal: what would move its cursor, change its colours or turn words round is shown
by its number, or left out, and never sent."""

from __future__ import annotations

import unicodedata
from typing import Final

JOINERS: Final = "\u200c\u200d"
"""Printable in no table of Unicode's, and part of how words of many languages and emoji are written."""


def visible(text: str) -> str:
    """``text`` with every character that is no letter, mark, sign or space as ``\\u202e``: nothing is hidden in it."""
    if text.isprintable():
        return text
    return "".join(_visible(char) for char in text)


def harmless(text: str) -> str:
    """``text`` without such characters, line ends aside; as wide as rich takes it to be."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable() or char in JOINERS or char == "\n" or _is_space(char))


def escaped(document: str) -> str:
    """The same JSON ``document`` with such characters, which stand in its strings alone, as JSON's own escapes."""
    kept = "\n" + JOINERS
    return "".join(char if char.isprintable() or char in kept else _json_escape(char) for char in document)


def _visible(char: str) -> str:
    if char.isprintable() or char in JOINERS:
        return char
    if _is_space(char):
        return " "
    return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"


def _is_space(char: str) -> bool:
    return unicodedata.category(char) == "Zs"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
