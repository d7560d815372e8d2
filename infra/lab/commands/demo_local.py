"""``tacit demo --model local``: which texts of a large domain are frequent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from infra.lab.commands.demo_played import played
from infra.views.terminal import notes

if TYPE_CHECKING:
    from infra.lab.demo.words import Texts

DEFAULT_EPSILON, MOST_EPSILON = {"tree": "4", "paper": "8"}, "8"
"""By the engine that searches the reports."""
DEFAULT_TOP = 20
TREE = "tree"


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
    texts = load_wordfreq(devices) if input_file is None else load_texts(input_file, column, devices, no_value)
    if chosen != TREE:
        texts = _of_their_length(texts)
    played(
        lambda folder, stages: LocalRun(texts, wanted, top or DEFAULT_TOP, chosen, folder, stages).run(),
        out,
        json_output=json_output,
    )


def _of_their_length(texts: Texts) -> Texts:
    """The texts in the smallest domain that holds them all: the paper's histogram finds little in a larger one. A real
    recipe states its length before any device is asked."""
    longest = max(len(value.encode()) for value in texts.values)
    length = max(1, min(longest, int(texts.encoder["length"])))
    if "alphabet" in texts.encoder or length == texts.encoder["length"]:
        return texts
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
