"""How every demo is run: in a folder of its own, with its progress; then its result is printed or shown."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infra.base.loops import fastest_loop
from infra.lab.kit.patience import in_a_line
from infra.views.terminal import answers, notes, print_json

if TYPE_CHECKING:
    from types import FrameType

    from infra.lab.demo.results.result import DemoResult
    from infra.lab.demo.results.view import Stages


def played(run: Callable[[Path, Stages], Coroutine[Any, Any, DemoResult]], out: Path, *, json_output: bool) -> None:
    """Run a demo in the folder that ``run`` is given; print its result as JSON, or show it and write a report to
    ``out``. Raises a single error of ours for whatever goes wrong."""
    from infra.lab.demo.results.report import prepare_report, write_report
    from infra.lab.demo.results.view import Stages, show

    if not json_output:
        prepare_report(out)
    stages = Stages(notes())
    result = _in_a_fresh_folder(stages, lambda folder: run(folder, stages))
    if json_output:
        print_json(result.document())
    else:
        show(result, answers(), write_report(result, out))


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Do what Ctrl-C would now: a running loop cancels its work. An error that is raised here instead may come where it
    is ignored (in a fork, with a lock held), and the demo would never end."""
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(number, frame)


def _in_a_fresh_folder(stages: Stages, run: Callable[[Path], Coroutine[Any, Any, DemoResult]]) -> DemoResult:
    """Return what ``run`` returns; show its progress, and remove its folder, which holds keys."""
    from infra.lab.kit.scratch import scratch_folder
    from tacit.service.base.log import set_log_level

    set_log_level("error")
    # A request to stop unwinds as Ctrl-C does: the folder holds keys and must not stay.
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with (
            scratch_folder("tacit-demo-") as folder,
            stages.running(),
            asyncio.Runner(loop_factory=fastest_loop()) as runner,
        ):
            return runner.run(run(folder))
    except Exception as error:
        raise in_a_line(error, stages.current) from error
