"""Reads the state of a deployment: its processes, its servers, and for each task how far its reports are processed.

Everything is requested from the services themselves, with their operators' tokens; nothing here reads a database.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tacit.counting_words import plural
from tacit.errors import Abort, DecodeError, TacitError
from tacit.operations.calls import NoAnswerError, call, list_pages, readiness, recipes_of
from tacit.operations.issuance import Accepted, Counts, SlotIssuance, compare, read_counts, warn
from tacit.operations.servers import ServerStatus, server_status
from tacit.ports import Transport, TransportError
from tacit.recipe.asking import asked_until

AGGREGATORS = ("leader", "helper")
ANALYZER, SHUFFLER = "analyzer", "shuffler"
T = TypeVar("T")


@dataclass(frozen=True)
class ProcessAt:
    """A process of a deployment: its label, its address, and its process id if it runs on this machine."""

    label: str
    url: str
    pid: int | None = None


@dataclass(frozen=True)
class Deployment:
    """The deployment to query: every process; the services' addresses and configuration files by name; and
    ``operator_token``, which returns the token for the status pages of a service."""

    processes: Sequence[ProcessAt]
    urls: Mapping[str, str]
    configs: Mapping[str, Path]
    operator_token: Callable[[str], str] = field(repr=False)


@dataclass(frozen=True)
class ProcessStatus:
    """The state of one process. ``up``: whether it answers; ``ready``: whether it can do its work (if not, ``detail``
    says why); ``pid``: its process id if it runs on this machine; ``kernels``: on which ones it works, by what they
    compute (``tacit.native_level``)."""

    name: str
    url: str
    up: bool
    version: str = ""
    pid: int | None = None
    detail: str = ""
    ready: bool = False
    kernels: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TaskStatus:
    """One recipe as seen by its leader, or by the analyzer if its model has one. ``leader``, ``helper``, ``analyzer``
    and ``shuffler``: their status pages, or empty; ``place``: the epoch and slot of its tokens; ``asked_until``: the
    POSIX second until which devices decide whether to take part."""

    recipe: str
    recipe_hash: str
    state: str
    rule: str
    leader: dict[str, Any] = field(default_factory=dict)
    helper: dict[str, Any] = field(default_factory=dict)
    analyzer: dict[str, Any] = field(default_factory=dict)
    shuffler: dict[str, Any] = field(default_factory=dict)
    place: tuple[int, int] | None = None
    asked_until: float | None = None

    @property
    def accepted(self) -> Accepted | None:
        """Its distinct contributions (the largest count of its servers); None if no server serves it."""
        pages = (self.leader, self.helper, self.analyzer, self.shuffler)
        counts = [page.get("distinct_nullifiers", 0) for page in pages if page]
        return Accepted(self.place, self.recipe, max(counts)) if counts and self.place is not None else None

    @property
    def taking(self) -> dict[str, Any]:
        """The status page of the server that takes its reports; empty if there is none."""
        return self.leader or self.shuffler or self.analyzer

    @property
    def failing(self) -> list[dict[str, Any]]:
        """The aggregation jobs that make no progress, each with its cause."""
        found: list[dict[str, Any]] = self.leader.get("failing_jobs", [])
        return found


@dataclass(frozen=True)
class DeploymentStatus:
    """The state of the whole deployment. ``problems`` is empty if all is well. ``tasks_known``: whether leader and log
    both answered, so that the list of tasks is complete."""

    processes: list[ProcessStatus]
    servers: list[ServerStatus]
    tasks: list[TaskStatus]
    troubles: list[str] = field(default_factory=list)
    issuance: list[SlotIssuance] = field(default_factory=list)
    tasks_known: bool = True

    @property
    def problems(self) -> list[str]:
        """One line for each problem that needs a person's attention."""
        lines = [f"{one.name} is down: {one.detail}" for one in self.processes if not one.up]
        lines += [f"{one.name} is not ready: {one.detail}" for one in self.processes if one.up and not one.ready]
        lines += [f"{one.name}: {one.detail}" for one in self.processes if one.ready and one.detail]
        lines += [f"{one.name}: {one.detail}" for one in self.servers if not one.up]
        for task in self.tasks:
            failed = task.leader.get("jobs", {}).get("failed", 0)
            lines += [f"{task.recipe}: {plural(failed, 'job')} failed for good"] if failed else []
            lines += [f"{task.recipe}: {plural(len(task.failing), 'job')} not progressing"] if task.failing else []
        for slot in self.issuance:
            name = f"{slot.recipe}, slot" if slot.recipe else "slot"
            lines += [f"{name} {slot.slot} of epoch {slot.epoch}: {line}" for line in slot.mismatches]
        return lines + self.troubles

    def document(self) -> dict[str, Any]:
        """The state of all services as a JSON object; ``ok`` if there are no problems."""
        issuance = [{**asdict(one), "mismatches": one.mismatches} for one in self.issuance]
        return {"ok": not self.problems, "problems": self.problems, **asdict(self), "issuance": issuance}


