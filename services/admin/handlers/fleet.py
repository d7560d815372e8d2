"""The devices of a staging deployment, in counts."""

from __future__ import annotations

import asyncio

from services.admin.core.calls import Admin, Call, Reply
from services.admin.core.fleet import FleetDocument, read_fleet
from services.admin.core.problems import Problem, refuse


async def shown(call: Call) -> Reply:
    """What the deployment told last."""
    return Reply(await fleet_of(call.admin))


async def fleet_of(admin: Admin) -> FleetDocument:
    """The same as a document. Raises ``Abort`` (404) where this is no staging deployment."""
    if (folder := admin.config.fleet) is None:
        raise refuse(Problem.NOT_FOUND, "there is no fleet here: only a staging deployment can count its devices")
    return await asyncio.to_thread(read_fleet, folder)
