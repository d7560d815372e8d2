"""``tacit demo --model local``: which texts of a large domain are frequent."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from infra.lab.commands.demo_watched import in_a_fresh_folder
from infra.views.terminal import answers, notes, print_json

if TYPE_CHECKING:
    from infra.lab.demo.local_result import LocalResult
    from infra.lab.demo.words import Texts

DEFAULT_EPSILON = {"tree": Decimal(4), "paper": Decimal(8)}
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
    *,
    json_output: bool,
) -> None:
    """Run the demo of the local model; print its result as JSON, or show it and write a report to ``out``."""
    from infra.lab.demo.local_run import LocalRun
    from infra.lab.demo.report import prepare_report, write_report
    from infra.lab.demo.view import Stages, show_local
    from infra.lab.demo.words import load_texts, load_wordfreq

    chosen = engine or TREE
    if chosen not in DEFAULT_EPSILON:
        raise typer.BadParameter(f"--engine takes {' or '.join(DEFAULT_EPSILON)}")
    wanted = _epsilon(epsilon, chosen)
    if input_file is None and column is not None:
        raise typer.BadParameter("--column goes with --input")
    texts = load_wordfreq(devices) if input_file is None else load_texts(input_file, column, devices)
    if chosen != TREE:
        texts = _of_their_length(texts)
    if not json_output:
        prepare_report(out)
    stages = Stages(notes())
    result = cast(
        "LocalResult",
        in_a_fresh_folder(
            stages, lambda folder: LocalRun(texts, wanted, top or DEFAULT_TOP, chosen, folder, stages).run()
        ),
    )
    if json_output:
        print_json(result.document())
        return
    show_local(result, answers(), write_report(result, out))


def _of_their_length(texts: Texts) -> Texts:
    """The texts in the smallest domain that holds them all: the paper's histogram finds little in a larger one. A real
    recipe states its length before any device is asked."""
    longest = max(len(value.encode()) for value in texts.values)
    length = max(1, min(longest, int(texts.encoder["length"])))
    if "alphabet" in texts.encoder or length == texts.encoder["length"]:
        return texts
    notes().print(f"proposed from the file: texts of up to {length} bytes", style="yellow")
    return replace(texts, encoder={**texts.encoder, "length": length})


def _epsilon(text: str | None, engine: str) -> Decimal:
    try:
        found = DEFAULT_EPSILON[engine] if text is None else Decimal(text)
    except InvalidOperation as error:
        raise typer.BadParameter("--epsilon takes a number such as 2 or 0.5") from error
    if not Decimal("0.1") <= found <= 8:
        raise typer.BadParameter("--epsilon takes a number from 0.1 to 8")
    return found
