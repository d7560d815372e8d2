"""``tacit figures``: the comparisons of the papers, redrawn from corrected formulas, and measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.lab.commands.progress import progress
from infra.stacks.command_options import AsJson
from infra.views.terminal import answers, print_json
from tacit.dp import parameters
from tacit.errors import UsageError
from tacit.extras import require_extra

if TYPE_CHECKING:
    from infra.lab.measure.curves import Budget
    from infra.lab.measure.figures import Figure


if TYPE_CHECKING:
    from infra.lab.measure.comparison import Measured

TABLE_WIDTH = 130
MOST_WATCHING = 1_000_000
app = typer.Typer()


@app.callback(invoke_without_command=True)
def figures(
    context: typer.Context,
    out: Annotated[Path | None, typer.Option("--out", help="Folder for PNG, SVG and CSV files.")] = None,
    population: Annotated[int, typer.Option("--population", min=20_000, help="Devices, N.")] = 100_000_000,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Total epsilon over all tasks.")] = 1.0,
    delta: Annotated[float, typer.Option("--delta", help="Total delta over all tasks.")] = 1e-6,
    measured: Annotated[
        bool,
        typer.Option("--measure", help="Measure points of the curves (N up to 200000); exit with 1 if one is off."),
    ] = False,
    runs: Annotated[int, typer.Option("--runs", min=2, max=100_000, help="Runs per measured point.")] = 40,
    as_json: AsJson = False,
) -> None:
    """Draw the figures of the papers, from corrected formulas and from measurements.

    Without a command, these are Figures 1, 2, 3, 5, 6, 7 and 8 of the SA2 paper: aggregation alone against samplable
    aggregation. They take about two minutes, because every noise level comes from the accountant. With --measure,
    simulated devices, both aggregators and the collector also measure the curves of K = 100 and T = 1, dense and
    sparse, in about one more minute.

    Example: tacit figures --out figures --population 100000 --measure
    """
    if context.invoked_subcommand is not None:
        return
    from infra.lab.measure.experiments import require_feasible
    from infra.lab.measure.figures import draw_up, write

    if out is None:
        raise typer.BadParameter("--out is needed")
    require_extra("the figures", "accounting,figures", "dp_accounting", "matplotlib", "scipy")
    budget = _budget(epsilon, delta)
    if measured:
        require_feasible(population)
    _make(out)
    with progress("accounting") as tell:
        drawn = draw_up(population, budget, tell)
    points = _measure(drawn, runs) if measured else []
    paths = [path for figure in drawn for path in write(_with_points(figure, points), budget, out)]
    paths += _write_measured(points, budget, out)
    if as_json:
        document = {"population": population, "files": [str(path) for path in paths]}
        print_json({**document, "measured": [one.document() for one in points]} if measured else document)
    else:
        _show(points)
        answers().print(f"N = {population:,}; {len(drawn)} figures as PNG, SVG and CSV in {out}")
    if not all(one.holds for one in points):
        raise typer.Exit(1)


@app.command("pan-privacy")
def pan_privacy(
    out: Annotated[Path, typer.Option("--out", help="Folder for PNG, SVG and CSV files.")],
    devices: Annotated[int, typer.Option("--devices", min=100, max=MOST_WATCHING, help="Devices, n; even.")] = 10_000,
    epsilon0: Annotated[float, typer.Option("--epsilon0", min=0.1, max=5.0, help="Local epsilon.")] = 1.0,
    as_json: AsJson = False,
) -> None:
    """Draw what watching an event for T steps costs: without cryptography, by local DP alone, and ours, measured.

    Ours runs the code of devices and of the server that opens answers, for T from 1 to 10,000; 10,000 devices take half
    a minute on two cores. Exits with 1 if a measured value is not within its sampling error.

    Example: tacit figures pan-privacy --out figures
    """
    require_extra("the figure", "figures", "matplotlib", "numpy", "scipy")
    from infra.lab.measure.pan_private import STEPS
    from infra.lab.measure.pan_private_drawing import row, table, verdict, write
    from infra.lab.measure.pan_private_runs import compare

    if devices % 2:
        raise typer.BadParameter("--devices must be even: half of them have an event")
    _make(out)
    with progress("measuring ") as tell:
        found = compare(STEPS, Decimal(repr(epsilon0)), devices, tell)
    paths = write(found, out)
    if as_json:
        print_json({"devices": devices, "files": [str(path) for path in paths], "rows": [row(one) for one in found]})
    else:
        console = answers(TABLE_WIDTH)
        console.print(table(found))
        console.print(verdict(found), soft_wrap=True)
        console.print(f"n = {devices:,}; the figure as PNG, SVG and CSV in {out}", soft_wrap=True)
    if not all(one.holds for one in found):
        raise typer.Exit(1)


@app.command("succinct")
def succinct(
    out: Annotated[Path, typer.Option("--out", help="Folder for PNG, SVG and CSV files.")],
    bits: Annotated[int, typer.Option("--bits", min=1, max=16, help="Bits of an item: 2^bits items.")] = 8,
    epsilon0: Annotated[float, typer.Option("--epsilon0", min=0.1, max=5.0, help="Local epsilon.")] = 1.0,
    runs: Annotated[int, typer.Option("--runs", min=2, max=1000, help="Runs per number of devices.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Draw the largest error of frequency oracles in the local model beside the theorems of succinct histograms.

    Affine hashing, which model local uses, and the paper's random projection, for 1,000 to 30,000 devices. Exits with 1
    if a measured error contradicts a theorem.

    Example: tacit figures succinct --out figures
    """
    require_extra("the figure", "figures", "matplotlib", "numpy")
    from infra.lab.measure.succinct import compare, table, write

    _make(out)
    with progress("measuring ") as tell:
        found = compare(bits, Decimal(repr(epsilon0)), runs, tell)
    paths = write(found, out)
    if as_json:
        print_json({"files": [str(path) for path in paths], "rows": [asdict(one) for one in found]})
    else:
        answers(TABLE_WIDTH).print(table(found))
        answers(TABLE_WIDTH).print(f"the figure as PNG, SVG and CSV in {out}", soft_wrap=True)
    if not all(one.holds for one in found):
        raise typer.Exit(1)


