"""Uploads reports at a bounded rate, collects them, and counts the CPU time that the servers' processes used."""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import psutil

from infra.lab.bench.dap.statistics import Statistics
from infra.lab.bench.dap.tasks import Collecting, DapTask
from infra.lab.bench.loading.load import send_all
from infra.lab.bench.loading.processes import cpu_of_tree
from tacit.aggregator.work import creation, resource_url
from tacit.errors import Fatal, UsageError
from tacit.media_types import dap
from tacit.messages import REPORT_ID_SIZE, Interval, PlaintextInputShare, ReportMetadata, Role, UploadRequest
from tacit.models.secure_aggregation.collector import DapSource
from tacit.ports import HttpResponse, Transport
from tacit.roles.client import seal_report
from tacit.task import Task
from tacit.vdaf.native.batch import BatchProver
from tacit.vdaf.prio3 import Prio3Count, Prio3Histogram

CHUNK = 128

HOUR = 3600
DATABASE = "database"
POLL_SECONDS, PATIENCE = 0.5, 600.0
MOST_RATE = 5000.0
CONNECTIONS = 16


@dataclass(frozen=True)
class Load:
    """How many reports, how many of them a second, and for how many seconds the servers are watched after the last one
    where nothing is collected."""

    reports: int
    rate: float
    settle: float = 10.0


@dataclass
class Found:
    """What a run found: reports ``accepted`` (answered without an error and, where they were collected, counted), CPU
    seconds of each process during ``uploading`` and ``afterwards``, wall ``seconds``, and what was wrong."""

    accepted: int = 0
    retries: int = 0
    seconds: float = 0.0
    collected: bool = False
    uploading: dict[str, float] = field(default_factory=dict)
    afterwards: dict[str, float] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)

    def us_per_report(self) -> dict[str, tuple[float, float]]:
        """Microseconds of each process for an accepted report, during uploads and afterwards."""
        count = max(1, self.accepted)
        return {
            name: (1e6 * self.uploading[name] / count, 1e6 * self.afterwards[name] / count) for name in self.uploading
        }

    @property
    def total(self) -> float:
        """Microseconds of all processes for an accepted report."""
        return sum(sum(parts) for parts in self.us_per_report().values())


def require_near(url: str) -> None:
    """Raise ``UsageError`` unless every address of the URL's host is loopback or private: a load is only for one's own
    machines."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None or parts.port is None:
        raise UsageError(f"{url} must be http:// with a host and a port")
    try:
        found = {str(one[4][0]) for one in socket.getaddrinfo(parts.hostname, parts.port)}
    except OSError as error:
        raise UsageError(f"{parts.hostname}: {error.strerror}") from error
    if not all(ipaddress.ip_address(one.partition("%")[0]).is_private for one in found):
        raise UsageError(f"{parts.hostname} is not on this machine or in a private network; no load is sent there")


def named_processes(pids: Sequence[int], database: int | None) -> dict[str, int]:
    """Names of the processes to count, with their ids. Raises ``UsageError`` for one that does not run, or is counted
    with another."""
    named: dict[str, int] = {}
    for pid in pids:
        named[f"{_name(pid)} {pid}"] = pid
    if database is not None:
        named[f"{DATABASE} {database}"] = database
        _name(database)
    for pid in named.values():
        above = {one.pid for one in psutil.Process(pid).parents()}
        if above & set(named.values()):
            raise UsageError(f"process {pid} is a child of another one, with which it is counted already")
    return named


async def measure(
    transport: Transport,
    asked: DapTask,
    processes: Mapping[str, int],
    load: Load,
    statistics: Statistics | None = None,
) -> Found:
    """Run the load against the leader of ``asked``, with ``statistics`` kept fresh meanwhile, whose CPU time is not the
    database's. Raises ``Fatal`` if it does not take or does not release it."""
    found, prepared, kept = Found(), Prepared(asked.task), statistics or Statistics()
    require_near(asked.uploads)
    async with kept.kept_fresh():
        begun, first = time.perf_counter(), _cpu(processes, kept)
        sent = await send_all(
            asked.uploads, prepared.uploads(load.reports), load.rate, CONNECTIONS, media_type=dap("upload-req")
        )
        found.accepted, found.retries = load.reports - sent.bodies, sent.retries
        if sent.bodies:
            found.errors.append(f"{sent.bodies:,} uploads were answered with an error")
        await kept.make()
        uploaded = _cpu(processes, kept)
        if asked.collecting is None:
            await asyncio.sleep(load.settle)
        else:
            await _collect(transport, asked, asked.collecting, prepared.sums, found)
        last = _cpu(processes, kept)
    found.seconds = time.perf_counter() - begun
    found.uploading = {name: uploaded[name] - first[name] for name in processes}
    found.afterwards = {name: last[name] - uploaded[name] for name in processes}
    return found


