"""Collects the status of a local stack's processes and servers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from infra.stacks.layout import Layout
from infra.stacks.processes import read_pids
from infra.stacks.workers import known_parts, service_part
from tacit.operations.status import (
    Deployment,
    DeploymentStatus,
    ProcessAt,
    TaskStatus,
    deployment_status,
    recipe_status,
)
from tacit.ports import Transport


async def stack_status(layout: Layout, transport: Transport) -> DeploymentStatus:
    """Query every process and server of a stack. Process ids are given for children of ``tacit up`` that still run."""
    parts = [service_part(layout, name) for name in layout.services] + known_parts(layout)
    pids = {label: pid for label, pid in read_pids(layout.state_dir).items() if lives(pid)}
    processes = [ProcessAt(part.label, part.url, pids.get(part.label)) for part in parts]
    return await deployment_status(_deployment(layout, processes), transport)


async def task_of_stack(layout: Layout, transport: Transport, recipe_hash: str) -> TaskStatus | None:
    """One recipe as its servers in this stack see it; None where none of them answers or knows it."""
    return await recipe_status(_deployment(layout, []), transport, recipe_hash)


def _deployment(layout: Layout, processes: Sequence[ProcessAt]) -> Deployment:
    return Deployment(processes, layout.urls, layout.configs, layout.operator_token)


def lives(pid: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
