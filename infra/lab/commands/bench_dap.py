"""``tacit bench dap``: the processor time of any DAP leader and helper for a report."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.stacks.command_options import AsJson
from infra.views.terminal import answers, notes, plain_table, print_json
from tacit.errors import UsageError
from tacit.extras import require_extra
from tacit.version import VERSIONS

if TYPE_CHECKING:
    from infra.lab.bench.dap.run import Found, Load
    from infra.lab.bench.dap.statistics import Statistics
    from infra.lab.bench.dap.tasks import DapTask
    from tacit.adapters.network.http import HttpTransport

MOST = 1.5
"""Most CPU time for a report that is wanted, over that of the implementation beside which it was measured."""
COUNT, HISTOGRAM = "count", "histogram"


Leader = Annotated[str, typer.Option("--leader", metavar="URL", help="Leader that has the test API.")]
Helper = Annotated[str, typer.Option("--helper", metavar="URL", help="Helper that has the test API.")]
TaskFile = Annotated[
    Path | None, typer.Option("--task", help="A task that the servers have: members of the test API, as JSON.")
]
CollectorKey = Annotated[
    Path | None, typer.Option("--collector-key", help="With --task: file (0600) with the collector's HPKE key.")
]
CollectorToken = Annotated[
    Path | None, typer.Option("--collector-token", help="With --task: file (0600) with the collector's token.")
]
Vdaf = Annotated[str, typer.Option("--vdaf", help=f"Without --task: {COUNT} or {HISTOGRAM}.")]
Length = Annotated[int, typer.Option("--length", min=2, help="Buckets of the histogram.")]
ChunkLength = Annotated[int, typer.Option("--chunk-length", min=1, help="Its chunk length.")]
Profile = Annotated[str, typer.Option("--profile", help=f"{' or '.join(VERSIONS)}.")]
Reports = Annotated[int, typer.Option("--reports", min=1, help="Reports to upload, one a request.")]
Rate = Annotated[float, typer.Option("--rate", min=1, max=5000, help="Reports a second.")]
Settle = Annotated[
    float, typer.Option("--settle", min=0, help="Without a collector: seconds to watch after the last upload.")
]
Processes = Annotated[
    str, typer.Option("--processes", metavar="PID,PID", help="Processes to count, with all their children.")
]
Database = Annotated[int | None, typer.Option("--database", metavar="PID", help="Their database server.")]
Analyze = Annotated[
    list[Path] | None,
    typer.Option(
        "--analyze",
        metavar="FILE",
        help="File (0600) with the URL of a PostgreSQL database of theirs: statistics are kept fresh. Repeatable.",
    ),
]
Beside = Annotated[
    Path | None, typer.Option("--beside", help="The --json document of another implementation, to compare with.")
]


def bench_dap(
    leader: Leader = "",
    helper: Helper = "",
    task: TaskFile = None,
    collector_key: CollectorKey = None,
    collector_token: CollectorToken = None,
    vdaf: Vdaf = HISTOGRAM,
    length: Length = 128,
    chunk_length: ChunkLength = 18,
    profile: Profile = "dap-18",
    reports: Reports = 1000,
    rate: Rate = 200.0,
    settle: Settle = 10.0,
    processes: Processes = "",
    database: Database = None,
    analyze: Analyze = None,
    beside: Beside = None,
    as_json: AsJson = False,
) -> None:
    """CPU time for a report, over upload, aggregation and collection, of the processes of any DAP leader and helper.

    With --leader and --helper a new task is entered by the interoperation test API; with --task the servers have it,
    and it is collected if the collector's key and token are given. Only for servers on this machine or in a private
    network. Exits with 1 if a report was lost or the aggregate is not the sum of what was sent.

    What a database costs depends on its statistics. With --analyze they are fresh from the first upload to the last
    job (ANALYZE before, every 10 s, and after the uploads, whose time is not counted); without, they are as found, by
    chance. --beside takes a document of the same state only.

    Example: tacit bench dap --leader http://127.0.0.1:8082 --helper http://127.0.0.1:8083 --processes 4711,4712
    """
    require_extra("this measurement", "bench", "psutil")
    from infra.lab.bench.dap.run import Load, named_processes
    from infra.lab.bench.dap.statistics import Statistics
    from infra.lab.bench.dap.tasks import Collecting

    _require_task(leader, helper, task, own_keys=bool(collector_key or collector_token))
    if profile not in VERSIONS:
        raise typer.BadParameter(f"--profile must be one of {', '.join(VERSIONS)}")
    counted = named_processes(_ids(processes), database)
    if not counted:
        raise typer.BadParameter("--processes or --database: name the processes to count")
    statistics = Statistics(analyze or ())
    before = None if beside is None else _total_of(beside, statistics.state)
    where = {"leader": leader, "helper": helper, "task": task}
    shape = _shape(vdaf, length, chunk_length)
    collecting = Collecting.of_files(collector_key, collector_token)
    found = asyncio.run(_run(where, shape, profile, collecting, counted, Load(reports, rate, settle), statistics))
    if as_json:
        print_json(_document(found, reports, rate, statistics.state, before))
    else:
        _show(found, statistics.state, before)
    for error in found.errors:
        notes().print(error, style="red", soft_wrap=True)
    if found.errors:
        raise typer.Exit(1)


def _require_task(leader: str, helper: str, task: Path | None, *, own_keys: bool) -> None:
    """Raise ``BadParameter`` unless the options name one task."""
    if (task is None) == (not leader and not helper) or bool(leader) != bool(helper):
        raise typer.BadParameter("give --leader and --helper, or --task")
    if task is None and own_keys:
        raise typer.BadParameter("--collector-key goes with --task; the test API takes a fresh one")


async def _run(
    where: dict[str, Any],
    shape: dict[str, Any],
    profile: str,
    collecting: Any,
    counted: dict[str, int],
    load: Load,
    statistics: Statistics,
) -> Found:
    from infra.lab.bench.dap.run import measure
    from tacit.adapters.network.http import HttpTransport

    async with HttpTransport(insecure_http=True) as transport:
        asked = await _task(transport, where, shape, profile, collecting)
        return await measure(transport, asked, counted, load, statistics)


async def _task(
    transport: HttpTransport, where: dict[str, Any], shape: dict[str, Any], profile: str, collecting: Any
) -> DapTask:
    from infra.lab.bench.dap.run import require_near
    from infra.lab.bench.dap.tasks import fresh_task, known_task
    from tacit.messages import Role

    version = VERSIONS[profile]
    if where["task"] is None:
        urls = {Role.LEADER: where["leader"], Role.HELPER: where["helper"]}
        for url in urls.values():
            require_near(url)
        return await fresh_task(transport, urls, shape, version)
    try:
        members = json.loads(where["task"].read_text("utf-8"))
        near = [str(members["leader"]), str(members["helper"])]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{where['task']}: not a task as the interoperation test API describes it") from error
    for url in near:
        require_near(url)
    return await known_task(transport, members, version, collecting)


def _shape(vdaf: str, length: int, chunk_length: int) -> dict[str, Any]:
    kinds: dict[str, dict[str, str]] = {
        COUNT: {"type": "Prio3Count"},
        HISTOGRAM: {"type": "Prio3Histogram", "length": str(length), "chunk_length": str(chunk_length)},
    }
    if vdaf not in kinds:
        raise typer.BadParameter(f"--vdaf must be {COUNT} or {HISTOGRAM}")
    return {"vdaf": kinds[vdaf], "min_batch_size": 1, "time_precision": 60}


def _ids(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise typer.BadParameter("--processes takes process ids, with commas between them")
    return [int(part) for part in parts]


def _total_of(path: Path, state: str) -> float:
    """What a report cost the other implementation. Raises ``UsageError`` where its statistics were in another state."""
    from infra.lab.bench.dap.statistics import AS_FOUND

    try:
        document = json.loads(path.read_text("utf-8"))
        total, other = float(document["us_per_report"]), str(document.get("statistics", AS_FOUND))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a document of tacit bench dap --json") from error
    if other != state:
        raise UsageError(f"{path}: measured with statistics {other}, this would be with statistics {state} (--analyze)")
    return total


def _document(found: Found, reports: int, rate: float, statistics: str, before: float | None) -> dict[str, Any]:
    from infra.lab.bench.rows import machine

    return {
        "machine": machine(),
        "reports": reports,
        "rate": rate,
        "statistics": statistics,
        "accepted": found.accepted,
        "collected": found.collected,
        "retries": found.retries,
        "seconds": found.seconds,
        "us_per_report": found.total,
        "processes": {
            name: {"uploading_us": uploading, "afterwards_us": afterwards}
            for name, (uploading, afterwards) in found.us_per_report().items()
        },
        "ratio": None if before is None else found.total / before,
        "errors": found.errors,
    }


def _show(found: Found, statistics: str, before: float | None) -> None:
    table = plain_table("µs CPU per accepted report", "uploading", "afterwards", "all")
    for column in table.columns[1:]:
        column.justify = "right"
    for name, parts in found.us_per_report().items():
        table.add_row(name, *(f"{part:,.0f}" for part in (*parts, sum(parts))))
    table.add_row("all", "", "", f"{found.total:,.0f}")
    console = answers()
    console.print(table)
    how = "collected, and their sum is right" if found.collected and not found.errors else "not all collected"
    console.print(f"{found.accepted:,} reports accepted in {found.seconds:,.0f} s, {how}; {found.retries:,} retries")
    console.print(f"PostgreSQL's statistics: {statistics}")
    if before is not None:
        ratio = found.total / before
        verdict = "met" if ratio <= MOST else "missed"
        console.print(f"{ratio:.2f} times the other implementation (wanted: at most {MOST:.1f}): {verdict}")
