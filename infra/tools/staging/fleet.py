"""Writes the counts of a deployment's devices for the admin service of the same machine
(``services.admin.questions.fleet``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from infra.base.remembered_servers import amend_config
from infra.stacks.layout import Layout
from infra.tools.staging.agents import count_devices
from infra.tools.staging.devices import Devices
from services.admin.questions.fleet import DEVICES_FILE, REPORT_FILE, devices_of, report_of
from tacit.ports import Clock
from tacit.service.base.secret_files import write_secret

FOLDER = "fleet"
TELL_SECONDS = 5.0


def fleet_folder(layout: Layout) -> Path:
    """The folder to which the deployment writes its counts."""
    return layout.configs["admin"].parent / FOLDER


def let_read_fleet(layout: Layout) -> None:
    """Make the admin service, which has not started yet, show the counts."""
    fleet_folder(layout).mkdir(mode=0o700, exist_ok=True)
    amend_config(layout.configs["admin"], fleet=FOLDER)


async def tell_devices(layout: Layout, mode: str, runs: Callable[[Path], bool], clock: Clock) -> None:
    """Write the counts of the devices every few seconds, until cancelled. ``runs``: as in ``count_devices``."""
    devices = Devices.of(layout.state_dir)
    while True:
        counts = await asyncio.to_thread(count_devices, devices, runs)
        await asyncio.to_thread(_write, layout, DEVICES_FILE, devices_of(clock.now(), mode, counts))
        await clock.sleep(TELL_SECONDS)


def tell_report(layout: Layout, document: dict[str, Any], now: float) -> None:
    """Write the sums of ``tacit staging report`` for the admin service."""
    if fleet_folder(layout).is_dir():
        _write(layout, REPORT_FILE, report_of(now, document))


def _write(layout: Layout, name: str, document: BaseModel) -> None:
    write_secret(fleet_folder(layout) / name, document.model_dump_json(indent=1).encode())
