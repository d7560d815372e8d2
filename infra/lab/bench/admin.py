"""How long the admin API takes to answer with many rows in the log and the audit log, and how much memory it takes.

The admin service and its recipe server run as real processes. This process sends requests of many kinds on a fixed
schedule, whether or not earlier ones were answered. A latency counts from the time at which a request was due.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import aiohttp
import psutil

from infra.base.free_ports import free_ports
from infra.lab.bench.admin_fill import ADMIN, KEY, RECIPE_SERVER, Filled, Filler
from infra.lab.bench.loading.processes import cpu_of_tree, memory_of_tree
from infra.lab.bench.loading.storage import SQLITE, Backend
from infra.lab.bench.paint import browser, first_paints
from infra.lab.bench.rows import Row, Subject, Timing
from infra.lab.bench.targets import ADMIN_CPU, ADMIN_LATENCY, ADMIN_MEMORY, ADMIN_PAINT, ADMIN_READ
from infra.lab.kit.scratch import scratch_folder
from tacit.errors import Fatal
from tacit.media_types import JSON

READY_SECONDS, READING_SECONDS = 60.0, 900.0
WARM_SECONDS: Final = 8.0
"""Seconds of the same requests before the measurement starts."""
FIRST_PRIORITY: Final = -15
SEED: Final = 1
_TACIT = (sys.executable, "-c", "from infra.cli import main; main()", "serve")
SURVEY: Final = {
    "name": "visits",
    "text": "How many doctor visits?",
    "metric": "mdvis",
    "encoder": {"kind": "boolean"},
    "population": 1000,
}
MIX: Final = (
    "question.list", "question.show", "question.create", "recipe.list", "recipe.show", "ledger.show", "log.show",
    "log.entries", "log.proof", "audit.list", "keys.show", "session.show",
)  # fmt: skip
"""Kinds of requests; each request draws its kind from them at random."""
PAGES: Final = (
    "/", "/questions", "/questions/new", "/questions/{question}", "/results", "/series", "/jobs", "/ledger", "/log",
    "/log/{place}", "/keys", "/audit",
)  # fmt: skip
"""Pages of the dashboard that an approver may see."""


Latencies = dict[str, list[float]]
"""Seconds per answer, by kind of request."""


@dataclass
class Measured:
    """The measured values: latencies and CPU seconds of the admin service per request, one entry per repetition; its
    memory in bytes; seconds until it had read the log; and seconds until the first paint of every page."""

    latencies: list[Latencies] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    memory: float = 0.0
    read: float = 0.0
    paints: dict[str, list[float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """What to measure: ``rate`` requests a second for ``seconds``, with ``recipes`` in a log of ``rows`` entries and as
    many acts in the audit log. ``core``: the core to which the admin service is bound; it and this process then get a
    high priority if allowed. ``database``: the kind that both services use. ``pages``: how often every page of the
    dashboard is opened afterwards. A result is the median over ``repetitions``."""

    recipes: int
    rows: int
    rate: float
    seconds: float
    core: int | None = None
    database: str = SQLITE
    pages: int = 0
    repetitions: int = 1


def admin_rows(asked: Asked) -> Iterator[Row]:
    """Run the whole measurement. Raises ``Fatal`` if it fails, ``UsageError`` if something it needs is missing."""
    if asked.pages:
        browser()
    found, rate = asyncio.run(_measured(asked)), asked.rate
    subject = Subject(asked.database, {"recipes": asked.recipes, "rows": asked.rows})
    together = [[one for several in each.values() for one in several] for each in found.latencies]
    for name, share in (("p50", 50), ("p99", 99)):
        timing = Timing.of([_percentile(one, share) for one in together])
        yield subject.row(ADMIN_LATENCY, name, "", timing, offered_rate=rate)
    for kind in sorted(found.latencies[0]):
        timing = Timing.of([_percentile(each.get(kind, [0.0]), 99) for each in found.latencies])
        yield subject.row(ADMIN_LATENCY, f"p99 of {kind}", "", timing, offered_rate=rate)
    yield subject.row(ADMIN_CPU, "admin", "", Timing.of(found.cpu))
    yield subject.row(ADMIN_READ, "admin", "", Timing(found.read * 1e6, 0.0, 1))
    yield subject.row(ADMIN_MEMORY, "admin", "", Timing(found.memory, 0.0, 1))
    for page, several in found.paints.items():
        yield subject.row(ADMIN_PAINT, page, "", Timing.of(several))


def drawing(seed: int) -> Random:
    """Return a random generator that draws the same requests in every run."""
    return Random(seed)  # noqa: S311 - for a measurement


def _percentile(values: Sequence[float], share: int) -> float:
    return statistics.quantiles(values, n=100)[share - 1] if len(values) > 1 else values[0]


async def _measured(asked: Asked) -> Measured:
    with scratch_folder("tacit-bench-") as folder, Backend(asked.database).running() as database:
        filler = Filler(folder, free_ports(1)[0], await database.fresh((ADMIN, RECIPE_SERVER)))
        return await _measure(await filler.fill(asked.recipes, asked.rows), asked)


async def _measure(filled: Filled, asked: Asked) -> Measured:
    found, rate, seconds = Measured(), asked.rate, asked.seconds
    async with _serving(RECIPE_SERVER, filled.recipe_server), _serving(ADMIN, filled.admin) as (url, pid):
        _prefer(pid, asked.core)
        headers = {"Authorization": f"Bearer {KEY}"}
        async with aiohttp.ClientSession(url, headers=headers, connector=aiohttp.TCPConnector(limit=0)) as session:
            begun = time.monotonic()
            await _until_read(session)
            found.read = time.monotonic() - begun
            await _load(session, filled, rate, min(seconds, WARM_SECONDS))  # fills the caches
            for _ in range(asked.repetitions):
                before = cpu_of_tree(pid)
                found.latencies.append(await _load(session, filled, rate, seconds))
                count = sum(map(len, found.latencies[-1].values()))
                found.cpu.append((cpu_of_tree(pid) - before) / count)
        found.memory = float(memory_of_tree(pid))
        if asked.pages:
            recipe = filled.recipes[-1]
            pages = [page.format(question=recipe[:24], place=filled.entries - 1) for page in PAGES]
            found.paints = await first_paints(url, await _session(url), pages, asked.pages)
    return found


async def _load(session: aiohttp.ClientSession, filled: Filled, rate: float, seconds: float) -> Latencies:
    random, begin, found = drawing(SEED), time.perf_counter(), Latencies()

    async def one(number: int, kind: str, drawn: Random) -> None:
        due = begin + number / rate
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await _send(session, kind, drawn, filled)
        found.setdefault(kind, []).append(time.perf_counter() - due)

    kinds = [random.choice(MIX) for _ in range(int(rate * seconds))]
    await asyncio.gather(*(one(number, kind, drawing(number)) for number, kind in enumerate(kinds)))
    return found


async def _send(session: aiohttp.ClientSession, kind: str, random: Random, filled: Filled) -> None:
    """Send one request. Raises ``Fatal`` if it is refused."""
    recipe, place = random.choice(filled.recipes), random.randrange(filled.entries)
    path = {
        "question.list": f"/v1/questions?cursor={random.randrange(len(filled.recipes))}",
        "question.show": f"/v1/questions/{recipe[:24]}",
        "question.create": "/v1/questions",
        "recipe.list": f"/v1/recipes?cursor={place}",
        "recipe.show": f"/v1/recipes/{recipe}",
        "ledger.show": "/v1/ledger",
        "log.show": "/v1/log",
        "log.entries": f"/v1/log/entries?cursor={place}",
        "log.proof": f"/v1/log/entries/{place}/proof",
        "audit.list": f"/v1/audit?cursor={place}",
        "keys.show": "/v1/keys",
        "session.show": "/v1/session",
    }[kind]
    creates = kind == "question.create"
    body: dict[str, Any] = {"data": json.dumps(SURVEY), "headers": {"Content-Type": JSON}} if creates else {}
    async with session.request("POST" if creates else "GET", path, **body) as answer:
        text = await answer.read()
        if answer.status >= 400:
            raise Fatal(f"the admin service answered {answer.status} to {kind}: {text[:200]!r}")


async def _session(url: str) -> dict[str, str]:
    """The cookie of a browser that has signed in."""
    async with (
        aiohttp.ClientSession(url, cookie_jar=aiohttp.DummyCookieJar()) as session,
        session.post("/v1/session", json={"key": KEY}) as answer,
    ):
        if answer.status != 201:
            raise Fatal(f"cannot sign in to the admin service: {await answer.text()}")
        return {name: morsel.value for name, morsel in answer.cookies.items()}


async def _until_read(session: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(READING_SECONDS):
        while True:
            async with session.get("/v1/ledger") as answer:
                if answer.status == 200:
                    await answer.read()
                    return
                if answer.status != 503:
                    raise Fatal(f"the admin service cannot read the log: {await answer.text()}")
            await asyncio.sleep(0.05)


def _prefer(pid: int, core: int | None) -> None:
    """Bind the service to ``core``, and give a high priority to it and to this process, which measures the time."""
    if core is None:
        return
    process = psutil.Process(pid)
    os.sched_setaffinity(pid, {core})
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, FIRST_PRIORITY)
    for thread in process.threads():
        os.sched_setaffinity(thread.id, {core})
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, thread.id, FIRST_PRIORITY)


@contextlib.asynccontextmanager
async def _serving(name: str, config: Path) -> AsyncIterator[tuple[str, int]]:
    """Run a process of ``tacit serve``; yields its URL and its process id. Raises ``Fatal``."""
    log = config.with_suffix(".log")
    with log.open("wb") as lines:
        process = await asyncio.create_subprocess_exec(
            *_TACIT, name, "--config", str(config), stdout=asyncio.subprocess.PIPE, stderr=lines
        )
    try:
        if process.stdout is None:
            raise Fatal("the process has no stdout")
        async with asyncio.timeout(READY_SECONDS):
            line = await process.stdout.readline()
        if not line:
            raise Fatal(f"the {name} did not start: {log.read_text('utf-8')[-500:]}")
        yield str(json.loads(line)["url"]), process.pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
