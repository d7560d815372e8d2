"""The figures of the shuffled model, as PNG and SVG, their numbers as CSV, and both as tables."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from infra.lab.measure.shuffled import CHASING, JUMPING, SUPPORT, Needed
from infra.lab.measure.shuffled_errors import DELTA, EPSILON, USERS, Largest
from infra.lab.shuffled.variants import CENTRAL, PUBLISHED, THRESHOLD, UNBIASED, ZSUM
from infra.views.terminal import plain_table
from tacit.adapters.disk.files import replacing

AXES = {
    SUPPORT: ("support identification, 8 values", "bits of the domain, log2 d"),
    CHASING: ("pointer chasing, k = 2", "length of the permutations, l"),
    JUMPING: ("pointer jumping, s = h^4", "height of the tree, h"),
}
CURVES = (
    ("computed", "zsum, computed", "C0-"),
    ("tuned", "threshold for the domain", "C2--"),
    ("flipped", "flipped noise and threshold", "C1-."),
    ("central", "central model (stability)", "C7:"),
    ("published", "zsum, the paper's constants", "C4-"),
    ("local", "local model, rate (constant 1)", "C3--"),
)
"""A number of a case, how it is called, and its line."""
NAMES = {
    PUBLISHED: ("zsum, the paper's constant", "C4^-"),
    ZSUM: ("zsum, exact", "C0o-"),
    THRESHOLD: ("same noise, threshold", "C2s--"),
    UNBIASED: ("same noise, unbiased", "C1d-."),
    CENTRAL: ("central model (stability)", "C7x:"),
}


def users_table(found: Sequence[Needed]) -> Table:
    """A row for each case: the users that it was measured to need, and those that each rule computes; empty where none
    applies."""
    shown = plain_table(
        "problem", "parameter", "values", "measured", "computed", "tuned", "flipped", "central", "paper", "local rate"
    )
    for one in found:
        numbers = (one.measured, one.computed, one.tuned, one.flipped, one.central, one.published, one.local)
        cells = ("" if number is None else f"{number:,.0f}" for number in numbers)
        shown.add_row(one.problem, f"{one.parameter:,}", str(one.values), *cells)
    return shown


def errors_table(found: Sequence[Largest]) -> Table:
    """Mean largest error and its standard error, a row for each number of categories and a column for each variant."""
    shown = plain_table("categories", *(name for name, _ in NAMES.values()))
    for one in found:
        cells = (f"{one.means[name]:,.1f} ± {one.stderrs[name]:.1f}" for name in NAMES)
        shown.add_row(f"{one.categories:,}", *cells)
    return shown


def write_users(found: Sequence[Needed], epsilon: float, delta: float, out: Path) -> list[Path]:
    """Draw the users that are needed, a panel for each problem, into ``out``; its files."""
    from matplotlib.figure import Figure

    problems = [problem for problem in AXES if any(one.problem == problem for one in found)]
    figure = Figure(figsize=(4.6 * len(problems) + 0.4, 5.2), layout="constrained")
    panels = figure.subplots(1, len(problems), squeeze=False, sharey=True)[0]
    for axes, problem in zip(panels, problems, strict=True):
        _panel(axes, problem, [one for one in found if one.problem == problem])
    panels[0].set_ylabel("users")
    figure.suptitle(f"Users for a success of 99 %, epsilon {epsilon:g} and delta {delta:g} by replacement")
    handles = {
        label: handle for axes in panels for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=4, frameon=False)
    return _saved(figure, out, "shuffled-users", [asdict(one) for one in found])


def _panel(axes: Any, problem: str, found: Sequence[Needed]) -> None:
    at = [one.parameter for one in found]
    for name, label, style in CURVES:
        values = [getattr(one, name) for one in found]
        if any(value is not None for value in values):
            axes.plot(at, [math.nan if value is None else value for value in values], style, label=label)
    axes.plot(at, [one.measured for one in found], "C0o", label="zsum, measured", zorder=3)
    title, along = AXES[problem]
    axes.set(yscale="log", xlabel=along, title=title)
    axes.set_xscale("log", base=2)
    axes.set_xticks(at, [f"{number:,}" for number in at], rotation=45 * (problem == CHASING))
    axes.grid(visible=True, which="major", alpha=0.25)


def write_errors(found: Sequence[Largest], out: Path) -> list[Path]:
    """Draw the largest errors against the number of categories into ``out``; its files."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    at = [one.categories for one in found]
    for name, (label, style) in NAMES.items():
        margins = [1.96 * one.stderrs[name] for one in found]
        axes.errorbar(at, [one.means[name] for one in found], margins, fmt=style, capsize=3, label=label)
    axes.set(xscale="log", yscale="log", xlabel="categories, d", ylabel="largest error of a count")
    axes.set_title(f"n = {USERS:,}, epsilon {EPSILON:g} and delta {DELTA:g} by replacement, Zipf 1.1")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend(frameon=False, loc="center right", bbox_to_anchor=(1, 0.62))
    return _saved(figure, out, "shuffled-errors", [one.row() for one in found])


def _saved(figure: Any, out: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Path]:
    paths = [out / f"{name}.png", out / f"{name}.svg"]
    for path in paths:
        with replacing(path) as draft:
            figure.savefig(draft, dpi=150)
    table = out / f"{name}.csv"
    with replacing(table) as draft, draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [*paths, table]
