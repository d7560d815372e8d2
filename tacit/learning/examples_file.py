"""Examples in a file: what a model is tried on.

CSV: a line for each example, with its features and then its class, without a header. JSON: an array of such rows, or
one flat array of all numbers, as devices keep them (``tacit.learning.local.examples_of``).
"""

from __future__ import annotations

import json
from typing import Any

from tacit.counting_words import plural
from tacit.errors import DecodeError
from tacit.learning.architectures import architecture_of
from tacit.learning.local import Examples, examples_of
from tacit.lines import lines_of
from tacit.recipe.training import ArchitectureSpec


def examples_in(spec: ArchitectureSpec, data: bytes, name: str) -> Examples:
    """The examples for models of ``spec`` in the ``data`` of a file called ``name``. Raises ``DecodeError``, which
    names the file and the line or row, and ``UsageError`` as ``architecture_of``."""
    inputs = architecture_of(spec).inputs
    is_json = data.lstrip()[:1] == b"["
    what, rows = ("row", _json_rows(data, name, inputs + 1)) if is_json else ("line", _csv_rows(data, name))
    if not rows:
        raise DecodeError(f"{name}: there are no examples")
    for number, row in enumerate(rows, start=1):
        if len(row) != inputs + 1:
            wanted = f"{inputs + 1}: {inputs} features and the class"
            raise DecodeError(f"{name}: {what} {number} has {plural(len(row), 'number')}, and an example {wanted}")
    try:
        return examples_of(spec, [number for row in rows for number in row])
    except DecodeError as error:
        raise DecodeError(f"{name}: {error}") from error


def _json_rows(data: bytes, name: str, width: int) -> list[list[Any]]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{name}: not JSON in UTF-8") from error
    if any(isinstance(one, list) for one in found):
        return [one if isinstance(one, list) else [one] for one in found]
    return [found[at : at + width] for at in range(0, len(found), width)]


def _csv_rows(data: bytes, name: str) -> list[list[float]]:
    rows = []
    try:
        lines = lines_of(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise DecodeError(f"{name}: not UTF-8 text") from error
    for number, line in enumerate(lines, start=1):
        try:
            rows.append([float(cell) for cell in line.split(",")])
        except ValueError as error:
            raise DecodeError(f"{name}: line {number} is not numbers with commas between") from error
    return rows
