"""Runs a stack in the foreground: starts its processes, calls back when they are ready, and stops all at a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager

from rich.console import Console

from infra.monitoring.scraping import write_scrape_config
from infra.stacks.deployment import Parts
from infra.stacks.layout import Layout
from infra.stacks.processes import ServiceProcess, running
from infra.stacks.readiness_watch import until_recipes, watch_readiness
from infra.stacks.reviving import Reviving
from infra.stacks.workers import Part
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError

WhenReady = Callable[[list[ServiceProcess]], AbstractAsyncContextManager[None]]
"""Makes a context that is entered once every service is ready and recipes can be made, and left before they end."""
Within = Callable[[Part], Sequence[str]]


async def run_stack(
    layout: Layout,
    parts: Parts,
    notes: Console,
    when_ready: WhenReady,
    restart: str,
    within: Within = lambda _part: (),
) -> int:
    """Run the processes of ``layout`` until SIGTERM, SIGINT or SIGHUP, and restart those that die. ``restart`` is as in
    ``infra.stacks.reviving``, ``within`` as in ``infra.stacks.processes.running``. Returns the command's exit code, not
    0 if a service was given up. Raises ``UsageError`` if a process does not start."""
    reviving = Reviving(layout, [], SystemClock(), notes.print, restart)
    await until_told(notes, lambda _stopping: _run(parts, notes, when_ready, within, reviving))
    return reviving.exit_code


async def until_told(notes: Console, work: Callable[[asyncio.Event], Coroutine[None, None, None]]) -> None:
    """Run ``work`` to its end, or until SIGTERM, SIGINT or SIGHUP sets its event and cancels it."""
    stopping = asyncio.Event()
    with _stop_signals(stopping):
        starting = asyncio.ensure_future(work(stopping))
        stop_asked = asyncio.ensure_future(stopping.wait())
        await asyncio.wait((starting, stop_asked), return_when=asyncio.FIRST_COMPLETED)
        stop_asked.cancel()
        if not starting.done():
            notes.print("stopping the services")
            starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting


def tell_prometheus(layout: Layout, services: list[ServiceProcess]) -> None:
    """Write a scrape configuration for a Prometheus that is to watch the stack. Raises ``UsageError``."""
    found = {part.label: part.metrics for one in services for part in one.part.services}
    try:
        write_scrape_config(layout.state_dir, {name: url for name, url in found.items() if url is not None})
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror or 'cannot be written'}") from error


async def _run(parts: Parts, notes: Console, when_ready: WhenReady, within: Within, reviving: Reviving) -> None:
    layout = reviving.layout
    notes.print(f"starting {len(layout.configs)} services in {layout.state_dir}")
    async with running(layout, parts, within) as services:
        reviving.services = services
        if not await until_recipes(layout, SystemClock()):
            notes.print("the log shows no token keys of the next epoch yet; until it does, no recipe can be made")
        async with when_ready(services):
            owners = {part: one for one in services for part in one.part.services}
            looking = asyncio.ensure_future(
                watch_readiness(
                    layout,
                    list(owners),
                    SystemClock(),
                    notes.print,
                    lambda part: not owners[part].runs,
                )
            )
            try:
                await reviving.run()
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)


@contextlib.contextmanager
def _stop_signals(stop: asyncio.Event) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in signals:
        loop.add_signal_handler(number, stop.set)
    try:
        yield
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
