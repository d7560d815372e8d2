"""``tacit bench``: what each stage costs on this machine, beside its floor and its target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from infra.lab.bench import history
from infra.lab.commands.bench_accuracy import accuracy
from infra.lab.commands.bench_dap import bench_dap
from infra.lab.commands.bench_learning import learning
from infra.lab.commands.bench_needs import tell_of_driver
from infra.lab.commands.bench_soak import soak
from infra.stacks.command_options import AsJson
from infra.views.terminal import answers, notes, plain_table, print_json
from tacit.errors import Fatal, UsageError
from tacit.extras import require_extra
from tacit.vdaf.native import level

if TYPE_CHECKING:
    from infra.lab.bench.rows import Row


WIDTH = 120
"""Cells that the tables need."""
app = typer.Typer(help="Measure what each stage costs, beside the floor of this machine.", no_args_is_help=True)
app.command("accuracy")(accuracy)
app.command("soak")(soak)
app.command("dap")(bench_dap)
app.command("learning")(learning)

Repetitions = Annotated[int, typer.Option("--repetitions", min=1, help="Repetitions of every measurement.")]
Save = Annotated[bool, typer.Option("--save", help="Keep the document as benchmarks/DATE-COMMIT.json.")]
Million = Annotated[
    bool, typer.Option("--million", help="Also measure memory with 1,000,000 reports queued (takes minutes).")
]
With = Annotated[
    list[str] | None,
    typer.Option("--with", metavar="NAMES", help="Servers, as for tacit up (default: postgres where it is installed)."),
]
VDAF, RIGHT_FROM = 1, 4
"""Places in the table: the VDAF's column, and the first of the figures."""
KERNEL_REPETITIONS, STAGE_REPETITIONS, LIVE_REPETITIONS = 15, 7, 3


@app.command("kernels")
def kernels(as_json: AsJson = False, repetitions: Repetitions = KERNEL_REPETITIONS, save: Save = False) -> None:
    """CPU time per report of the Prio3 kernels, for every VDAF, role and path that this processor runs.

    Medians; a floor is what the stage's Keccak permutations and field products alone would cost. Path "off" is pure
    Python. Example: tacit bench kernels --json
    """
    from infra.lab.bench.kernels import kernel_rows

    _deliver(kernel_rows(repetitions), as_json=as_json, save=save)


@app.command("stages")
def stages(as_json: AsJson = False, repetitions: Repetitions = STAGE_REPETITIONS, save: Save = False) -> None:
    """CPU time per report of each step: open, verify, prepare a job, commit it; seal, prove, decapsulate.

    A floor is what the primitives of a step cost alone, measured in the same run. Example: tacit bench stages
    """
    rows = _stages(repetitions)
    tell_of_driver()
    _deliver(rows, as_json=as_json, save=save)


@app.command("ingest")
def ingest(
    as_json: AsJson = False, repetitions: Repetitions = LIVE_REPETITIONS, save: Save = False, servers: With = None
) -> None:
    """CPU time per contribution of relay, gateway, leader and database while they take uploads, and the latency.

    Real processes at three offered rates, on PostgreSQL where it is installed. Example: tacit bench ingest
    """
    rows = _ingest(repetitions, servers)
    tell_of_driver(servers)
    _deliver(rows, as_json=as_json, save=save)


@app.command("pipeline")
def pipeline(
    as_json: AsJson = False,
    repetitions: Repetitions = LIVE_REPETITIONS,
    save: Save = False,
    million: Million = False,
    servers: With = None,
) -> None:
    """CPU time per contribution of the whole server side, time from the B-th one to the result, memory under a queue.

    Real processes, from the relay to the committed aggregate. Example: tacit bench pipeline --repetitions 1
    """
    rows = _pipeline(repetitions, servers, million=million)
    tell_of_driver(servers)
    _deliver(rows, as_json=as_json, save=save)


@app.command("overload")
def overload(
    as_json: AsJson = False, repetitions: Repetitions = LIVE_REPETITIONS, save: Save = False, servers: With = None
) -> None:
    """How long honest uploads take, alone and while the relay or the leader is attacked.

    Attacks are silent connections, heads and bodies sent slowly, and a flood of whole requests. Real processes;
    attackers are bounded in count, rate and time, and stay on this machine. A repetition takes a minute and a half.
    Example: tacit bench overload --repetitions 1
    """
    rows = _overload(repetitions, servers)
    tell_of_driver(servers)
    _deliver(rows, as_json=as_json, save=save)


