"""Counts of a staging deployment's devices."""

from __future__ import annotations

import asyncio

from services.admin.api.calls import Admin, Call, Reply
from services.admin.base.problems import Problem, refuse
from services.admin.questions.fleet import FleetDocument, read_fleet


async def show_fleet(call: Call) -> Reply:
    """The newest counts of the deployment."""
    return Reply(await fleet_of(call.admin))


async def fleet_of(admin: Admin) -> FleetDocument:
    """The newest counts as a document. Raises ``Abort`` (404) if this is no staging deployment."""
    if (folder := admin.config.fleet) is None:
        raise refuse(Problem.NOT_FOUND, "this is not a staging deployment, and no other can count its devices")
    return await asyncio.to_thread(read_fleet, folder)
