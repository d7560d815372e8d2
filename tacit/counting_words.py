"""Numbers of things in words."""

from __future__ import annotations


def plural(number: int, noun: str) -> str:
    """A number with its noun, such as ``1 recipe`` or ``3,000 devices``; the plural takes an s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