async def _collect(
    transport: Transport, asked: DapTask, collecting: Collecting, sums: Sequence[int], found: Found
) -> None:
    """Collect everything around now, and compare it with what was sent."""
    source = DapSource(asked.task, collecting.key.key_pair)
    precision = asked.task.time_precision
    start, length = (int(time.time()) - HOUR) // precision, -(-2 * HOUR // precision)
    request = source.request(Interval(start, length))
    method, url = creation(asked.task.version, source.jobs_url, asked.task.task_id[:16])
    sent = {**collecting.headers, "Content-Type": dap("collection-job-req")}
    answer = await transport.request(method, url, headers=sent, body=request)
    _require(answer)
    job = resource_url(source.jobs_url, answer.headers.get("location", "")) if method == "POST" else url
    until = time.monotonic() + PATIENCE
    while not answer.body:
        if time.monotonic() > until:
            raise Fatal(f"the leader released nothing within {PATIENCE:.0f} s")
        await asyncio.sleep(POLL_SECONDS)
        answer = await transport.request("GET", job, headers=collecting.headers)
        _require(answer)
    result = source.opened(request, answer.body)
    found.collected = True
    if result.report_count != found.accepted:
        found.errors.append(f"{result.report_count:,} of {found.accepted:,} accepted reports were collected")
        found.accepted = result.report_count
    elif list(result.values) != list(sums):
        found.errors.append("the collected aggregate is not that of the reports that were sent")


def _require(answer: HttpResponse) -> None:
    if not 200 <= answer.status < 300:
        raise Fatal(f"the leader answered {answer.status} to the collector")


def _cpu(processes: Mapping[str, int], statistics: Statistics) -> dict[str, float]:
    """The CPU seconds of each process so far; of the database without those of ``statistics``."""
    counted = {name: cpu_of_tree(pid) for name, pid in processes.items()}
    return {name: one - statistics.seconds * name.startswith(DATABASE) for name, one in counted.items()}


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error as error:
        raise UsageError(f"no process has the id {pid}") from error


@dataclass
class Prepared:
    """Reports of a task of Prio3Count or Prio3Histogram; ``sums``: the aggregate of those made so far."""

    task: Task
    sums: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not isinstance(self.task.vdaf, Prio3Count | Prio3Histogram):
            raise UsageError("reports are made for Prio3Count and Prio3Histogram")
        self._prover = BatchProver(self.task.vdaf, self.task.ctx)
        self.sums = [0] * self.task.vdaf.flp.OUTPUT_LEN

    async def uploads(self, count: int) -> AsyncIterator[bytes]:
        """Yield the bodies of ``count`` uploads of one report each, dated now."""
        sizes = [min(CHUNK, count - start) for start in range(0, count, CHUNK)]
        ahead = asyncio.ensure_future(asyncio.to_thread(self._make, sizes[0]))
        for following in [*sizes[1:], 0]:
            bodies = await ahead
            ahead = asyncio.ensure_future(asyncio.to_thread(self._make, following))
            for body in bodies:
                yield body
        await ahead

    def _make(self, count: int) -> list[bytes]:
        task, size = self.task, self.task.vdaf.RAND_SIZE
        ids = [os.urandom(REPORT_ID_SIZE) for _ in range(count)]
        answers = self._answers(count)
        made = self._prover.shard(answers, ids, [os.urandom(size) for _ in ids]) if count else []
        now, bodies = task.report_time(time.time()), []
        for report_id, (public_share, leader, helper) in zip(ids, made, strict=True):
            shares = {
                role: PlaintextInputShare((), payload)
                for role, payload in ((Role.LEADER, leader), (Role.HELPER, helper))
            }
            report = seal_report(task, ReportMetadata(report_id, now), public_share, shares, os.urandom)
            bodies.append(UploadRequest((report,)).encode())
        return bodies

    def _answers(self, count: int) -> Sequence[int]:
        """Draw answers, and add them to the sums."""
        if isinstance(self.task.vdaf, Prio3Count):
            bits = [byte & 1 for byte in os.urandom(count)]
            self.sums[0] += sum(bits)
            return bits
        places = [int.from_bytes(os.urandom(4)) % len(self.sums) for _ in range(count)]
        for place in places:
            self.sums[place] += 1
        return places
