"""Lines of a text, as files and protocols mean them.

``str.splitlines`` also ends a line at U+2028, U+2029, U+0085, form feeds and others, which stand within people's texts:
a row would be cut in two, and each one after it taken for its neighbour. It is used nowhere in Tacit.
"""

from __future__ import annotations


def lines_of(text: str) -> list[str]:
    """The lines of ``text``, which ``\\n`` or ``\\r\\n`` ends and nothing else; the last one may lack its end. None for
    an empty text."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
