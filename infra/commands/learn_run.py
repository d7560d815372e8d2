"""``tacit learn run`` and ``show``: train a model round by round. What follows is read from the plan, the log and the
releases alone, so that a run can be taken up again at any time, on any machine that has the three."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.authoring.recipe_options import AnalystKey
from infra.stacks.command_options import AsJson, StateDir, checked_name, layout_of, policy_of, read_file
from infra.views.terminal import answers, notes, print_json
from tacit.adapters.disk.named_files import is_readable
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.extras import require_extra

if TYPE_CHECKING:
    from infra.authoring.learning import Files
    from infra.stacks.layout import Layout
    from tacit.learning.plan import Plan
    from tacit.logview.live import LiveSeries
    from tacit.operations.learning.documents import Row
    from tacit.operations.learning.run import Place, Standing
    from tacit.ports import Transport
    from tacit.signing import Signer

PlanFile = Annotated[Path, typer.Argument(metavar="PLAN", help="The plan's file (tacit learn plan).")]
RunName = Annotated[
    str, typer.Argument(metavar="HASH|NAME|PLAN", help="A run's series in the stack's log, or the file of its plan.")
]
Start = Annotated[
    int | None, typer.Option("--start", help="POSIX second in which the first round begins (default: soon).")
]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        min=0,
        metavar="SECONDS",
        help="Pass a round over that is not released so long after its end (default: the plan's release_seconds).",
    ),
]
TestFile = Annotated[
    Path | None, typer.Option("--test", help="Examples, CSV or JSON, for loss and accuracy (docs/learning.md).")
]
ModelFile = Annotated[
    Path | None, typer.Option("--out", help="Write the newest model here: .npz, otherwise a model file.")
]
ShownModel = Annotated[
    Path | None, typer.Option("--model", help="Write the newest model here: .npz, otherwise a model file.")
]
InitialFile = Annotated[
    Path | None,
    typer.Option("--initial", help="The first model, where only an application knows it: a model file, .npz or .npy."),
]
TERMINAL_WIDTH = 100
Picture = Annotated[Path | None, typer.Option("--plot", help="Draw loss and accuracy by round (PNG or SVG).")]


def run(
    plan: PlanFile,
    start: Start = None,
    wait: Wait = None,
    test: TestFile = None,
    out: ModelFile = None,
    plot: Picture = None,
    initial: InitialFile = None,
    state_dir: StateDir = None,
    key: AnalystKey = None,
    as_json: AsJson = False,
) -> None:
    """Train a model: publish its series unless the log holds it, then round after round, each from the release before.

    May be ended at any time and started again with the same plan. A round that is not released in time is passed over.

    Example: tacit learn run digits.json --test digits.csv --out digits.npz
    """
    _require_packages(plot)
    from infra.authoring.learning import Files
    from tacit.service.base.keys import read_signing_key

    own = _plan_in(plan, out, plot)
    shown, layout = _Shown(Files.of(own, test, out, plot, initial), as_json=as_json), layout_of(state_dir)
    signer = read_signing_key(key or layout.analyst_key)
    try:
        asyncio.run(_train(layout, signer, (start, wait), shown))
    except KeyboardInterrupt:
        notes().print("what is published goes on; the same command takes the run up again")
        raise
    shown.require_written()
    if as_json:
        print_json(shown.document())


def show(
    name: RunName,
    test: TestFile = None,
    model: ShownModel = None,
    plot: Picture = None,
    initial: InitialFile = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Show where a training run is, from the log and the releases. Its models follow from them and the plan, so loss,
    accuracy and the model file need the plan's file in place of the run's name.

    Example: tacit learn show digits
    """
    path = Path(checked_name(name))
    if not is_readable(path):
        if test or model or plot or initial:
            raise UsageError("models follow from the plan; give its file in place of the run's name")
        series, rows = asyncio.run(_read_logged(layout_of(state_dir), name))
        _print(series, rows, as_json=as_json)
        return
    _require_packages(plot)
    from infra.authoring.learning import Files

    own = _plan_in(path, model, plot)
    shown = _Shown(Files.of(own, test, model, plot, initial), as_json=as_json, waits=True)
    asyncio.run(_standing(layout_of(state_dir), shown))
    shown.require_written()
    if as_json:
        print_json(shown.document())


