"""Lets a service say on which kernels it works."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

from aiohttp import web

from tacit.service.app import KERNELS, SERVICE_ENV


def show_kernels(app: web.Application, probes: Mapping[str, Callable[[], str]]) -> None:
    """Let the readiness page say on which kernels the process works: by what they compute, the path that a probe
    returns (``tacit.native_level``). The probes, which may compile, run once beside requests from the start on; with
    ``ServiceEnv.background`` false, none does."""

    async def looking(app: web.Application) -> AsyncIterator[None]:
        async def look() -> None:
            for name, probe in probes.items():
                app[KERNELS][name] = await asyncio.to_thread(probe)

        task = asyncio.ensure_future(look()) if app[SERVICE_ENV].background else None
        yield
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    app.cleanup_ctx.append(looking)
