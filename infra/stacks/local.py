"""The composition root: builds running services from a layout on disk.

``LocalStack`` runs every service in one process over real loopback HTTP (in the demo, beside the process of the
devices); ``infra.stacks.deployables`` runs one service as a process of its own (``tacit serve``). Both build exactly
the same applications.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from infra.base.service_names import SERVICES
from infra.stacks.deployables import deployable
from infra.stacks.layout import Layout
from tacit.ports import Clock, Entropy, Observer
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.run import started

LOG = "recipe_server"


def with_log(layout: Layout, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the named services of a stack (default: all), preceded by its log if the stack has witnesses."""
    if not names or LOG in names or len(layout.services) == len(SERVICES):
        return names or layout.services
    return (LOG, *names)


class LocalStack:
    """All services of a layout in one process. ``step`` runs their background work; nothing runs by itself."""

    def __init__(
        self,
        layout: Layout,
        clock: Clock,
        entropy: Entropy,
        observer: Observer | None = None,
    ) -> None:
        self.layout = layout
        self.apps: dict[str, web.Application] = {}
        self._clock = clock
        self._entropy = entropy
        self._observer = observer

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[LocalStack]:
        """Listen on the layout's ports while the block runs."""
        async with contextlib.AsyncExitStack() as stack:
            for name in self.layout.services:
                service = deployable(name)
                config = service.load(self.layout.configs[name])
                transport = await stack.enter_async_context(service.make_transport(config))
                deps = ServiceEnv(self._clock, self._entropy, transport, self._observer, background=False)
                self.apps[name] = service.create_app(config, deps)
                await stack.enter_async_context(started(self.apps[name], config.listen))
            yield self

    async def step(self, *names: str) -> int:
        """Run one step of every driver of the named services (default: all), and return how much work was done. A log
        with witnesses first gets its newest checkpoint cosigned, as it would soon after growing."""
        moved = 0
        for name in with_log(self.layout, names):
            for driver in self.apps[name][DRIVERS]:
                moved += await driver.step()
        return moved

    async def settle(self, *names: str, rounds: int = 200) -> None:
        """Step until no work is left, at most ``rounds`` times."""
        for _ in range(rounds):
            if await self.step(*names) == 0:
                return