async def deployment_status(deployment: Deployment, transport: Transport) -> DeploymentStatus:
    """Query all processes and servers. A process or server that does not answer is part of the result; a mismatch of
    issuance counts is also logged."""
    asked = [process_status(transport, one.label, one.url, one.pid) for one in deployment.processes]
    processes, servers = await asyncio.gather(asyncio.gather(*asked), server_status(deployment.configs))
    up = {one.name for one in processes if one.up}
    troubles: list[str] = []
    before = tasks = issued = after = None
    if counted := {"attester", "issuer"} <= up:
        before = await _await_answer(_counts(deployment, transport, "attester"), "issuance counts", troubles)
    if {"leader", "recipe_server"} <= up:
        tasks = await _await_answer(_tasks(deployment, transport, up), "tasks", troubles)
    if counted and before is not None:
        issued = await _await_answer(_counts(deployment, transport, "issuer"), "issuance counts", troubles)
        after = await _await_answer(_counts(deployment, transport, "attester"), "issuance counts", troubles)
    accepted = [task.accepted for task in tasks or [] if task.accepted is not None]
    issuance = [] if None in (before, issued, after) else compare(before or {}, accepted, issued or {}, after or {})
    warn(issuance)
    return DeploymentStatus(processes, servers, tasks or [], troubles, issuance, tasks_known=tasks is not None)


async def recipe_status(deployment: Deployment, transport: Transport, recipe_hash: str) -> TaskStatus | None:
    """One recipe as the servers that answer see it; None where none of them does, or knows it."""
    urls = {name: url for name, url in deployment.urls.items() if name in (*AGGREGATORS, ANALYZER, SHUFFLER)}
    asked = await asyncio.gather(*(process_status(transport, name, url) for name, url in urls.items()))
    up = {one.name for one in asked if one.up}
    try:
        found = await _tasks(deployment, transport, up, recipe_hash)
    except (TransportError, TacitError):
        return None
    return found[0] if found else None


async def _counts(deployment: Deployment, transport: Transport, service: str) -> Counts:
    return await read_counts(transport, service, deployment.urls[service], deployment.operator_token(service))


async def _await_answer(asked: Awaitable[T], what: str, troubles: list[str]) -> T | None:
    """Await an answer. If there is none, return None and add the reason to ``troubles``."""
    try:
        return await asked
    except (TransportError, TacitError) as error:
        troubles.append(f"the {what} cannot be read: {_short(error)}")
        return None


async def process_status(transport: Transport, label: str, url: str, pid: int | None = None) -> ProcessStatus:
    """What the readiness page of the process at ``url`` says. Without an answer that can be read it is not ``up``, and
    ``detail`` says why."""
    try:
        ready, found = await readiness(transport, url)
        refused = _counted(found, "refused_certificates", url)
    except (TransportError, Abort, DecodeError) as error:
        return ProcessStatus(label, url, up=False, pid=pid, detail=_short(error))
    words = [str(found[name]) for name in ("trouble", "clock") if found.get(name)]
    for role, count in sorted(refused.items()):
        words.append(f"{plural(count, 'call')} as {role} refused because the certificate has another name")
    told = found.get("kernels")
    return ProcessStatus(
        label, url, up=True, version=str(found.get("version", "")), pid=pid, detail="; ".join(words), ready=ready,
        kernels={str(name): str(path) for name, path in told.items()} if isinstance(told, dict) else {},
    )  # fmt: skip