@app.command("shuffled")
def shuffled(
    out: Annotated[Path, typer.Option("--out", help="Folder for PNG, SVG and CSV files.")],
    runs: Annotated[int, typer.Option("--runs", min=4000, max=1_000_000, help="Runs per number of users.")] = 4000,
    populations: Annotated[int, typer.Option("--populations", min=2, max=1000, help="Runs per domain.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Draw how many users the shuffled model needs, beside the local model's rates, and how largely histograms err.

    Support identification, pointer chasing and pointer jumping at epsilon 1 and delta 1e-6, and the largest error of
    100,000 users' counts at delta 1e-8. Takes about two minutes. Exits with 1 if a measured number of users contradicts
    the computed one.

    Example: tacit figures shuffled --out figures
    """
    require_extra("the figures", "figures", "matplotlib")
    from infra.lab.measure.shuffled import DELTA, EPSILON, compare
    from infra.lab.measure.shuffled_drawing import errors_table, users_table, write_errors, write_users
    from infra.lab.measure.shuffled_errors import compare_errors

    _make(out)
    with progress("users     ") as tell:
        needed = compare(EPSILON, DELTA, runs, tell)
    with progress("errors    ") as tell:
        errors = compare_errors(populations, tell)
    paths = [*write_users(needed, EPSILON, DELTA, out), *write_errors(errors, out)]
    if as_json:
        users = [asdict(one) for one in needed]
        print_json({"files": [str(path) for path in paths], "users": users, "errors": [one.row() for one in errors]})
    else:
        console = answers(TABLE_WIDTH)
        console.print(users_table(needed))
        console.print(errors_table(errors))
        console.print(f"the figures as PNG, SVG and CSV in {out}", soft_wrap=True)
    if not all(one.holds for one in needed):
        raise typer.Exit(1)


def _measure(drawn: Sequence[Figure], runs: int) -> list[Measured]:
    """Measure both models at every point of the panels that have measurements."""
    from infra.lab.measure.experiments import experiments
    from infra.lab.measure.runs import measure

    asked = [
        experiment
        for figure in drawn
        for panel in figure.panels
        for experiment in experiments(f"Figure {figure.number}", panel.points)
    ]
    with progress("measuring ") as tell:
        return measure(asked, runs, tell)


def _with_points(figure: Figure, points: Sequence[Measured]) -> Figure:
    """Return the figure with each measured point in the panel to which it belongs."""
    mine = [one for one in points if one.experiment.panel.startswith(f"Figure {figure.number}:")]
    panels = (
        replace(panel, measured=tuple(one for one in mine if one.experiment.point in panel.points))
        for panel in figure.panels
    )
    return replace(figure, panels=tuple(panels))


def _write_measured(points: Sequence[Measured], budget: Budget, out: Path) -> list[Path]:
    if not points:
        return []
    from infra.lab.measure.comparison import write_csv
    from infra.lab.measure.drawing import draw

    return [*draw(points, budget, out), write_csv(points, out / "measured.csv")]


def _show(points: Sequence[Measured]) -> None:
    if not points:
        return
    from infra.lab.measure.drawing import table, verdict

    console = answers(TABLE_WIDTH)
    console.print(table(points))
    console.print(verdict(points), soft_wrap=True)


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror or 'cannot be written'}") from error


def _budget(epsilon: float, delta: float) -> Budget:
    from infra.lab.measure.curves import Budget

    try:
        parameters.probability(delta, "delta")
        if parameters.epsilon("epsilon", epsilon) == 0:
            raise UsageError("epsilon must be above 0")
        return Budget(epsilon, parameters.failure_probability(delta))
    except ValueError as error:
        raise UsageError(str(error)) from error
