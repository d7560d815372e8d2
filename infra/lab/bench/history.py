"""Stored results: one JSON document per run, and a plot of them over commits."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.lab.bench.rows import document
from tacit.adapters.disk.files import replace_file, replacing
from tacit.errors import UsageError
from tacit.extras import missing_extra

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FOLDER = Path("benchmarks")
PLOT = "history.png"
DIRTY = "-dirty"
CURVES = (
    ("whole server side", "all servers"),
    ("aggregation job", "leader + helper"),
    ("ingest", "all servers"),
    ("prepare a job", "leader"),
    ("prepare a job", "helper"),
    ("release latency at B", "collector"),
)
"""(stage, role) of the panels."""
PANEL_INCHES = (6.0, 3.2)
COLUMNS = 2


@dataclass(frozen=True)
class Result:
    """One stored document: the name of its file (date and commit), and its rows."""

    name: str
    rows: list[dict[str, Any]]


def save(rows: Iterable[DataclassInstance], folder: Path) -> Path:
    """Write the document as ``{date}-{commit}.json``; returns the file. Raises ``UsageError``."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    path = folder / f"{day}-{_commit()}.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, (json.dumps(document(rows), indent=1, ensure_ascii=False) + "\n").encode())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be written'}") from error
    return path


def require_folder(folder: Path) -> None:
    """Raise ``UsageError`` if nothing can be written into the folder: before a measurement, not behind it."""
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"--save: {folder} is no folder in which this user can write")


def load(folder: Path) -> list[Result]:
    """Every stored result, oldest first. Raises ``UsageError`` if there is none, or one cannot be read."""
    results = []
    for path in sorted(folder.glob("*.json"), key=_age):
        try:
            results.append(Result(path.stem, json.loads(path.read_text(encoding="utf-8"))["rows"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{path}: not a document of tacit bench --save") from error
    if not results:
        raise UsageError(f"{folder}: no results here; save one with: tacit bench all --save")
    return results


def plot(results: Sequence[Result], out: Path) -> None:
    """Draw one panel per stage, with one line per path and offered rate, over the results in order. Raises
    ``UsageError`` if matplotlib is missing or the file cannot be written."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise missing_extra("a plot", "bench", "matplotlib") from error
    mpl.use("Agg")
    from matplotlib import pyplot

    panels = [(stage, role, _lines(results, stage, role)) for stage, role in CURVES]
    drawn = [panel for panel in panels if panel[2]]
    if not drawn:
        raise UsageError("none of the saved results has a stage to plot; save one with: tacit bench all --save")
    height = -(-len(drawn) // COLUMNS)
    size = (COLUMNS * PANEL_INCHES[0], height * PANEL_INCHES[1])
    figure, axes = pyplot.subplots(height, COLUMNS, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[len(drawn) :]:
        axis.set_axis_off()
    names = [result.name for result in results]
    for axis, (stage, role, lines) in zip(axes.flat, drawn, strict=False):
        unit = "seconds" if "latency" in stage else "µs per report"
        _draw(axis, (f"{stage}, {role}", unit), lines, names)
    try:
        with replacing(out) as draft:
            figure.savefig(draft, dpi=120)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or 'cannot be written'}") from error
    finally:
        pyplot.close(figure)


def _lines(results: Sequence[Result], stage: str, role: str) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    for number, result in enumerate(results):
        for row in result.rows:
            if (row["stage"], row["role"]) == (stage, role):
                label = row["path"] + rate_text(row["offered_rate"], ", ")
                value = row["us_per_report"] / (1e6 if "latency" in stage else 1)
                lines.setdefault(label, []).append((number, value))
    return lines


def _draw(axis: Any, titles: tuple[str, str], lines: dict[str, list[tuple[int, float]]], names: Sequence[str]) -> None:
    for label, points in lines.items():
        axis.plot(*zip(*points, strict=True), marker="o", label=label)
    axis.set_title(titles[0], fontsize=10)
    axis.set_ylabel(titles[1])
    axis.set_ylim(0, axis.get_ylim()[1] * (1 + 0.07 * len(lines)))  # room for the legend above the lines
    axis.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=7)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=6, loc="upper center", ncols=2, columnspacing=1)


def rate_text(rate: float | None, before: str = "") -> str:
    """Return an offered rate as text; "max" means as fast as contributions are accepted."""
    if rate is None:
        return ""
    return f"{before}{rate:g}/s" if rate else f"{before}max"


def _age(path: Path) -> tuple[str, float]:
    """The sort key of a file: the day, and the time of its commit, or of the file if its commit is unknown here."""
    commit = path.stem[len("2000-01-01-") :].removesuffix(DIRTY)
    when = _git("show", "--no-patch", "--format=%ct", commit) if commit.isalnum() else ""
    return path.name[: len("2000-01-01")], float(when) if when.isdigit() else path.stat().st_mtime


def _commit() -> str:
    """Return the short hash of the checked-out commit, with a mark if files have changed since."""
    return _git("describe", "--always", f"--dirty={DIRTY}", "--exclude=*") or "unknown"


def _git(*arguments: str) -> str:
    """The output of git, or the empty string if it fails."""
    try:
        found = subprocess.run(["git", *arguments], capture_output=True, encoding="utf-8", check=True)  # noqa: S603, S607
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found.stdout.strip()