@app.command("accounting")
def accounting(as_json: AsJson = False, repetitions: Repetitions = STAGE_REPETITIONS, save: Save = False) -> None:
    """CPU time of one recipe's claim in a fresh interpreter, and of a full ledger of 1,000 recipes.

    Needs tacit[accounting]. Example: tacit bench accounting
    """
    _deliver(_accounting(repetitions), as_json=as_json, save=save)


@app.command("pan-privacy")
def pan_privacy(
    as_json: AsJson = False,
    repetitions: Repetitions = STAGE_REPETITIONS,
    samples: Annotated[
        int, typer.Option("--samples", min=100, help="Updates of each count's state whose times are compared.")
    ] = 20_000,
    save: Save = False,
) -> None:
    """CPU time of updating pan-private state and of opening its reports, and whether the time reveals an event.

    "|t|" rows show the median wall time and, as ratio, Welch's t between updates with and without an event, or between
    the choices in them. 1,000,000 samples take about 20 minutes. Example: tacit bench pan-privacy --samples 1000
    """
    _deliver(_pan_private(repetitions, samples), as_json=as_json, save=save)


@app.command("agents")
def agents(
    as_json: AsJson = False,
    repetitions: Repetitions = LIVE_REPETITIONS,
    devices: Annotated[int, typer.Option("--devices", min=1, max=2000, help="Devices in the host.")] = 200,
    window: Annotated[
        float,
        typer.Option("--window", min=1, metavar="SECONDS", help="Length of a repetition, in which all devices idle."),
    ] = 60.0,
    save: Save = False,
) -> None:
    """What running a device costs, in a host and in a process of its own: start, processor time, memory.

    Real processes on a new stack, idle; a ratio is the cost in a process of its own over the cost in the host. Then
    what a contribution costs the device that makes it: reading the log, its token, the decision, sending.
    Example: tacit bench agents --devices 20 --window 5 --repetitions 1
    """
    _deliver(_agents(repetitions, devices, window), as_json=as_json, save=save)


@app.command("admin")
def admin(
    as_json: AsJson = False,
    recipes: Annotated[int, typer.Option("--recipes", min=1, help="Recipes in the log.")] = 1000,
    rows: Annotated[
        int, typer.Option("--rows", min=10, help="Entries in the log, and acts in the audit log.")
    ] = 20_000,
    rate: Annotated[float, typer.Option("--rate", min=1, help="Requests a second.")] = 100.0,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="How long requests are sent.")] = 30.0,
    core: Annotated[
        int | None, typer.Option("--core", min=0, help="Bind the admin service to this core, at high priority (root).")
    ] = None,
    database: Annotated[
        str, typer.Option("--database", help="Database of both services: sqlite or postgres.")
    ] = "sqlite",
    pages: Annotated[
        int, typer.Option("--pages", min=0, help="Times to open each dashboard page (needs Chromium and playwright).")
    ] = 0,
    repetitions: Repetitions = 1,
    save: Save = False,
) -> None:
    """How long the admin API takes to answer, and how much memory it needs, with many recipes, log entries and acts.

    Real processes; requests of twelve kinds on a fixed schedule. With --rows 1000000, filling takes two minutes. With
    --pages, also how long it takes until a browser shows something of each dashboard page.
    Example: tacit bench admin --rows 200 --recipes 20 --seconds 2
    """
    found = _admin(recipes, rows, rate, seconds, core, database, pages, repetitions)
    _deliver(found, as_json=as_json, save=save)


@app.command("scaling")
def scaling(
    as_json: AsJson = False,
    repetitions: Repetitions = LIVE_REPETITIONS,
    reports: Annotated[int, typer.Option("--reports", min=1000, help="Reports to aggregate in each run.")] = 4000,
    share: Annotated[float, typer.Option("--share", min=0.05, max=1.0, help="Most of one core for each worker.")] = 0.1,
    save: Save = False,
) -> None:
    """How much faster two leader and two helper workers aggregate than one of each, on one PostgreSQL.

    Every worker has the same share of a core, by control groups, which needs root. Choose it so that four workers and
    the database together have less than the machine. Example: tacit bench scaling --repetitions 1 --share 0.1
    """
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.scaling import scaling_rows

    _deliver(scaling_rows(repetitions, reports, share), as_json=as_json, save=save)


@app.command("all")
def everything(as_json: AsJson = False, save: Save = False, million: Million = False) -> None:
    """Run kernels, stages, accounting, ingest and pipeline, in 12 minutes. Example: tacit bench all --json --save"""
    require_extra("this measurement", "bench,accounting", "psutil", "dp_accounting")
    tell_of_driver()
    from infra.lab.bench.kernels import kernel_rows

    def rows() -> Iterator[Row]:
        yield from kernel_rows(KERNEL_REPETITIONS)
        yield from _stages(STAGE_REPETITIONS)
        yield from _accounting(STAGE_REPETITIONS)
        yield from _ingest(LIVE_REPETITIONS, None)
        yield from _pipeline(LIVE_REPETITIONS, None, million=million)

    _deliver(rows(), as_json=as_json, save=save)


