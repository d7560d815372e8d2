"""Measured points beside their curves: on the terminal, and as one picture that shows the ratios too."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from infra.lab.measure.comparison import FURTHEST, Measured, false_alarm
from infra.lab.measure.curves import Budget, Point, dense, sparse
from infra.lab.measure.experiments import Model
from infra.lab.measure.figures import MARKERS, Panel, marks, message_grid, plot
from infra.views.terminal import plain_table
from tacit.adapters.disk.files import replacing

PER_DECADE = 6
ASIDE: dict[Model, float] = {"Agg": 0.97, "SampAgg": 1.03}
"""Factors by which the models' ratios at the same M are drawn apart."""
INK = "#343a40"


def table(found: Sequence[Measured]) -> Table:
    """Make the table with a row per point; its errors are expected squared errors."""
    shown = plain_table("panel", "M", "model", "noise σ", "curve", "expected", "measured", "± s.e.", "z", "")
    for one in found:
        experiment = one.experiment
        mark = Text("ok", style="green") if one.holds else Text("off", style="bold red")
        shown.add_row(
            experiment.panel,
            f"{experiment.point.messages:,}",
            experiment.model,
            f"{experiment.sigma:.3f} ({experiment.sigma_achieved:.3f})",
            *(f"{value:.3e}" for value in (experiment.curve, experiment.expected, one.mean)),
            f"{one.stderr:.1e}",
            f"{one.z:+.1f}",
            mark,
        )
    return shown


def draw(found: Sequence[Measured], budget: Budget, folder: Path) -> list[Path]:
    """Write ``measured.png`` and ``measured.svg``: curves and points above, measured over expected below."""
    from matplotlib.figure import Figure as Canvas

    names = list(dict.fromkeys(one.experiment.panel for one in found))
    canvas = Canvas(figsize=(5.6 * len(names), 6.6), layout="constrained")
    rows = canvas.subplots(2, len(names), squeeze=False, sharex=True, sharey="row", height_ratios=(2, 1))
    for name, above, below in zip(names, *rows, strict=True):
        mine = tuple(one for one in found if one.experiment.panel == name)
        plot(above, Panel(name, curve_of(mine[0].experiment.point, budget), mine))
        _ratios(below, mine)
    rows[0][0].set_ylabel("expected squared error")
    rows[1][0].set_ylabel("measured / expected")
    labelled = zip(*rows[0][-1].get_legend_handles_labels(), strict=True)
    handles = {label: handle for handle, label in labelled}
    canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)
    canvas.suptitle(
        f"Runs of the pipeline on the curves   N = {mine[0].experiment.point.population:,}, "
        f"ε = {budget.epsilon:g}, δ = {budget.delta:g}, {len(mine[0].errors)} runs a point"
    )
    paths = [folder / f"measured.{kind}" for kind in ("png", "svg")]
    for path in paths:
        with replacing(path) as draft:
            canvas.savefig(draft, dpi=130)
    return paths


def curve_of(point: Point, budget: Budget) -> tuple[Point, ...]:
    """Compute the curves on which a measured point lies, at a finer grid of M."""
    population, cells, tasks = point.population, point.cells, point.tasks
    grid = message_grid(population, PER_DECADE)
    if point.gamma is None:
        return tuple(dense(budget, population, cells, tasks, messages) for messages in grid)
    return tuple(sparse(budget, population, cells, point.gamma, tasks, messages) for messages in grid)


def _ratios(place: Any, found: Sequence[Measured]) -> None:
    place.axhline(1.0, color=INK, linewidth=1.0)
    for model, marker in MARKERS.items():
        mine = [one for one in found if one.experiment.model == model]
        expected = [one.experiment.expected for one in mine]
        means = [one.mean / by for one, by in zip(mine, expected, strict=True)]
        errors = [2 * one.stderr / by for one, by in zip(mine, expected, strict=True)]
        marks(place, mine, means, errors, marker, ASIDE[model])
    place.set_xlabel("messages, M")
    place.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)


def verdict(found: Sequence[Measured]) -> str:
    """Return one sentence about all points."""
    off = sum(not one.holds for one in found)
    said = f"{off} of {len(found)} points are" if off else "no point is"
    chance = f"the probability that one is by chance is {false_alarm(found):.0e}"
    return f"{said} more than {FURTHEST:g} standard errors from what is expected; {chance}"
