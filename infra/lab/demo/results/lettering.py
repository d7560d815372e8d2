"""Words in pictures: a font that has the letters, labels that fit, and a number where no installed font has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from infra.views.answer_table import shorten

FIRST = "DejaVu Sans"
BOXES = "Last Resort"
"""A font of boxes for every letter."""
REGULAR = (400, "normal", "regular")
LABEL_CELLS = 26
ROOM = 84
"""Cells of upright labels that fit side by side below a picture of the demo's size."""
TITLE_CELLS = 88


@dataclass(frozen=True)
class Lettering:
    """``families``: fonts to look for letters in, in this order. ``labels``: one a place, without letters that none of
    them has; ``numbered``: whether that made numbers of some. ``slanted``: whether they need to be."""

    families: list[str]
    labels: list[str]
    numbered: bool
    title: str

    @property
    def slanted(self) -> bool:
        """Whether the labels do not fit side by side."""
        return max(map(len, self.labels), default=0) * len(self.labels) > ROOM


def lettering(labels: Sequence[str], title: str) -> Lettering:
    """How ``labels`` and ``title`` are written in a picture, with the fonts that are installed."""
    short = [shorten(label, LABEL_CELLS) for label in labels]
    families, absent = fonts_for("".join([*short, title]))
    written = [f"no. {at}" if absent & set(label) else label for at, label in enumerate(short, 1)]
    head = "" if absent & set(title) else shorten(title, TITLE_CELLS)
    return Lettering(families, written, written != short, head)


def fonts_for(text: Iterable[str]) -> tuple[list[str], frozenset[str]]:
    """The families that have the letters of ``text``, the usual one first, and the letters that none has."""
    from matplotlib import font_manager

    letters = {char for char in text if not char.isspace()}
    families, absent = [FIRST], {char for char in letters if ord(char) not in _letters_of(_path_of(FIRST))}
    upright = (font for font in font_manager.fontManager.ttflist if font.style == "normal" and font.weight in REGULAR)
    for name in sorted({font.name for font in upright}):
        if not absent:
            break
        found = {char for char in absent if ord(char) in _letters_of(_path_of(name))}
        if found and not name.startswith(BOXES):
            families.append(name)
            absent -= found
    return families, frozenset(absent)


def _path_of(family: str) -> str:
    from matplotlib import font_manager

    return str(font_manager.findfont(font_manager.FontProperties(family=[family])))


@lru_cache(maxsize=512)
def _letters_of(path: str) -> frozenset[int]:
    """Code points that the font file has a picture for; none where it cannot be read."""
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(FT2Font(path).get_charmap())
    except (OSError, RuntimeError):
        return frozenset()