async def _tasks(
    deployment: Deployment, transport: Transport, up: Collection[str], only: str | None = None
) -> list[TaskStatus]:
    """The recipes that name the leader or the analyzer, with the counts of those that are active. ``only``: the hash of
    the one that is wanted."""
    known = {one["hash"]: one for one in await recipes_of(transport, deployment.urls["recipe_server"])}
    aggregators = [name for name in AGGREGATORS if name in up]
    mixing = [SHUFFLER] if aggregators and SHUFFLER in up else []
    by_aggregators = await _read_tasks(deployment, transport, known, aggregators + mixing, only)
    others = [name for name in (ANALYZER, SHUFFLER) if name in up] if ANALYZER in up else []
    return by_aggregators + await _read_tasks(deployment, transport, known, others, only)


async def _read_tasks(
    deployment: Deployment,
    transport: Transport,
    known: Mapping[str, Mapping[str, Any]],
    servers: Sequence[str],
    only: str | None = None,
) -> list[TaskStatus]:
    """The recipes of the first of ``servers``, in its order, with the counts of each server. ``known``: summaries of
    recipes, by hash."""
    if not servers:
        return []
    bearer = {name: deployment.operator_token(name) for name in servers}
    url = f"{deployment.urls[servers[0]]}/v1/recipes"
    rows = await list_pages(transport, url, "recipes", bearer=bearer[servers[0]])

    async def counts(server: str, task_id: str) -> dict[str, Any]:
        url = f"{deployment.urls[server]}/v1/tasks/{task_id}/status"
        with contextlib.suppress(Abort):  # not active there, or no longer
            return _task_page(await call(transport, "GET", url, bearer=bearer[server]), url)
        return {}

    async def task(row: dict[str, Any]) -> TaskStatus:
        pages = {}
        if row["task_id"]:
            ids = {SHUFFLER: row["recipe_hash"]}  # it has no part in a DAP task
            found = await asyncio.gather(*(counts(name, ids.get(name, row["task_id"])) for name in servers))
            pages = dict(zip(servers, found, strict=True))
        return _task(row, known.get(row["recipe_hash"], {}), pages)

    return list(await asyncio.gather(*(task(row) for row in rows if only in {None, row["recipe_hash"]})))


def _task(row: Mapping[str, Any], recipe: Mapping[str, Any], pages: Mapping[str, dict[str, Any]]) -> TaskStatus:
    """Make the status of one recipe. ``row``: the server's entry; ``recipe``: its summary in the log, or empty;
    ``pages``: status pages by server."""
    from tacit.recipe.model import Interval

    recipe_hash = row["recipe_hash"]
    token = recipe.get("token")
    place = None if token is None else (int(token["epoch"]), int(token["slot"]))
    name = str(recipe.get("name", recipe_hash))
    until = asked_until(Interval.model_validate(recipe["interval"])) if recipe else None
    over = row["state"] == "active" and recipe.get("state") == "over"  # its collection is still served
    state = "over" if over else row["state"]
    return TaskStatus(name, recipe_hash, state, row["rule"], **pages, place=place, asked_until=until)


def _task_page(found: Any, url: str) -> dict[str, Any]:
    """A server's status page of a task. Raises ``DecodeError`` for anything else."""
    if not isinstance(found, dict) or type(found.get("distinct_nullifiers", 0)) is not int:
        raise DecodeError(f"{url}: the answer is not the status of a task")
    _counted(found, "jobs", url)
    return found


def _counted(page: Mapping[str, Any], member: str, url: str) -> dict[str, int]:
    """A member of a page that holds whole numbers by name, empty where it is missing. Raises ``DecodeError`` for any
    other value."""
    found = page.get(member, {})
    if not isinstance(found, dict) or any(type(count) is not int for count in found.values()):
        raise DecodeError(f"{url}: {member} of the answer are not counts by name")
    return found


def _short(error: Exception) -> str:
    """Describe an error without advice."""
    return error.brief if isinstance(error, NoAnswerError) else str(error) or type(error).__name__
