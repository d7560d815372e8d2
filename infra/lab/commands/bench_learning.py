"""``tacit bench learning``: accuracy against epsilon, beside central DP-SGD and training without privacy."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.lab.commands.progress import draw, progress
from infra.stacks.command_options import AsJson, read_file
from infra.views.terminal import answers, print_json
from tacit.errors import UsageError
from tacit.extras import require_extra

if TYPE_CHECKING:
    from tacit.learning.plan import Plan

WIDTH = 130
"""Cells that the table needs."""
Peer = Annotated[
    Path | None,
    typer.Option(
        "--peer",
        metavar="FILE",
        help="Instead, train once on digits at the first epsilon, and write devices, coins and results to this new "
        ".npz file for benchmarks/flower_fedavg.py.",
    ),
]


def learning(
    as_json: AsJson = False,
    devices: Annotated[int, typer.Option("--devices", min=1000, max=1_000_000, help="Simulated devices.")] = 10_000,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=100, help="Populations; medians are shown.")] = 5,
    epsilons: Annotated[
        list[float] | None,
        typer.Option("--epsilon", min=0.1, max=20, help="Of the whole run; may be repeated (default: 1, 2, 4)."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="Train this plan (default: the example's).")
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option("--examples", metavar="FILE", help="CSV or JSON as of tacit learn run --test (default: digits)."),
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the figure into this PNG or SVG file.")] = None,
    peer: Peer = None,
) -> None:
    """Train on handwritten digits in memory: noise shares beside central DP-SGD and no privacy, at delta 1e-6.

    Every device has eight examples of few classes and tosses a coin of 0.05 in each of 30 rounds (or as a plan says).
    The last lines of each epsilon let some devices lie as badly as their proofs let through, noise included: of those
    that take part, or of all, in every round. "one device": the length of what one can add, in norms.
    --examples, with a plan for them, are other examples: a fifth of them is kept for testing.

    Example: tacit bench learning --seeds 1 --epsilon 2
    """
    require_extra("this measurement", "bench", "numpy", *(("matplotlib",) if plot else ()))
    from infra.lab.learning import drawing
    from infra.lab.learning.bench import EPSILONS, PLAN, document, measured
    from infra.lab.learning.population import data_set
    from tacit.learning.plan import Plan

    base = PLAN if plan is None else Plan.read(read_file(plan), str(plan))
    spec = base.training.architecture
    if peer is not None and examples is not None:
        raise UsageError("--peer is of the digits; leave --examples away")
    if peer is not None:
        _write_peer(peer, devices, (epsilons or EPSILONS)[0], base)
        return
    data = None if examples is None else data_set(spec, read_file(examples), str(examples))
    with progress("training") as tell:
        lines = list(measured(devices, epsilons or EPSILONS, seeds, tell, base, data))
    if as_json:
        print_json(document(lines, devices, base, data))
    else:
        answers(WIDTH).print(drawing.table(lines))
    if plot is not None:
        draw(partial(drawing.write, lines), "--plot", plot)


def _write_peer(path: Path, devices: int, epsilon: float, plan: Plan) -> None:
    """Write what another framework needs to train the same, and print what this one did."""
    from infra.lab.learning.peers import written

    if path.suffix != ".npz" or path.exists() or not path.parent.is_dir():
        raise UsageError(f"{path}: --peer takes a new file, called .npz, in a folder that exists")
    print_json(written(path, devices, epsilon, plan))
