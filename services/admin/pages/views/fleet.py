"""The page of a staging deployment's devices: how many exist and work, and whether all they sent was released."""

from __future__ import annotations

from aiohttp import web

from services.admin.handlers.fleet import fleet_of
from services.admin.pages.visits import Visit
from services.admin.questions.fleet import QUIET_SECONDS


async def shown(visit: Visit) -> web.StreamResponse:
    """The newest counts of the deployment."""
    found = await fleet_of(visit.admin)
    async with visit.admin.store.read() as tx:
        questions = await tx.questions_of([row.hash for row in found.report.recipes] if found.report else [])
    quiet = found.devices is not None and visit.admin.now - found.devices.at > QUIET_SECONDS
    return visit.show("fleet.html", fleet=found, questions=questions, quiet=quiet)
