"""The demo's input for a question about a large domain: one text is one device.

The built-in texts are English words, drawn by how often they are used (PyPI package wordfreq). Own texts are the lines
of a file, or a column of a CSV file. Whatever is wrong with a file is one ``UsageError`` that says what to do.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import random
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.lab.devices.columns import read_column
from tacit.adapters.disk.files import open_file
from tacit.counting_words import plural
from tacit.errors import UsageError

MIN_DEVICES, DEFAULT_DEVICES, MAX_DEVICES = 1_000, 20_000, 100_000
LETTERS = "abcdefghijklmnopqrstuvwxyz'"
WORD_LENGTH, BYTES = 6, 64
WORDFREQ = "English words, drawn by how often they are used (wordfreq)"


@dataclass(frozen=True)
class Texts:
    """``values[i]`` is the text of device i; an empty one is none. ``encoder``: the domain of the question."""

    source: str
    metric: str
    encoder: dict[str, Any]
    values: tuple[str, ...]


def load_wordfreq(devices: int | None) -> Texts:
    """``devices`` words. Raises ``UsageError`` without the package."""
    if importlib.util.find_spec("wordfreq") is None:
        raise UsageError(
            "the built-in words need the package wordfreq; give --input FILE (one text a line), or install it with: "
            f"{sys.executable} -m pip install wordfreq"
        )
    from wordfreq import get_frequency_dict

    found: dict[str, float] = get_frequency_dict("en")
    number = _checked(DEFAULT_DEVICES if devices is None else devices, WORDFREQ)
    drawn = random.SystemRandom().choices(list(found), list(found.values()), k=number)
    encoder = {"kind": "strings", "length": WORD_LENGTH, "alphabet": LETTERS}
    return Texts(WORDFREQ, "word", encoder, tuple(drawn))


def load_texts(path: Path, column: str | None, devices: int | None, no_value: Collection[str] = ()) -> Texts:
    """The lines of ``path``, or with ``column`` the cells of that column, no more of them than there are to be
    ``devices``; a text of ``no_value`` is none. Raises ``UsageError``."""
    cells = _lines(path) if column is None else (cell for _, cell in read_column(path, column))
    taken = itertools.islice(cells, MAX_DEVICES if devices is None else devices)
    values = tuple("" if cell.strip() in no_value else cell for cell in taken)
    if devices is not None and len(values) < devices:
        raise UsageError(f"{path}: has {plural(len(values), 'row')}, --devices asks for {devices}; ask for fewer")
    _checked(len(values), str(path))
    if not any(value.strip() for value in values):
        raise UsageError(f"{path}: every row is empty")
    return Texts(str(path), column or "text", {"kind": "strings", "length": BYTES}, values)


def _checked(devices: int, source: str) -> int:
    if not MIN_DEVICES <= devices <= MAX_DEVICES:
        raise UsageError(f"{source}: the demo takes {MIN_DEVICES:,} to {MAX_DEVICES:,} devices, not {devices:,}")
    return devices


def _lines(path: Path) -> Iterator[str]:
    with open_file(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="\n") as text:
        try:
            for line in text:
                yield line.removesuffix("\n").removesuffix("\r")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: is not UTF-8; convert it first") from error
