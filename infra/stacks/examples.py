"""Examples for the devices of a local stack: the lines of one file, dealt out."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from infra.stacks.agents import DATA_NAME
from tacit.adapters.disk.files import read_bounded, replace_file
from tacit.counting_words import plural
from tacit.errors import UsageError
from tacit.lines import lines_of

MOST_BYTES: Final = 64 << 20
"""Largest accepted file of examples, in bytes."""
MOST_CHARACTERS: Final = 1 << 17
"""Of a device's cell: the longest that a CSV file's reader takes."""
_METRIC: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class ExampleShards:
    """What each device has: ``cells``, one for each, below the name of the ``metric``."""

    metric: str
    cells: tuple[str, ...] = field(repr=False)


def deal_examples(path: Path | None, devices: int) -> ExampleShards | None:
    """The examples of a CSV file without a header (a line for each: its numbers and its class), one after another to
    each of the ``devices``. The metric has the file's name. None without a file. Raises ``UsageError``."""
    if path is None:
        return None
    metric = path.stem
    if not _METRIC.fullmatch(metric):
        raise UsageError(f"{path}: the file is to be named after the plan's metric, as digits.csv")
    lines = _lines(path)
    if not 1 <= devices <= len(lines):
        raise UsageError(
            f"{path}: {plural(len(lines), 'example')} for {plural(devices, 'device')}; "
            f"give each one: --agents {len(lines)}"
        )
    cells = tuple(",".join(lines[number::devices]) for number in range(devices))
    longest = max(map(len, cells))
    if longest > MOST_CHARACTERS:
        least = -(-devices * longest // MOST_CHARACTERS)
        raise UsageError(f"{path}: a device would have {longest} characters of examples, and {MOST_CHARACTERS} fit; "
                         f"take about {least} --agents, or fewer lines")  # fmt: skip
    return ExampleShards(metric, cells)


def give_examples(folders: Sequence[Path], examples: ExampleShards) -> None:
    """Put each device's examples into a column of its data, which replaces one of that name. Raises ``UsageError``."""
    for folder, cell in zip(folders, examples.cells, strict=True):
        path = folder / DATA_NAME
        try:
            rows = list(csv.reader(io.StringIO(read_bounded(path, MOST_BYTES).decode("utf-8-sig"))))
        except (ValueError, csv.Error) as error:
            raise UsageError(f"{path}: not a CSV file in UTF-8") from error
        header, row = rows[0] if rows else [], rows[-1] if len(rows) > 1 else []
        kept = {name: value for name, value in zip(header, row, strict=False) if name != examples.metric}
        written = io.StringIO()
        csv.writer(written, lineterminator="\n").writerows(([*kept, examples.metric], [*kept.values(), cell]))
        replace_file(path, written.getvalue().encode())


def _lines(path: Path) -> list[str]:
    """The examples of a file, without its blank lines. Raises ``UsageError`` unless all have as many numbers."""
    try:
        text = read_bounded(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text") from error
    found, width = list[str](), 0
    for number, line in enumerate(lines_of(text), start=1):
        if not line.strip():
            continue
        try:
            cells = [float(cell) for cell in line.split(",")]
        except ValueError as error:
            raise UsageError(f"{path}: line {number} is not numbers with commas between") from error
        width = width or len(cells)
        if len(cells) != width:
            raise UsageError(f"{path}: line {number} has {plural(len(cells), 'number')}, and those before have {width}")
        found.append(line.strip())
    return found
