"""Draws Figures 1-3 and 5-8 of the SA2 paper from the formulas of ``infra.lab.measure.curves``.

The paper gives the number of devices only inside its images; here every title has it. Measured points
(``infra.lab.measure``) are drawn on the curves to which they belong.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.lab.measure.curves import Budget, Point, dense, sparse
from tacit.adapters.disk.files import replacing

if TYPE_CHECKING:
    from infra.lab.measure.comparison import Measured
    from infra.lab.measure.experiments import Model

CELLS = (100, 1000, 10_000, 100_000)
TASKS = (1, 100, 1000)
GAMMAS = {6: 0.1, 7: 0.01, 8: 0.001}
COLOURS: dict[Model, str] = {"Agg": "#cc6677", "SampAgg": "#332288"}
_LINES = (
    ("nonpriv_unif", "NonPriv", "#777777", ":"),
    ("nonpriv_imp", "NonPriv, importance sampling", "#999933", "-."),
    ("agg", "Agg", COLOURS["Agg"], "--"),
    ("sampagg", "SampAgg", COLOURS["SampAgg"], "-"),
)
MARKERS: dict[Model, str] = {"Agg": "s", "SampAgg": "o"}


@dataclass(frozen=True)
class Panel:
    """One set of axes: the expected squared error over M, and the measured points."""

    title: str
    points: tuple[Point, ...]
    measured: tuple[Measured, ...] = ()


@dataclass(frozen=True)
class Figure:
    """One figure of the paper; panels fill rows of ``columns``."""

    number: int
    title: str
    columns: int
    panels: tuple[Panel, ...]


def message_grid(population: int, per_decade: int = 2) -> list[int]:
    """Return numbers of messages per task from 1,000 to a tenth of the population, evenly on a logarithmic axis."""
    if population < 20_000:
        raise ValueError("the figures need a population of at least 20000")
    messages, step = [], 0
    while (value := round(1000 * 10 ** (step / per_decade))) <= population // 10:
        messages.append(value)
        step += 1
    return messages


def draw_up(population: int, budget: Budget, progress: Callable[[float], None]) -> list[Figure]:
    """Compute every figure's points. ``progress`` is called with the share done."""
    grid = message_grid(population)
    done = iter(_shares(len(grid)))

    def panel(title: str, cells: int, tasks: int, gamma: float | None) -> Panel:
        points = []
        for messages in grid:
            one = (
                dense(budget, population, cells, tasks, messages)
                if gamma is None
                else sparse(budget, population, cells, gamma, tasks, messages)
            )
            points.append(one)
            progress(next(done))
        return Panel(title, tuple(points))

    first = (panel("dense", 1000, 1, None), *(panel(f"sparse, γ = {g}", 1000, 1, g) for g in (0.1, 0.01)))
    second = tuple(panel(f"T = {tasks}", 1000, tasks, None) for tasks in TASKS)
    third = tuple(panel(f"γ = 0.01, T = {tasks}", 1000, tasks, 0.01) for tasks in TASKS)
    figures = [
        Figure(1, "Histogram, K = 1000, T = 1", 3, first),
        Figure(2, "Dense histogram, K = 1000", 3, second),
        Figure(3, "Sparse histogram, K = 1000", 3, third),
    ]
    for number, gamma in ((5, None), *GAMMAS.items()):
        title = "Dense histogram" if gamma is None else f"Sparse histogram, γ = {gamma}"
        panels = tuple(panel(f"K = {k}, T = {t}", k, t, gamma) for k in CELLS for t in TASKS)
        figures.append(Figure(number, title, len(TASKS), panels))
    return figures


def _shares(grid: int) -> Iterator[float]:
    total = grid * (9 + 4 * len(CELLS) * len(TASKS))
    yield from (done / total for done in range(1, total + 1))


def write(figure: Figure, budget: Budget, folder: Path) -> list[Path]:
    """Write one figure as PNG, SVG and CSV; returns the paths."""
    from matplotlib.figure import Figure as Canvas

    rows = -(-len(figure.panels) // figure.columns)
    canvas = Canvas(figsize=(4.2 * figure.columns, 3.1 * rows + 0.8), layout="constrained")
    axes = canvas.subplots(rows, figure.columns, squeeze=False, sharex=True)
    for place, panel in zip(axes.flat, figure.panels, strict=False):
        plot(place, panel)
    for place in axes[-1]:
        place.set_xlabel("messages per task, M")
    for row in axes:
        row[0].set_ylabel("expected squared error")
    handles = {
        label: handle for place in axes.flat for handle, label in zip(*place.get_legend_handles_labels(), strict=True)
    }
    canvas.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=len(handles), frameon=False)
    population = figure.panels[0].points[0].population
    canvas.suptitle(
        f"Figure {figure.number}: {figure.title}   N = {population:,}, ε = {budget.epsilon:g}, δ = {budget.delta:g}"
    )
    paths = [folder / f"figure{figure.number}.{kind}" for kind in ("png", "svg", "csv")]
    for path in paths[:2]:
        with replacing(path) as draft:
            canvas.savefig(draft, dpi=130)
    _write_csv(paths[2], [point for panel in figure.panels for point in panel.points])
    return paths


def plot(place: Any, panel: Panel) -> None:
    """Draw a panel's curves, and its measured points with two standard errors on either side."""
    across = [point.messages for point in panel.points]
    place.set_xlim(across[0] / 1.25, across[-1] * 1.25)
    for name, label, colour, style in _LINES:
        values = [getattr(point, name) for point in panel.points]
        if values[0] is not None:
            place.loglog(across, values, style, color=colour, label=label, linewidth=1.8)
    for model, marker in MARKERS.items():
        found = [one for one in panel.measured if one.experiment.model == model]
        if found:
            marks(place, found, [one.mean for one in found], [2 * one.stderr for one in found], marker)
    place.set_title(panel.title, fontsize=10)
    place.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)


def marks(
    place: Any, found: Sequence[Measured], values: list[float], errors: list[float], marker: str, aside: float = 1.0
) -> None:
    """Draw one model's measured points at their M times ``aside``."""
    model = found[0].experiment.model
    across = [one.experiment.point.messages * aside for one in found]
    place.errorbar(
        across, values, yerr=errors, fmt=marker, markersize=6, capsize=4,
        color=COLOURS[model], markerfacecolor="white", markeredgewidth=1.5, elinewidth=1.5, zorder=3,
        label=f"{model}, measured (± 2 s.e.)",
    )  # fmt: skip


def _write_csv(path: Path, points: Sequence[Point]) -> None:
    names = [field.name for field in fields(Point)]
    with replacing(path) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, "agg_over_sampagg"])
        for point in points:
            values = [getattr(point, name) for name in names]
            writer.writerow(["" if value is None else value for value in [*values, point.gain]])
