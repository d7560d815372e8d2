"""Accuracy against epsilon, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from infra.lab.learning.bench import CENTRAL, LIES, NONE, OURS, Line
from infra.views.terminal import plain_table
from tacit.adapters.disk.files import replacing

_LYING = [f"{OURS}, {name}" for name in LIES]
_REDS = ("#f08c00", "#e8590c", "#e64980", "#9c36b5")
COLOURS = {NONE: "#868e96", CENTRAL: "#1c7ed6", OURS: "#2b8a3e", **dict(zip(_LYING, _REDS, strict=True))}
MARKERS = {CENTRAL: "s", OURS: "o", **dict(zip(_LYING, "v^<>", strict=True))}


def table(lines: Sequence[Line]) -> Table:
    """A row for each sort of noise and epsilon, with what one device can add at most and the distance in points from
    central DP-SGD at that epsilon."""
    central = {line.epsilon: line.accuracy for line in lines if line.kind == CENTRAL}
    shown = plain_table(
        "training", "ε", "noise / norm", "one device", "accuracy", "least to most", "to central", "loss"
    )
    for line in lines:
        beside = central.get(line.epsilon)
        points = None if beside is None or line.kind == CENTRAL else 100 * (line.accuracy - beside)
        shown.add_row(
            Text(line.kind, style=COLOURS[line.kind]),
            "-" if line.epsilon is None else f"{line.epsilon:g}",
            f"{line.noise:.2f}" if line.noise else "-",
            "-" if line.influence is None else f"{line.influence:.2f}",
            f"{line.accuracy:.1%}",
            f"{min(line.accuracies):.1%} to {max(line.accuracies):.1%}",
            "" if points is None else f"{points:+.1f}",
            f"{line.members()['loss']:.3f}",
        )
    return shown


def write(lines: Sequence[Line], path: Path) -> None:
    """Draw accuracies over epsilon into ``path`` (PNG or SVG); bars reach from the least to the most of the seeds."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(6.4, 4.4), layout="constrained")
    place = canvas.subplots()
    for line in lines:
        if line.epsilon is None:
            place.axhline(line.accuracy, color=COLOURS[NONE], linestyle="--", linewidth=1.2, label=NONE)
    for number, (kind, marker) in enumerate(MARKERS.items()):
        mine = [line for line in lines if line.kind == kind]
        at = [(line.epsilon or 0.0) * 1.04 ** (number - 1) for line in mine]
        middle = [line.accuracy for line in mine]
        down = [line.accuracy - min(line.accuracies) for line in mine]
        up = [max(line.accuracies) - line.accuracy for line in mine]
        place.errorbar(at, middle, yerr=(down, up), color=COLOURS[kind], marker=marker, capsize=3, label=kind)
    place.set_xscale("log")
    epsilons = sorted({line.epsilon for line in lines if line.epsilon is not None})
    place.set_xticks(epsilons, [f"{one:g}" for one in epsilons])
    place.minorticks_off()
    place.set_xlabel("ε of the whole run")
    place.set_ylabel("accuracy on digits that no device has")
    place.grid(visible=True, linewidth=0.4, alpha=0.5)
    place.legend(frameon=False, loc="lower right")
    with replacing(path) as draft:
        canvas.savefig(draft, dpi=130)