@app.command("plot")
def plot(
    folder: Annotated[Path, typer.Option("--folder", help="Folder of the saved documents.")] = history.FOLDER,
    out: Annotated[Path | None, typer.Option("--out", help="The picture (default: history.png in the folder).")] = None,
    as_json: AsJson = False,
) -> None:
    """Draw the saved results over commits. Example: tacit bench plot"""
    target = out or folder / history.PLOT
    results = history.load(folder)
    history.plot(results, target)
    if as_json:
        print_json({"picture": str(target), "results": len(results)})
        return
    answers().print(f"{target}: {len(results)} result{'s' if len(results) > 1 else ''}", soft_wrap=True)


def _stages(repetitions: int) -> Iterator[Row]:
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.stages import stage_rows

    return stage_rows(repetitions)


def _accounting(repetitions: int) -> Iterator[Row]:
    from infra.lab.bench.accounting import accounting_rows

    return accounting_rows(repetitions)


def _pan_private(repetitions: int, samples: int) -> Iterator[Row]:
    require_extra("this measurement", "bench", "numpy")
    from infra.lab.bench.analyzer import analyzer_rows
    from infra.lab.bench.pan_privacy import pan_private_rows

    yield from analyzer_rows(repetitions)
    yield from pan_private_rows(repetitions, samples)


def _ingest(repetitions: int, servers: list[str] | None) -> Iterator[Row]:
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.ingest import ingest_rows

    return ingest_rows(repetitions, _names(servers))


def _overload(repetitions: int, servers: list[str] | None) -> Iterator[Row]:
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.overload import overload_rows

    return overload_rows(repetitions, _names(servers))


def _admin(
    recipes: int, rows: int, rate: float, seconds: float, core: int | None, database: str, pages: int, repetitions: int
) -> Iterator[Row]:
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.admin import Asked, admin_rows
    from infra.lab.bench.loading.storage import backends

    if database not in (known := [one.name for one in backends()]):
        raise UsageError(f"--database: this machine has {' and '.join(known)}")
    if rows < 3 * recipes + 2:
        raise UsageError(
            f"--rows: {recipes} recipes with their opt-ins and the token keys need at least {3 * recipes + 2}"
        )
    return admin_rows(Asked(recipes, rows, rate, seconds, core, database, pages, repetitions))


def _agents(repetitions: int, devices: int, window: float) -> Iterator[Row]:
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.agents import agent_rows
    from infra.lab.bench.device import DEVICES, device_rows

    yield from agent_rows(repetitions, devices, window=window)
    yield from device_rows(min(devices, DEVICES))


def _pipeline(repetitions: int, servers: list[str] | None, *, million: bool) -> Iterator[Row]:
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.pipeline import QUEUED, pipeline_rows

    return pipeline_rows(repetitions, _names(servers), (*QUEUED, 1_000_000) if million else QUEUED)


def _names(servers: list[str] | None) -> frozenset[str] | None:
    if servers is None:
        return None
    return frozenset(name.strip() for text in servers for name in text.split(",") if name.strip())


def _deliver(rows: Iterable[Row], *, as_json: bool, save: bool) -> None:
    from infra.lab.bench.rows import document

    found: list[Row] = []
    if save:
        history.require_folder(history.FOLDER if history.FOLDER.exists() else Path())
    try:
        for row in rows:
            found.append(row)
            rate = history.rate_text(row.offered_rate, " ")
            notes().print(f"{row.stage} {row.vdaf} {row.role} {row.path}{rate}", style="dim")
    except (Fatal, KeyboardInterrupt):
        if found and not as_json:
            _show(found)
        raise
    if as_json:
        print_json(document(found))
    else:
        _show(found)
    if save:
        notes().print(f"saved as {history.save(found, history.FOLDER)}")


def _show(rows: list[Row]) -> None:
    from infra.lab.bench.loading.implementations import MULTIBUFFER, multibuffer_set
    from infra.lab.bench.rows import machine

    facts = machine()
    console = answers(WIDTH)
    ran_on = f", {MULTIBUFFER} on {batch}" if (batch := multibuffer_set()) else ""
    console.print(f"{facts['cpu']}, {facts['cores']} cores, reports are verified on path {level()}{ran_on}")
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(_table_of(row), []).append(row)
    for name, some in tables.items():
        console.print()
        console.print(_table(name, some))


