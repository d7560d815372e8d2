"""What a local stack is doing: its processes, its servers, and per task where the reports are.

Everything is asked of the services themselves, as their operator; nothing here looks into a database.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from client_agent.deciding import asked_until
from infra.api import call, readiness, recipes_of
from infra.issuance import Accepted, SlotIssuance, compare, read_counts, warn
from infra.layout import Layout
from infra.processes import read_pids
from infra.servers import ServerStatus, server_status
from infra.workers import known_parts, service_part
from tacit.errors import Abort, DecodeError, TacitError
from tacit.ports import Transport, TransportError
from tacit.recipe.model import Interval

AGGREGATORS = ("leader", "helper")
T = TypeVar("T")


@dataclass(frozen=True)
class ProcessStatus:
    """One process. ``up``: it answers; ``ready``: it can do its work, or else ``detail`` says why not. ``pid`` is that
    of ``tacit up``'s child where it still runs."""

    name: str
    url: str
    up: bool
    version: str = ""
    pid: int | None = None
    detail: str = ""
    ready: bool = False


@dataclass(frozen=True)
class TaskStatus:
    """One recipe as the leader sees it; ``leader`` and ``helper`` hold their status pages, or nothing; ``place`` is the
    epoch and slot of its tokens; ``asked_until`` the POSIX second until which devices decide to take part."""

    recipe: str
    recipe_hash: str
    state: str
    rule: str
    leader: dict[str, Any] = field(default_factory=dict)
    helper: dict[str, Any] = field(default_factory=dict)
    place: tuple[int, int] | None = None
    asked_until: float | None = None

    @property
    def accepted(self) -> Accepted | None:
        """Its distinct contributions, by the count of whichever aggregator has more; ``None`` where neither serves
        it."""
        counts = [int(page.get("distinct_nullifiers", 0)) for page in (self.leader, self.helper) if page]
        return Accepted(self.place, self.recipe, max(counts)) if counts and self.place is not None else None

    @property
    def failing(self) -> list[dict[str, Any]]:
        """Aggregation jobs that do not go on, each with its cause."""
        found: list[dict[str, Any]] = self.leader.get("failing_jobs", [])
        return found


@dataclass(frozen=True)
class StackStatus:
    """Everything. ``problems`` is empty where all is well. ``tasks_known``: the leader and the log said which there
    are."""

    processes: list[ProcessStatus]
    servers: list[ServerStatus]
    tasks: list[TaskStatus]
    troubles: list[str] = field(default_factory=list)
    issuance: list[SlotIssuance] = field(default_factory=list)
    tasks_known: bool = True

    @property
    def problems(self) -> list[str]:
        """One line per thing that a person should look at."""
        lines = [f"{one.name} is down: {one.detail}" for one in self.processes if not one.up]
        lines += [f"{one.name} is not ready: {one.detail}" for one in self.processes if one.up and not one.ready]
        lines += [f"{one.name}: {one.detail}" for one in self.processes if one.ready and one.detail]
        lines += [f"{one.name}: {one.detail}" for one in self.servers if not one.up]
        for task in self.tasks:
            failed = int(task.leader.get("jobs", {}).get("failed", 0))
            lines += [f"{task.recipe}: {_count(failed, 'job')} failed for good"] if failed else []
            lines += [f"{task.recipe}: {_count(len(task.failing), 'job')} not going on"] if task.failing else []
        for slot in self.issuance:
            name = f"{slot.recipe}, slot" if slot.recipe else "slot"
            lines += [f"{name} {slot.slot} of epoch {slot.epoch}: {line}" for line in slot.mismatches]
        return lines + self.troubles

    def document(self) -> dict[str, Any]:
        """As JSON."""
        issuance = [{**asdict(one), "mismatches": one.mismatches} for one in self.issuance]
        return {"ok": not self.problems, "problems": self.problems, **asdict(self), "issuance": issuance}


