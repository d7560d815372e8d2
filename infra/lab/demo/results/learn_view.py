"""A training run in the terminal and as a picture."""

from __future__ import annotations

import io

from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from infra.lab.demo.results.learn_result import CENTRAL, HONEST, NONE, OURS, STEP_HEADINGS, LearnResult, Line
from infra.lab.demo.results.plot import Curve, Plot
from infra.views.claim_words import epsilon_text
from infra.views.terminal import plain_table
from tacit.counting_words import counted

STYLES = {NONE: "dim", CENTRAL: "blue", OURS: "bold green", HONEST: "magenta"}
COLOURS = {NONE: "#868e96", CENTRAL: "#1c7ed6", OURS: "#2b8a3e", HONEST: "#9c36b5"}
TABLE_CELLS = 56
"""Of the table beside the plot, with the frames."""
LEAST_PLOT, MOST_PLOT = 36, 64
"""Cells of the plot; below the least, the table comes under it."""
LEAST_ROWS = 10


def learned(result: LearnResult, width: int) -> Panel:
    """Losses as curves beside the rounds, or above them in a narrow terminal."""
    is_wide = width >= TABLE_CELLS + LEAST_PLOT
    cells = width - TABLE_CELLS if is_wide else width - 14
    steps, rows = plain_table(), max(LEAST_ROWS, len(result.steps) - 1)
    for heading in STEP_HEADINGS:
        steps.add_column(heading, justify="right", no_wrap=True)
    for number, step in enumerate(result.steps, 1):
        steps.add_row(*step.cells(number))
    curves = [Curve(line.losses, STYLES[line.name]) for line in reversed(result.lines)]
    plot = Plot(curves, min(MOST_PLOT, cells), rows).text()
    body = Table.grid(padding=(0, 3))
    if is_wide:
        body.add_row(plot, steps)
    else:
        body.add_row(Group(plot, Text(), steps))
    caption = Text(
        f"{result.devices:,} devices asked in every round · {result.sampled:,} times drawn by their own coins · "
        f"{result.accepted:,} contributions counted · {result.rejected:,} rejected · updates of length "
        f"{result.clip:g} at most",
        style="dim",
    )
    title = Text(result.question, style="bold")
    return Panel(Group(Text("loss"), body, *map(_legend, result.lines), caption), title=title, subtitle=result.source)


def _legend(line: Line) -> Text:
    shown = Text("━ ", style=STYLES[line.name])
    return shown.append(f"{line.words}: {line.accuracy:.1%} right in the end", style=STYLES[line.name])


def draw_learned(result: LearnResult) -> bytes:
    """PNG: the losses over the rounds."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=(10, 4.8), dpi=130, layout="constrained")
    axes = figure.subplots()
    for line in reversed(result.lines):
        label = f"{line.words}: {line.accuracy:.1%}"
        axes.plot(range(1, len(line.losses) + 1), line.losses, marker="o", color=COLOURS[line.name], label=label)
    axes.set_xlabel("round")
    axes.set_ylabel("loss on digits that no device has")
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    epsilon = epsilon_text(result.privacy["epsilon"], 2)
    axes.set_title(
        f"{result.question}\n{result.devices:,} devices, ε = {epsilon} at δ = {float(result.privacy['delta']):g} "
        f"over {counted(len(result.steps), 'round')}",
        parse_math=False,
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right", title="accuracy in the end")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
