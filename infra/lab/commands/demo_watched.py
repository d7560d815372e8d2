"""``tacit demo --model``: devices that many people use watch an event."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from infra.base.loops import fastest_loop
from infra.lab.demo.patience import in_a_line
from infra.views.terminal import answers, notes, print_json
from tacit.extras import require_extra

if TYPE_CHECKING:
    from infra.lab.demo.view import Stages
    from infra.lab.demo.visits import Visits


if TYPE_CHECKING:
    from infra.lab.demo.watched_run import Watching

T = TypeVar("T")

DEFAULT_DEVICES, DEFAULT_STEPS, FEWER_STEPS = 300, 30, 12
"""Chosen so that a run takes about a minute on two free cores. ``FEWER_STEPS`` is for a histogram with two servers,
which has the largest state."""
MOST = 4
"""Largest count of histograms and means, k."""


def watching_of(model: str, statistic: str | None, steps: int | None, *, of_answers: bool) -> Watching:
    """Return what the flags ask for; ``of_answers``: whether --buckets or --categories was given. Raises
    ``BadParameter``."""
    from infra.lab.demo.visits import MAX_STEPS
    from tacit.models.forms import FORMS, form_of
    from tacit.models.pan_private.form import PanPrivate

    names = [name for name, form in FORMS.items() if form.watched]
    if model not in names:
        raise typer.BadParameter(f"--model takes {' or '.join(names)}; without it the demo uses the main model")
    statistic = statistic or "count"
    if statistic not in form_of(model).watched:
        raise typer.BadParameter(f"--statistic with {model} takes {', '.join(form_of(model).watched)}")
    if of_answers:
        raise typer.BadParameter(f"--buckets and --categories do not go with --model: a histogram counts 0 to {MOST}+")
    if steps is None:
        steps = FEWER_STEPS if (model, statistic) == (PanPrivate.name, "histogram") else DEFAULT_STEPS
    if not 1 <= steps <= MAX_STEPS:
        raise typer.BadParameter(f"--steps takes a number from 1 to {MAX_STEPS}")
    require_extra("the demo of watched events", "demo", "numpy")
    from infra.lab.demo.watched_run import Watching

    return Watching(model, statistic, steps, 1 if statistic == "count" else MOST)


def visits_of(asked: Watching, input_file: Path | None, column: str | None, devices: int | None) -> Visits:
    """Return the events on the devices, made up or read from ``input_file``. Raises ``UsageError``."""
    from infra.lab.demo.visits import load_visits, made_up

    if input_file is None:
        if column:
            raise typer.BadParameter("--column goes with --input")
        return made_up(DEFAULT_DEVICES if devices is None else devices)
    if column is None:
        raise typer.BadParameter("--input needs --column NAME")
    return load_visits(input_file, column, asked.steps, devices)


def watched(asked: Watching, visits: Visits, out: Path, *, json_output: bool) -> None:
    """Run the demo of a watched event; print its result as JSON, or show it and write a report to ``out``."""
    from infra.lab.demo.report import prepare_report, write_report
    from infra.lab.demo.view import Stages, show_watched
    from infra.lab.demo.visits import SYNTHETIC

    if not json_output:
        prepare_report(out)
    progress = notes()
    if visits.source == SYNTHETIC:
        progress.print(f"{SYNTHETIC} (your own: --input FILE.csv --column NAME)", style="yellow", soft_wrap=True)
    if visits.missing:
        words = f"{visits.missing:,} of {len(visits.counts):,} cells are empty: nothing happened on these devices"
        progress.print(words, highlight=False, style="yellow", soft_wrap=True)
    stages = Stages(progress)
    from infra.lab.demo.watched_run import WatchedRun

    result = in_a_fresh_folder(stages, lambda folder: WatchedRun(visits, asked, folder, stages).run())
    if json_output:
        print_json(result.document())
        return
    show_watched(result, answers(), write_report(result, out))


def in_a_fresh_folder(stages: Stages, run: Callable[[Path], Coroutine[Any, Any, T]]) -> T:
    """Return what ``run`` returns; show its progress, and remove its folder, which holds keys. Raises a single error of
    ours for whatever goes wrong."""
    from infra.lab.kit.scratch import scratch_folder
    from tacit.service.log import set_log_level

    set_log_level("error")
    # A request to stop unwinds as Ctrl-C does: the folder holds keys and must not stay.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with (
            scratch_folder("tacit-demo-") as folder,
            stages.running(),
            asyncio.Runner(loop_factory=fastest_loop()) as runner,
        ):
            return runner.run(run(folder))
    except Exception as error:
        raise in_a_line(error, stages.current) from error
