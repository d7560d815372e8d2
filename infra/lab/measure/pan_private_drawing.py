"""The comparison of ``infra.lab.measure.pan_private`` as a table, a picture and CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from infra.lab.measure.pan_private_runs import FALSE_ALARM, FURTHEST, Compared
from infra.views.terminal import plain_table
from tacit.adapters.disk.files import replacing

NAME = "pan-privacy"
BOUND, STEPWISE, OURS, INK = "#777777", "#cc6677", "#332288", "#343a40"
WITHOUT = "without cryptography"
SIZE = (7.2, 7.6)


def row(one: Compared) -> dict[str, Any]:
    """Return one row of the CSV file as JSON values. Standard errors are of the count of devices with an event."""
    return {
        "steps": one.steps,
        "epsilon0": float(one.epsilon0),
        "devices": one.devices,
        "kept_devices": one.ours.kept,
        "lower_bound": one.lower_bound,
        "stepwise": one.stepwise_expected,
        "stepwise_measured": one.stepwise.stderr,
        "stepwise_sampling_error": one.stepwise_sampling_error,
        "local": one.local,
        "ours_measured": one.ours.stderr,
        "ours_sampling_error": one.sampling_error,
        "ours_error": one.ours.total,
        "ours_error_z": one.ours_z[0],
        "ours_z": one.ours_z[1],
        "stepwise_error_z": one.stepwise_z[0],
        "stepwise_z": one.stepwise_z[1],
        "lower_bound_over_ours": one.lower_bound / one.ours.stderr,
        "stepwise_over_ours": one.stepwise.stderr / one.ours.stderr,
        "holds": one.holds,
    }


def table(found: Sequence[Compared]) -> Table:
    """Make the table with a row per number of steps."""
    shown = plain_table("T", "lower bound", "in the clear", "local DP", "ours", "± s.e.", "z", "bound / ours", "")
    for one in found:
        mark = Text("ok", style="green") if one.holds else Text("off", style="bold red")
        figures = (one.lower_bound, one.stepwise.stderr, one.local, one.ours.stderr)
        z, ratio = one.ours_z[1], one.lower_bound / one.ours.stderr
        shown.add_row(
            f"{one.steps:,}",
            *(f"{value:,.1f}" for value in figures),
            f"{one.sampling_error:.1f}",
            f"{z:+.1f}",
            f"{ratio:.2f}",
            mark,
        )
    return shown


def verdict(found: Sequence[Compared]) -> str:
    """Return one sentence about all points."""
    off = sum(not one.holds for one in found)
    said = f"{off} of {len(found)} points are" if off else "no point is"
    chance = f"the probability that one is by chance is {FALSE_ALARM * len(found):.0e}"
    return f"{said} more than {FURTHEST:g} standard errors from what is expected; {chance}"


def write(found: Sequence[Compared], folder: Path) -> list[Path]:
    """Write the comparison as PNG, SVG and CSV; returns the paths."""
    rows = [row(one) for one in found]
    kept = folder / f"{NAME}.csv"
    with replacing(kept) as draft, draft.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return [*_draw(found, folder), kept]


def _draw(found: Sequence[Compared], folder: Path) -> list[Path]:
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=SIZE, layout="constrained")
    above, below = canvas.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    _errors(above, found)
    _ratios(below, found)
    canvas.legend(*above.get_legend_handles_labels(), loc="outside lower center", ncols=1, frameon=False)
    canvas.suptitle(f"An event watched for T steps   n = {found[0].devices:,}, ε₀ = {float(found[0].epsilon0):g}")
    paths = [folder / f"{NAME}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        with replacing(path) as draft:
            canvas.savefig(draft, dpi=130)
    return paths


def _errors(place: Any, found: Sequence[Compared]) -> None:
    steps = [one.steps for one in found]
    bound, expected = [one.lower_bound for one in found], [one.stepwise_expected for one in found]
    place.loglog(steps, bound, "--", color=BOUND, linewidth=1.8, label=f"{WITHOUT}: lower bound (Theorem 9)")
    label = f"{WITHOUT}: an algorithm for at most one event"
    place.loglog(steps, expected, "-", color=STEPWISE, linewidth=1.8, label=label)
    drawn = [(one.stepwise.stderr, one.stepwise_sampling_error) for one in found]
    _marks(place, steps, drawn, STEPWISE, "s", "that algorithm, drawn from its law")
    local = [one.local for one in found]
    place.loglog(steps, local, ":", color=INK, linewidth=1.8, label="local DP, state in the clear (no pan-privacy)")
    _marks(
        place, steps, [(one.ours.stderr, one.sampling_error) for one in found], OURS, "o", "encrypted state, measured"
    )
    place.set_ylabel("standard error of the count")
    place.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)


def _ratios(place: Any, found: Sequence[Compared]) -> None:
    steps = [one.steps for one in found]
    roots = [math.sqrt(one.steps) for one in found]
    place.loglog(steps, roots, "-", color=INK, linewidth=1.0)
    middle = len(steps) // 2
    place.annotate("√T", (steps[middle], roots[middle]), (-14, 8), textcoords="offset points", ha="right", color=INK)
    ratios = [one.lower_bound / one.ours.stderr for one in found]
    errors = [ratio * one.sampling_error / one.ours.stderr for ratio, one in zip(ratios, found, strict=True)]
    _marks(place, steps, list(zip(ratios, errors, strict=True)), BOUND, "D")
    place.set_ylabel("lower bound / ours")
    place.set_xlabel("steps, T")
    place.grid(visible=True, which="major", linewidth=0.4, alpha=0.5)


def _marks(
    place: Any, steps: list[int], found: list[tuple[float, float]], colour: str, marker: str, name: str = ""
) -> None:
    """Draw measured values with two standard errors on either side."""
    place.errorbar(
        steps, [value for value, _ in found], yerr=[2 * error for _, error in found], fmt=marker, markersize=6,
        capsize=4, color=colour, markerfacecolor="white", markeredgewidth=1.5, elinewidth=1.5, zorder=3,
        label=f"{name} (± 2 s.e.)" if name else "_measured",
    )  # fmt: skip