def _table_of(row: Row) -> str:
    """Return the table of a row: each table has rows of one kind, so that none needs every column."""
    from infra.lab.bench.kernels import STAGES
    from infra.lab.bench.targets import ACCOUNTING, AGENTS, CONTRIBUTION

    if row.stage == "primitive":
        return "primitives"
    if row.stage in STAGES:
        return "kernels"
    if row.stage in ACCOUNTING:
        return "accounting"
    if row.stage in (*AGENTS, CONTRIBUTION):
        return "agents"
    if row.stage.startswith("memory"):
        return "memory"
    return "running services" if row.offered_rate is not None or "latency" in row.stage else "stages"


def _table(name: str, rows: list[Row]) -> Table:
    """Make a table of ``rows`` without empty columns; a VDAF that all rows share goes into the title."""
    figure = {"memory": "bytes", "accounting": "CPU", "agents": "a device"}.get(name, "µs/report")
    columns = (name, "VDAF", "role", "path", "offered", figure, "floor", "ratio", "spread", "target")
    cells = [_cells(row) for row in rows]
    vdafs = {str(line[VDAF]) for line in cells}
    used = [at for at in range(len(columns)) if any(str(line[at]) for line in cells)]
    if len(vdafs) == 1:
        used = [at for at in used if at != VDAF]
    title = Text(vdafs.pop(), style="bold") if len(vdafs) == 1 and vdafs != {""} else None
    table = plain_table(*(columns[at] for at in used), title=title)
    for column, at in zip(table.columns, used, strict=True):
        column.justify = "right" if at >= RIGHT_FROM else "left"
        if at >= RIGHT_FROM:
            column.no_wrap = True
            column.min_width = max(len(columns[at]), *(len(str(line[at])) for line in cells))
    for line in cells:
        table.add_row(*(line[at] for at in used))
    return table


def _cells(row: Row) -> list[str | Text]:
    primitive = row.stage == "primitive"
    parameters = ",".join(map(str, row.parameters.values()))
    return [
        row.role if primitive else row.stage,
        f"{row.vdaf}({parameters})" if parameters else row.vdaf,
        "" if primitive else row.role,
        row.path,
        history.rate_text(row.offered_rate),
        _figure(row, row.us_per_report),
        "" if row.floor_us is None or primitive else _figure(row, row.floor_us),
        "" if row.ratio is None or primitive else f"{row.ratio:.2f}",
        f"{row.spread:.0%}" if row.repetitions > 1 else "",
        _verdict(row),
    ]


def _figure(row: Row, value: float) -> str:
    from infra.lab.bench.targets import ACCOUNTING, ADMIN_MEMORY, AGENTS, CONTRIBUTION, WEIGHT

    if row.stage == WEIGHT:
        return f"{value / 1024:,.0f} KiB"
    if row.stage in (*AGENTS, CONTRIBUTION):
        return f"{value / 1000:,.3g} ms"
    if row.stage.startswith("memory") or row.stage == ADMIN_MEMORY:
        return f"{value / 2**20:.0f} MiB"
    if "latency" in row.stage or row.stage in ACCOUNTING:
        return f"{value / 1000:,.{0 if value >= 1e5 else 1}f} ms"
    if value < 1:
        return f"{value:.4f}"
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _verdict(row: Row) -> Text:
    from infra.lab.bench.targets import (
        CHOICE_TIMES,
        LEAST_SCALED,
        MOST_GROWTH,
        MOST_T,
        MOST_UNDER_ATTACK,
        SCALED,
        UNDER_ATTACK,
        UPDATE_TIMES,
        target_of,
    )

    if row.stage.startswith("memory"):
        return _met(f"{MOST_GROWTH:.2f}", row.ratio or 0.0, MOST_GROWTH)
    if row.stage == UNDER_ATTACK and row.role.startswith("p99"):
        return _met(f"x {MOST_UNDER_ATTACK:.2f}", row.ratio or 0.0, MOST_UNDER_ATTACK)
    if row.stage in {UPDATE_TIMES, CHOICE_TIMES}:
        return _met(f"|t| {MOST_T:.2f}", row.ratio or 0.0, MOST_T)
    if row.stage == SCALED and (row.ratio or 0.0) != 1.0:
        return _met(f"x {LEAST_SCALED:.2f}", LEAST_SCALED, row.ratio or 0.0)
    limit = target_of(row)
    return Text("") if limit is None else _met(_figure(row, limit), row.us_per_report, limit)


def _met(shown: str, value: float, limit: float) -> Text:
    met = value <= limit
    return Text(f"{shown} {'met' if met else 'missed'}", style="green" if met else "red")
