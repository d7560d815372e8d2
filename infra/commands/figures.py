"""``tacit figures``: the SA2 paper's comparison, drawn again from corrected formulas."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from infra.figures import draw_up, write
from infra.places import AsJson
from infra.terminal import answers, notes, print_json
from tacit.accounting.accountants import require_library
from tacit.accounting.curves import Budget
from tacit.dp import parameters
from tacit.errors import UsageError


def figures(
    out: Annotated[Path, typer.Option("--out", help="Folder for PNG, SVG and CSV files.")],
    population: Annotated[int, typer.Option("--population", min=20_000, help="Devices, N.")] = 100_000_000,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Total epsilon over all tasks.")] = 1.0,
    delta: Annotated[float, typer.Option("--delta", help="Total delta over all tasks.")] = 1e-6,
    as_json: AsJson = False,
) -> None:
    """Draw Figures 1, 2, 3, 5, 6, 7 and 8 of the SA2 paper: aggregation alone against samplable aggregation.

    Takes about two minutes: every noise level comes from the accountant. Example: tacit figures --out figures
    """
    require_library()
    budget = _budget(epsilon, delta)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or 'cannot be written'}") from error
    columns = (TextColumn("accounting"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=notes()) as progress:
        task = progress.add_task("", total=1.0)
        found = draw_up(population, budget, lambda share: progress.update(task, completed=share))
    paths = [path for figure in found for path in write(figure, budget, out)]
    if as_json:
        print_json({"population": population, "files": [str(path) for path in paths]})
        return
    answers().print(f"N = {population:,}; {len(found)} figures as PNG, SVG and CSV in {out}")


def _budget(epsilon: float, delta: float) -> Budget:
    try:
        parameters.probability(delta, "delta")
        if parameters.epsilon("epsilon", epsilon) == 0:
            raise UsageError("epsilon must be above 0")
        return Budget(epsilon, parameters.failure_probability(delta))
    except ValueError as error:
        raise UsageError(str(error)) from error