class _Shown:
    """Prints the rounds of a run as they end, and writes the files that are wanted. ``waits``: also prints one whose
    release may still come."""

    def __init__(self, files: Files, *, as_json: bool, waits: bool = False) -> None:
        self.files, self._quiet, self._waits = files, as_json, waits
        self._found: Standing | None = None
        self._rows: list[Row] = []
        self._shown = 0
        self._unwritten: UsageError | None = None

    def take(self, found: Standing) -> None:
        """Print what is new, and write the newest model and the picture. While rounds follow, a file that cannot be
        written is no reason to miss them: it is told, and tried again after the next one."""
        from infra.views.learn_run_view import line_of, show_run

        rows, console = self.files.rows(found), answers(TERMINAL_WIDTH)
        if not self._quiet:
            if self._found is None:
                show_run(found.series, console)
            for row in rows[self._shown :]:
                if self._waits or not row.waits:
                    console.print(line_of(row), soft_wrap=True)
        self._found, self._rows, self._shown = found, rows, sum(not row.waits for row in rows)
        try:
            self.files.write(found, rows)
            self._unwritten = None
        except UsageError as error:
            self._unwritten = error
            notes().print(f"not written: {error}", style="yellow")

    def require_written(self) -> None:
        """Raises ``UsageError`` where the newest model or picture could not be written."""
        if self._unwritten is not None:
            raise UsageError(
                f"{self._unwritten}; when it can be written, tacit learn show PLAN does so (--model, --plot)"
            )

    def document(self) -> dict[str, Any]:
        """The run as JSON, after it was taken."""
        from tacit.learning.model_file import name_of
        from tacit.operations.learning.documents import run_document

        if self._found is None:
            raise UsageError("the run has not begun")
        return run_document(self._found.series, self._rows, name_of(self._found.run.model))


def _require_packages(plot: Path | None) -> None:
    require_extra("this command", "learn", "numpy")
    if plot is not None:
        require_extra("--plot", "figures", "matplotlib")


def _plan_in(path: Path, *written: Path | None) -> Plan:
    """The plan in a file, which is none of those that are written. Raises ``UsageError``."""
    from tacit.learning.plan import Plan

    if any(one is not None and one.resolve() == path.resolve() for one in written):
        raise UsageError(f"{path}: it has the plan, and would be replaced")
    return Plan.read(read_file(path), str(path))


def _place(layout: Layout, transport: Transport) -> Place:
    """The stack's log and collector, on the system's clock."""
    from infra.commands.results import collector_access
    from infra.stacks.api import whole_log
    from tacit.operations.learning.run import Place

    read = partial(whole_log, transport, layout, policy_of(layout.policy_path))
    return Place(transport, read, collector_access(layout), SystemClock())


async def _train(layout: Layout, key: Signer, times: tuple[int | None, float | None], shown: _Shown) -> None:
    """Begin the run, or take it up, and show it until it is over; ``times``: its start (POSIX seconds), and how long to
    wait for a release (seconds)."""
    from infra.authoring.learning import begun
    from infra.views.learn_run_view import show_waiting
    from tacit.operations.learning.run import LearningRun

    (start, wait), files, plan = times, shown.files, shown.files.plan
    async with layout.transport() as transport:
        at = _place(layout, transport)
        series = await begun(files, at, layout, key, start)
        seconds = float(plan.release_seconds) if wait is None else wait
        telling = partial(show_waiting, notes(), at.clock.now)
        running = LearningRun(plan, series.series.hash_text, at, key, seconds, telling, files.initial)
        async for found in running.standings():
            shown.take(found)


async def _standing(layout: Layout, shown: _Shown) -> None:
    """Show where the newest series of the plan's name is."""
    from tacit.operations.learning.run import read_standing

    files = shown.files
    async with layout.transport() as transport:
        at = _place(layout, transport)
        shown.take(await read_standing(files.plan, files.plan.name, at, initial=files.initial))


async def _read_logged(layout: Layout, name: str) -> tuple[LiveSeries, list[Row]]:
    """The series of this name or hash, and its published rounds with how many took part. Raises ``UsageError``."""
    from tacit.operations.learning.documents import Row
    from tacit.operations.results import read_results
    from tacit.operations.series_rounds import index_of, published_rounds, series_called
    from tacit.recipe.encoder_specs import Update

    async with layout.transport() as transport:
        at = _place(layout, transport)
        log = await at.log()
        found = series_called(log, name)
        if found is None or not isinstance(found.series.probe.question.encoder, Update):
            raise UsageError(f"the log shows no training run called {name}; tacit learn run PLAN begins one")
        published, rows = published_rounds(log, found.series), list[Row]()
        for live in published:
            documents = await read_results(transport, at.collector, live.recipe.hash_text)
            count = sum(int(one["report_count"]) for one in documents) if documents else None
            waits = count is None and live is published[-1]
            rows.append(Row(index_of(live.recipe), live.recipe, live.index, count, waits=waits))
        return found, rows


def _print(series: LiveSeries, rows: list[Row], *, as_json: bool) -> None:
    from infra.views.learn_run_view import line_of, show_run
    from tacit.operations.learning.documents import run_document

    if as_json:
        print_json(run_document(series, rows, None))
        return
    console = answers(TERMINAL_WIDTH)
    show_run(series, console)
    for row in rows:
        console.print(line_of(row), soft_wrap=True)
