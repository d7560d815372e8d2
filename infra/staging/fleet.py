"""Counts of a deployment's devices, told to the admin service of the same machine (``services.admin.core.fleet``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from infra.layout import Layout
from infra.remembered_servers import amend_config
from infra.staging.agents import counted
from infra.staging.devices import Devices
from services.admin.core.fleet import DEVICES_FILE, REPORT_FILE, devices_of, report_of
from tacit.ports import Clock
from tacit.service.config import write_secret

FOLDER = "fleet"
TELL_SECONDS = 5.0


def fleet_folder(layout: Layout) -> Path:
    """Where the deployment tells its counts."""
    return layout.configs["admin"].parent / FOLDER


def let_read_fleet(layout: Layout) -> None:
    """Have the admin service, which has yet to start, show what is told."""
    fleet_folder(layout).mkdir(mode=0o700, exist_ok=True)
    amend_config(layout.configs["admin"], fleet=FOLDER)


async def tell_devices(layout: Layout, mode: str, runs: Callable[[Path], bool], clock: Clock) -> None:
    """Tell every few seconds how it goes with the devices, until cancelled. ``runs``: as in ``counted``."""
    devices = Devices.of(layout.state_dir)
    while True:
        counts = await asyncio.to_thread(counted, devices, runs)
        await asyncio.to_thread(_write, layout, DEVICES_FILE, devices_of(clock.now(), mode, counts))
        await clock.sleep(TELL_SECONDS)


def tell_report(layout: Layout, document: dict[str, Any], now: float) -> None:
    """Tell the sums of ``tacit staging report``, where an admin service reads them."""
    if fleet_folder(layout).is_dir():
        _write(layout, REPORT_FILE, report_of(now, document))


def _write(layout: Layout, name: str, document: BaseModel) -> None:
    write_secret(fleet_folder(layout) / name, document.model_dump_json(indent=1).encode())