async def stack_status(layout: Layout, transport: Transport) -> StackStatus:
    """Ask everybody. What does not answer is part of the answer; a mismatch of issuance counts is logged too."""
    parts = [service_part(layout, name) for name in layout.services] + known_parts(layout)
    pids = read_pids(layout.state_dir)
    asked = [process_status(transport, part.label, part.url, pids.get(part.label)) for part in parts]
    processes, servers = await asyncio.gather(asyncio.gather(*asked), server_status(layout))
    up = {one.name for one in processes if one.up}
    troubles: list[str] = []
    before = tasks = issued = after = None
    if counted := {"attester", "issuer"} <= up:
        before = await _told(read_counts(layout, transport, "attester"), "issuance counts", troubles)
    if {"leader", "recipe_server"} <= up:
        aggregators = [name for name in AGGREGATORS if name in up]
        tasks = await _told(_tasks(layout, transport, aggregators), "tasks", troubles)
    if counted and before is not None:
        issued = await _told(read_counts(layout, transport, "issuer"), "issuance counts", troubles)
        after = await _told(read_counts(layout, transport, "attester"), "issuance counts", troubles)
    accepted = [task.accepted for task in tasks or [] if task.accepted is not None]
    issuance = [] if None in (before, issued, after) else compare(before or {}, accepted, issued or {}, after or {})
    warn(issuance)
    return StackStatus(processes, servers, tasks or [], troubles, issuance, tasks_known=tasks is not None)


async def _told(asked: Awaitable[T], what: str, troubles: list[str]) -> T | None:
    """The answer; where there is none, ``None`` and a trouble."""
    try:
        return await asked
    except (TransportError, TacitError) as error:
        troubles.append(f"the {what} cannot be read: {_short(error)}")
        return None


async def process_status(transport: Transport, label: str, url: str, pid: int | None = None) -> ProcessStatus:
    """How the process at ``url`` is, by its own word."""
    alive = pid if pid is not None and _lives(pid) else None
    try:
        ready, found = await readiness(transport, url)
    except (TransportError, Abort, DecodeError) as error:
        return ProcessStatus(label, url, up=False, pid=alive, detail=_short(error))
    words = [str(found["trouble"])] if found.get("trouble") else []
    for role, count in sorted(dict(found.get("refused_certificates", {})).items()):
        words.append(f"{_count(int(count), 'call')} as {role} with a certificate of another name refused")
    return ProcessStatus(
        label, url, up=True, version=str(found.get("version", "")), pid=alive, detail="; ".join(words), ready=ready
    )


async def _tasks(layout: Layout, transport: Transport, aggregators: Sequence[str]) -> list[TaskStatus]:
    """The recipes that name the leader, in the log's order, with the counts of those that are active."""
    known = {one["hash"]: one for one in await recipes_of(transport, layout.urls["recipe_server"])}
    bearer = {name: layout.operator_token(name) for name in AGGREGATORS}
    rows = await call(transport, "GET", f"{layout.urls['leader']}/v1/recipes", bearer=bearer["leader"])

    async def counts(aggregator: str, task_id: str) -> dict[str, Any]:
        url = f"{layout.urls[aggregator]}/v1/tasks/{task_id}/status"
        with contextlib.suppress(Abort):  # not active there, or not any more
            found: dict[str, Any] = await call(transport, "GET", url, bearer=bearer[aggregator])
            return found
        return {}

    async def task(row: dict[str, Any]) -> TaskStatus:
        pages = {}
        if row["task_id"]:
            found = await asyncio.gather(*(counts(name, row["task_id"]) for name in aggregators))
            pages = dict(zip(aggregators, found, strict=True))
        recipe_hash = row["recipe_hash"]
        recipe = known.get(recipe_hash, {})
        token = recipe.get("token")
        place = None if token is None else (int(token["epoch"]), int(token["slot"]))
        name = str(recipe.get("name", recipe_hash))
        until = asked_until(Interval.model_validate(recipe["interval"])) if recipe else None
        over = row["state"] == "active" and recipe.get("state") == "over"  # the leader still serves its collection
        state = "over" if over else row["state"]
        return TaskStatus(name, recipe_hash, state, row["rule"], **pages, place=place, asked_until=until)

    return list(await asyncio.gather(*map(task, rows)))


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _short(error: Exception) -> str:
    """What went wrong, without the advice that is meant for one command."""
    return str(error).partition("; is the stack up?")[0] or type(error).__name__


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
