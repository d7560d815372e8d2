"""Makes foreign text safe for a terminal: characters that would move the cursor, change colours or reverse the writing
direction are escaped or left out."""

from __future__ import annotations

from typing import Final

JOINERS: Final = "\u200c\u200d"
"""Zero-width characters that Unicode does not count as printable, but that many languages and emoji need."""


def visible(text: str) -> str:
    """Return ``text`` with every character that is not a letter, mark, sign or space escaped like ``\\u202e``."""
    if text.isprintable():
        return text
    return "".join(_visible(char) for char in text)


def harmless(text: str) -> str:
    """Return ``text`` without unprintable characters, except line ends, so that its width is what rich computes."""
    if text.isprintable():
        return text
    return "".join(char for char in text if char.isprintable() or char in JOINERS or char == "\n" or _is_space(char))


def escape(document: str) -> str:
    """Return the JSON ``document`` with unprintable characters, which only its strings can hold, as JSON escapes."""
    kept = "\n" + JOINERS
    return "".join(char if char.isprintable() or char in kept else _json_escape(char) for char in document)


def _visible(char: str) -> str:
    if char.isprintable() or char in JOINERS:
        return char
    if _is_space(char):
        return " "
    return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"


def _is_space(char: str) -> bool:
    import unicodedata  # half a megabyte, for rare characters

    return unicodedata.category(char) == "Zs"


def _json_escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at] << 8 | units[at + 1]:04x}" for at in range(0, len(units), 2))
