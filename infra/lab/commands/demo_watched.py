"""``tacit demo --model``: devices that many people use watch an event."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from infra.lab.commands.demo_played import played
from infra.views.terminal import notes
from tacit.extras import require_extra

if TYPE_CHECKING:
    from infra.lab.demo.event_counts import Visits
    from infra.lab.demo.watched_run import Watching

DEFAULT_DEVICES, DEFAULT_STEPS, FEWER_STEPS = 300, 30, 12
"""Chosen so that a run takes about a minute on two free cores. ``FEWER_STEPS`` is for a histogram with two servers,
which has the largest state."""
MOST = 4
"""Largest count of histograms and means, k."""


def watching_of(model: str, statistic: str | None, steps: int | None) -> Watching:
    """Return what the flags ask for. Raises ``BadParameter``."""
    from infra.lab.demo.event_counts import MAX_STEPS
    from tacit.models.forms import form_of
    from tacit.models.pan_private.form import PanPrivate

    statistic = statistic or "count"
    if statistic not in form_of(model).watched:
        raise typer.BadParameter(f"--statistic with {model} takes {', '.join(form_of(model).watched)}")
    if steps is None:
        steps = FEWER_STEPS if (model, statistic) == (PanPrivate.name, "histogram") else DEFAULT_STEPS
    if not 1 <= steps <= MAX_STEPS:
        raise typer.BadParameter(f"--steps takes a number from 1 to {MAX_STEPS}")
    require_extra("the demo of watched events", "demo", "numpy")
    from infra.lab.demo.watched_run import Watching

    return Watching(model, statistic, steps, 1 if statistic == "count" else MOST)


def visits_of(asked: Watching, input_file: Path | None, column: str | None, devices: int | None) -> Visits:
    """Return the events on the devices, made up or read from ``input_file``. Raises ``UsageError``."""
    from infra.lab.demo.event_counts import load_visits, made_up

    if input_file is None:
        if column:
            raise typer.BadParameter("--column goes with --input")
        return made_up(DEFAULT_DEVICES if devices is None else devices)
    if column is None:
        raise typer.BadParameter("--input needs --column NAME")
    return load_visits(input_file, column, asked.steps, devices)


def watched(asked: Watching, visits: Visits, out: Path, *, json_output: bool) -> None:
    """Run the demo of a watched event; print its result as JSON, or show it and write a report to ``out``."""
    from infra.lab.demo.event_counts import SYNTHETIC
    from infra.lab.demo.watched_run import WatchedRun

    progress = notes()
    if visits.source == SYNTHETIC:
        progress.print(f"{SYNTHETIC} (your own: --input FILE.csv --column NAME)", style="yellow", soft_wrap=True)
    if visits.missing:
        words = f"{visits.missing:,} of {len(visits.counts):,} cells are empty: nothing happened on these devices"
        progress.print(words, highlight=False, style="yellow", soft_wrap=True)
    played(lambda folder, stages: WatchedRun(visits, asked, folder, stages).run(), out, json_output=json_output)
