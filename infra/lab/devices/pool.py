"""Runs the shards of a fleet, each in a process of its own or as a Ray task on machines of the user's choice.

Worker processes are spawned, not forked: they inherit no sockets, and get secrets only through their plans, of which
``Workers`` carry out one after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any, Self

from infra.lab.devices.metrics import Snapshot
from infra.lab.devices.shard import Shard, ShardPlan, ShardResult, World
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.errors import Fatal, TacitError, UsageError
from tacit.extras import missing_extra
from tacit.ports import TransportError

MAX_WORKERS = 64
POLL_SECONDS = 0.25
STOP_SECONDS = 5.0
ENDED = "a worker of the fleet ended without a result"


@dataclass(frozen=True)
class Failure:
    """What a worker sends instead of a result if it failed."""

    text: str


Look = Callable[[Sequence[Snapshot]], None]
"""Called with the latest progress of every worker."""


async def run_shard(plan: ShardPlan, tell: Callable[[Snapshot], None]) -> ShardResult:
    """Run one shard with the system's clock, randomness and network."""
    target, system = plan.target, SystemClock()
    clock = ShiftedClock(system, start=system.now() + plan.ahead) if plan.ahead else system
    async with HttpTransport(
        connections=2 * plan.window, tls=ClientTls(target.tls_ca), insecure_http=target.insecure_http
    ) as transport:
        return await Shard(plan, World(clock, OsEntropy(), transport), tell).run()


class Workers:
    """Worker processes that start once and run plans again and again, each one plan at a time. A context manager: they
    live while its block runs. After an error they are of no further use."""

    def __init__(self, number: int) -> None:
        """Raises ``UsageError`` for too many."""
        if not 1 <= number <= MAX_WORKERS:
            raise UsageError(f"--workers must be from 1 to {MAX_WORKERS}")
        self.number = number
        self._workers: list[tuple[Any, Connection]] = []

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        try:
            for _ in range(self.number):
                mine, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs,), daemon=True)
                with deaf_to_interrupts():
                    process.start()
                theirs.close()
                self._workers.append((process, mine))
        except BaseException:
            self._end(at_once=True)
            raise
        return self

    def run(self, plans: Sequence[ShardPlan], look: Look, limit_seconds: float) -> list[ShardResult]:
        """Run every plan in a worker of its own. Raises ``Fatal`` if a worker fails or dies or the time is over."""
        until = time.monotonic() + limit_seconds
        connections = [connection for _, connection in self._workers[: len(plans)]]
        for connection, plan in zip(connections, plans, strict=True):
            try:
                connection.send(plan)
            except OSError as error:
                raise Fatal(ENDED) from error
        return _gather(connections, look, until)

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._end(at_once=kind is not None)

    def _end(self, *, at_once: bool) -> None:
        """Workers without a plan end as soon as nobody can send them one; after an error, none is waited for."""
        for process, connection in self._workers:
            if at_once:
                process.terminate()
            connection.close()
        for process, _ in self._workers:
            process.join(STOP_SECONDS / 10)
            if process.is_alive():
                process.terminate()
                process.join(STOP_SECONDS)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()
        self._workers.clear()


def run_in_processes(plans: Sequence[ShardPlan], look: Look, limit_seconds: float) -> list[ShardResult]:
    """Run every plan in a worker process, which ends with it. Raises what ``Workers`` raises."""
    with Workers(len(plans)) as workers:
        return workers.run(plans, look, limit_seconds)


@contextlib.contextmanager
def deaf_to_interrupts() -> Iterator[None]:
    """Processes that start in this block never get SIGINT: Ctrl-C reaches every process of the terminal, but this
    process stops its workers itself."""
    resource_tracker.ensure_running()  # if it started later, it would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_with_parent() -> None:
    """Run in a worker process: end as soon as the process that started it has ended, however that came."""

    def watch(parent: int) -> None:
        wait([parent])
        os._exit(1)

    if (parent := multiprocessing.parent_process()) is not None:
        threading.Thread(target=watch, args=(parent.sentinel,), name="parent", daemon=True).start()


def _gather(connections: Sequence[Connection], look: Look, until: float) -> list[ShardResult]:
    progress = {connection: Snapshot() for connection in connections}
    results: dict[Connection, ShardResult] = {}
    while len(results) < len(connections):
        if time.monotonic() >= until:
            raise Fatal("the fleet's time is over (--limit); its workers were stopped")
        for ready in wait([one for one in connections if one not in results], POLL_SECONDS):
            connection = next(one for one in connections if one is ready)
            try:
                said = connection.recv()
            except EOFError as error:
                raise Fatal(ENDED) from error
            if isinstance(said, Failure):
                raise Fatal(said.text)
            if isinstance(said, ShardResult):
                results[connection] = said
                progress[connection] = said.progress
            else:
                progress[connection] = said
        look(list(progress.values()))
    return [results[connection] for connection in connections]


def _work(connection: Connection) -> None:
    """Run in a worker process: for each plan send the progress, then the result or the error, until nobody is there."""
    end_with_parent()
    with connection, contextlib.suppress(BrokenPipeError, ConnectionResetError, EOFError):
        while True:
            connection.send(_result(connection.recv(), connection.send))


def _result(plan: ShardPlan, tell: Callable[[Snapshot], None]) -> ShardResult | Failure:
    """Run a plan; returns its result, or the error as a ``Failure``."""
    try:
        return _run(run_shard(plan, tell))
    except (TacitError, TransportError, ExceptionGroup) as error:
        return Failure(str(_first(error)))


def _first(error: Exception) -> Exception:
    """Return the first error of a group of tasks. Raises it if it is not an error of Tacit's."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(error, (TacitError, TransportError)):
        raise error
    return error


def run_on_ray(plans: Sequence[ShardPlan], address: str, limit_seconds: float) -> list[ShardResult]:
    """Run every plan as a task of the Ray cluster at ``address`` (``local``: one made for this run). Raises
    ``UsageError`` if Ray is not installed, ``Fatal`` if Ray or a task fails or the time is over."""
    try:
        import ray
    except ImportError as error:
        raise missing_extra("--ray, on every machine,", "ray", "ray") from error
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address=address, log_to_driver=False)
    try:
        task = ray.remote(ray_task)
        said: list[ShardResult | Failure] = ray.get([task.remote(plan) for plan in plans], timeout=limit_seconds)
    except ray.exceptions.RayError as error:
        raise Fatal(f"Ray did not run the shards to their end ({type(error).__name__})") from error
    finally:
        ray.shutdown()
    for one in said:
        if isinstance(one, Failure):
            raise Fatal(one.text)
    return [one for one in said if isinstance(one, ShardResult)]


def ray_task(plan: ShardPlan) -> ShardResult | Failure:
    """Run a shard on a Ray worker, without live progress. Journals stay on the worker's machine."""
    return _result(plan, lambda _progress: None)


def _run(shard: Coroutine[Any, Any, ShardResult]) -> ShardResult:
    """Run ``shard`` in the fastest event loop that is installed."""
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    with contextlib.suppress(ImportError):  # not on every platform
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(shard)
