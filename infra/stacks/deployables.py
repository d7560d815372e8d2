"""Looks up services by name and runs one in this process.

A service's modules are imported when it is first needed, so that a process that runs one holds no other's code.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from infra.base.garbage import no_collection, spare_what_is_here
from infra.base.loops import loop_name
from infra.base.service_names import KINDS, MODULES, kind_of
from tacit.adapters.databases.recovery import Recovery
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.ports import OwnedTransport
from tacit.service.app import ServiceEnv
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import load_config
from tacit.service.base.log import get_logger
from tacit.service.run import Ready, Site, print_ready, serve_all


@dataclass(frozen=True)
class Deployable:
    """The entry points of one service."""

    name: str
    load: Callable[[Path], ServiceConfig]
    create_app: Callable[[Any, ServiceEnv], web.Application]
    make_transport: Callable[[Any], OwnedTransport]


def deployable(name: str) -> Deployable:
    """Import and return the service called ``name``. Raises ``UsageError`` with the list of names."""
    if kind_of(name) not in MODULES:
        raise UsageError(f"no service is called {name}; choose one of {', '.join(KINDS)}")
    package, model = MODULES[kind_of(name)]
    with no_collection():
        config_model = getattr(importlib.import_module(f"{package}.config"), model)
        app_module = importlib.import_module(f"{package}.app")
    return Deployable(
        name,
        lambda path: load_config(path, config_model),
        app_module.create_app,
        app_module.make_transport,
    )


async def run_service(name: str, config_path: Path, recovery: Recovery = Recovery.REFUSE) -> None:
    """Serve one service until it is told to stop. Raises ``UsageError``."""
    service = deployable(name)
    config = service.load(config_path)
    async with service.make_transport(config) as transport:
        deps = ServiceEnv(SystemClock(), OsEntropy(), transport, recovery=recovery)
        app = service.create_app(config, deps)
        spare_what_is_here()
        await serve_all([Site.of(app, config)], ready=announce, insecure_http=config.insecure_http)


def announce(ready: Ready) -> None:
    """Print the READY line, and log which event loop the service runs on."""
    print_ready(ready)
    get_logger(ready.service).info("serving", event_loop=loop_name())
