"""``tacit bench accuracy``: how accurate each way to ask is, beside peers and targets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from infra.lab.bench import history
from infra.lab.commands.progress import draw, progress
from infra.stacks.command_options import AsJson
from infra.views.terminal import answers, notes, print_json
from tacit.extras import require_extra

WIDTH = 160
"""Cells that the table needs."""
FOLDER = history.FOLDER / "accuracy"


def accuracy(
    as_json: AsJson = False,
    save: Annotated[
        bool, typer.Option("--save", help="Keep the document as benchmarks/accuracy/DATE-COMMIT.json.")
    ] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Few devices and populations: whether it works.")] = False,
    parts: Annotated[
        list[str] | None,
        typer.Option("--part", metavar="NAME", help="recall, oracle, shuffled or cost (default: all)."),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the figures into this PNG or SVG file.")] = None,
) -> None:
    """Measure the accuracy of the local and the shuffled model over 20 populations, and the cost of a search.

    Top-10 recall beside the package pure-ldp (extra peers), errors of the oracle beside theory, errors and false
    positives of shuffled histograms. All parts take about 25 minutes on one free core, ten of them for the peer. A star
    marks a difference from the peer that is significant at 0.05, a tilde one that is not; "limit" is what the best
    search could reach, and "within error" at most two standard errors beyond the target.

    Example: tacit bench accuracy --quick --part oracle
    """
    require_extra("this measurement", "bench", "numpy", *(("matplotlib",) if plot else ()))
    from infra.lab.bench.accuracy import peers
    from infra.lab.bench.accuracy.plot import write
    from infra.lab.bench.accuracy.rows import RECALL, table
    from infra.lab.bench.accuracy.run import FULL, QUICK, accuracy_parts, measured
    from infra.lab.bench.rows import document

    lacking = peers.why_not()
    every = accuracy_parts(QUICK if quick else FULL, with_peer=lacking is None)
    if unknown := set(parts or ()) - set(every):
        raise typer.BadParameter(f"--part takes {', '.join(every)}, not {', '.join(sorted(unknown))}")
    chosen = [part for name, some in every.items() if not parts or name in parts for part in some]
    with progress("measuring") as tell:
        rows = list(measured(chosen, tell))
    if lacking is not None and any(row.metric == RECALL for row in rows):
        notes().print(lacking, style="yellow", soft_wrap=True)
    if as_json:
        print_json(document(rows))
    else:
        answers(WIDTH).print(table(rows))
    if save:
        notes().print(f"saved as {history.save(rows, FOLDER)}")
    if plot is not None:
        draw(partial(write, rows), "--plot", plot)
