"""``tacit demo --model local``: which texts of a large domain are frequent."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infra.lab.commands.demo_played import played
from infra.views.terminal import notes
from tacit.methods.base.statistics import MAX_SYMBOLS_OF_ITEM
from tacit.methods.succinct_histogram.code import MAX_BITS

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from infra.lab.demo.results.result import DemoResult
    from infra.lab.demo.texts_run import TextsRun
    from infra.lab.demo.words import Texts

DEFAULT_EPSILON, MOST_EPSILON = {"tree": "4", "paper": "8"}, "8"
"""By the engine that searches the reports."""
DEFAULT_TOP = 20
TREE = "tree"
MOST_BYTES = {TREE: MAX_SYMBOLS_OF_ITEM, "paper": MAX_BITS // 8}
"""Of a text, by the engine."""
FITTING = 0.95
"""The share of the texts that a proposed domain holds."""


def local(
    input_file: Path | None,
    column: str | None,
    devices: int | None,
    epsilon: str | None,
    top: int | None,
    engine: str | None,
    out: Path,
    no_value: Collection[str] = (),
    *,
    json_output: bool,
) -> None:
    """Run the demo of the local model; print its result as JSON, or show it and write a report to ``out``."""
    from infra.lab.demo.local_run import LocalRun
    from infra.lab.demo.words import load_texts, load_wordfreq

    chosen = engine or TREE
    if chosen not in DEFAULT_EPSILON:
        raise typer.BadParameter(f"--engine takes {' or '.join(DEFAULT_EPSILON)}")
    wanted = epsilon_of(epsilon, DEFAULT_EPSILON[chosen], MOST_EPSILON)
    if input_file is None and column is not None:
        raise typer.BadParameter("--column goes with --input")
    if input_file is None:
        texts = load_wordfreq(devices)
    else:
        texts = _of_their_length(load_texts(input_file, column, devices, no_value), MOST_BYTES[chosen])
    played(
        lambda folder, stages: begun(LocalRun(texts, wanted, top or DEFAULT_TOP, chosen, folder, stages)),
        out,
        json_output=json_output,
    )


def begun(run: TextsRun) -> Coroutine[Any, Any, DemoResult]:
    """The run, of which is told beforehand what is to be known."""
    for words in run.notes:
        notes().print(words, style="yellow", highlight=False, markup=False, soft_wrap=True)
    return run.run()


def _of_their_length(texts: Texts, most: int) -> Texts:
    """The texts in the smallest domain, of up to ``most`` bytes, that holds nearly all of them: more is found in a
    smaller one, and what does not fit is counted. A real recipe states its length before any device is asked."""
    sizes = sorted(len(value.encode()) for value in texts.values if value.strip())
    length = max(1, min(most, sizes[math.ceil(FITTING * len(sizes)) - 1]))
    notes().print(f"proposed from the file: texts of up to {length} bytes", style="yellow")
    return replace(texts, encoder={**texts.encoder, "length": length})


def epsilon_of(text: str | None, default: str, most: str) -> Decimal:
    """Parse --epsilon. Raises ``BadParameter`` for anything but a number from 0.1 to ``most``."""
    try:
        found = Decimal(default if text is None else text)
    except InvalidOperation as error:
        raise typer.BadParameter("--epsilon takes a number such as 2 or 0.5") from error
    if not found.is_finite() or not Decimal("0.1") <= found <= Decimal(most):
        raise typer.BadParameter(f"--epsilon takes a number from 0.1 to {most}")
    return found
