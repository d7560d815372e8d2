"""``tacit status``: shows on one screen what a local stack is doing."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from infra.stacks.command_options import AsJson, StateDir, layout_of
from infra.stacks.layout import Layout
from infra.views.terminal import answers, plain_table, print_json, style_word
from tacit.native_level import BATCHES, OFF, PRIO3
from tacit.time_format import format_utc

if TYPE_CHECKING:
    from tacit.operations.issuance import SlotIssuance
    from tacit.operations.servers import ServerStatus
    from tacit.operations.status import DeploymentStatus, ProcessStatus, TaskStatus


ANSWER_SECONDS = 10.0
MANY_SECONDS = 120
_COMPUTED = {PRIO3: "reports are verified with", BATCHES: "tokens and messages are opened with"}
_PATHS = {
    (PRIO3, OFF): "pure Python",
    (BATCHES, OFF): "OpenSSL, one by one",
    ("", "baseline"): "portable kernels",
    ("", "avx2"): "AVX2",
    ("", "avx512"): "AVX-512",
    ("", "ifma"): "AVX-512 IFMA",
}
_TOKENS = ("requested", "issued", "answered", "devices")
_COUNTS = ("uploaded", "waiting", "in jobs", "counted", "rejected", "released")


def status(state_dir: StateDir = None, as_json: AsJson = False) -> None:
    """Show services, servers and, for each task, how far its reports are.

    Exits with 1 if something is down or fails. Example: tacit status
    """
    found = asyncio.run(_ask_status(layout_of(state_dir)))
    if as_json:
        print_json(found.document())
    else:
        show(found, answers())
    if found.problems:
        raise typer.Exit(1)


async def _ask_status(layout: Layout) -> DeploymentStatus:
    from infra.stacks.status import stack_status

    async with layout.transport(timeout=ANSWER_SECONDS) as transport:
        return await stack_status(layout, transport)


def show(found: DeploymentStatus, console: Console) -> None:
    """Print the tables, and at the end the problems that need attention."""
    console.print(_processes(found.processes))
    for said in kernel_lines(found.processes):
        console.print(Text(said, style="dim"))
    if found.servers:
        console.print()
        console.print(_servers(found.servers))
    console.print()
    if found.tasks:
        console.print(_tasks(found.tasks))
        for task in found.tasks:
            lines = details(task)
            if lines:
                console.print(Text(f"\n{task.recipe}", style="bold", overflow="ellipsis", no_wrap=True))
            for line in lines:
                console.print(Padding(line, (0, 0, 0, 2)))
    elif not found.tasks_known:
        console.print("the tasks are not known: leader, analyzer and recipe server do not all answer")
    else:
        console.print("no task yet; publish a recipe with: tacit recipe publish")
    shown = [slot for slot in found.issuance if slot.recipe or slot.mismatches]
    if shown:
        console.print()
        console.print(_issuance(shown))
    console.print()
    for problem in found.problems:
        console.print(Text.assemble(("! ", "bold red"), problem))
    if not found.problems:
        console.print(Text("all is well", style="green"))


def _processes(processes: list[ProcessStatus]) -> Table:
    table = plain_table("service", "state", "version", "pid", "url")
    for one in processes:
        pid = "" if one.pid is None else str(one.pid)
        table.add_row(one.name, _readiness(one), one.version, pid, Text(one.url, overflow="fold"))
    return table


def kernel_lines(processes: Sequence[ProcessStatus]) -> list[str]:
    """Return on which kernels which processes work, a line for each path."""
    by_path: dict[tuple[str, str], list[str]] = {}
    for one in processes:
        for what, path in one.kernels.items():
            by_path.setdefault((what, path), []).append(one.name)
    return [
        f"{_COMPUTED.get(what, what)}: {_PATHS.get((what, path)) or _PATHS.get(('', path), path)} ({', '.join(names)})"
        for (what, path), names in by_path.items()
    ]


def _servers(servers: list[ServerStatus]) -> Table:
    table = plain_table("server", "state", "used by", "")
    for one in servers:
        table.add_row(one.name, _state(up=one.up), ", ".join(one.used_by), one.detail)
    return table


def _tasks(tasks: list[TaskStatus]) -> Table:
    table = plain_table()
    table.add_column("task", overflow="ellipsis")
    table.add_column("state", no_wrap=True)
    for heading in _COUNTS:
        table.add_column(heading, justify="right", no_wrap=True)
    for task in tasks:
        table.add_row(task.recipe, style_word(task.state), *_counts(task.taking))
    return table


def _issuance(slots: list[SlotIssuance]) -> Table:
    table = plain_table()
    table.add_column("tokens of", overflow="ellipsis")
    for heading in ("epoch", "slot", *_TOKENS, "counted"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in slots:
        numbers = (one.requested, one.issued, one.answered, one.devices, one.contributions)
        style = "red" if one.mismatches else ""
        table.add_row(one.recipe, str(one.epoch), str(one.slot), *(f"{number:,}" for number in numbers), style=style)
    return table


def _counts(page: Mapping[str, Any]) -> list[str]:
    if not page:
        return ["-"] * len(_COUNTS)
    in_jobs = page.get("in_jobs", page.get("jobs", {}).get("sent", 0))
    numbers = (page["uploaded"], page.get("waiting", page["pending"]), in_jobs, page["aggregated"], page["rejected"])
    return [f"{number:,}" for number in (*numbers, page["released"])]


def details(task: TaskStatus) -> list[Text]:
    """Return lines with what the table of tasks has no room for."""
    lines = [Text(f"refused by rule {task.rule}", style="red")] if task.rule else []
    page = task.taking
    if page:
        waiting = page.get("oldest_waiting_seconds")
        if task.asked_until is not None and not page["uploaded"]:
            lines.append(
                Text(f"devices decide until {format_utc(task.asked_until)}, then send; later ones take no part")
            )
        lines += [Text(f"jobs: {_list_counts(page['jobs'])}")] if page.get("jobs") else []
        lines += [Text(f"rejected: {_list_counts(page['rejected_by_cause'])}")] if page["rejected"] else []
        lines += [Text(f"the oldest report has waited for {_span(waiting)}")] if waiting else []
    if task.helper:
        rejected = f", rejected: {_list_counts(task.helper['rejected_by_cause'])}" if task.helper["rejected"] else ""
        lines.append(Text(f"helper: {task.helper['aggregated']:,} counted{rejected}"))
    if task.leader and task.shuffler:
        page = task.shuffler
        rejected = f", rejected: {_list_counts(page['rejected_by_cause'])}" if page["rejected"] else ""
        where = "passed on" if page["released"] else "waiting for the interval's end"
        lines.append(Text(f"shuffler: {page['aggregated']:,} {where}{rejected}"))
    for job in task.failing:
        why = job.get("cause") or "its worker ended"
        about = f"job {job['job_id'][:8]} of {job.get('size', '?')} reports, {job['state']}"
        lines.append(Text(f"{about}, {job['attempts']} attempts: {why}", style="red"))
    return lines


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))


def _span(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < MANY_SECONDS else f"{seconds / 60:.0f} min"


def _readiness(one: ProcessStatus) -> Text:
    if not one.up:
        return _state(up=False)
    return Text("ready", style="green") if one.ready else Text("not ready", style="bold red")


def _state(*, up: bool) -> Text:
    return Text("up", style="green") if up else Text("down", style="bold red")
