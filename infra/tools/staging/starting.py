"""Starts a whole deployment with its devices, as processes or in containers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import typer

from infra.backing.backends import Wanted, backends
from infra.stacks.deployment import Deployment, deploy
from infra.stacks.examples import ExampleShards, give_examples
from infra.stacks.layout import Layout
from infra.stacks.new_layout import renew_certificates
from infra.tools.staging.choices import Mode
from infra.tools.staging.compose import compose_document
from infra.tools.staging.container_files import hand_over, write_databases, write_prometheus
from infra.tools.staging.containers import alone
from infra.tools.staging.devices import Devices
from infra.tools.staging.fleet import let_read_fleet
from infra.tools.staging.natures import Natures
from infra.tools.staging.networks import join_networks
from infra.tools.staging.running import run_in_containers, run_staging
from infra.views.terminal import notes
from tacit.adapters.system import OsEntropy, SystemClock


class Crowd(NamedTuple):
    """The number of devices, how many of them at most get a process of their own, how many of the others at most share
    one, and the natures of new devices."""

    agents: int
    single: int
    per_host: int
    natures: Natures


def up_as_processes(
    layout: Layout,
    crowd: Crowd,
    examples: ExampleShards | None,
    kind: Mode,
    wanted: Wanted,
    tell: Callable[[dict[str, Any]], None],
) -> None:
    """Run the services of ``layout`` and the devices of ``crowd``, with their ``examples`` of a training, as processes
    until they are told to stop; ``tell`` gets the deployment's document once all are ready. Raises ``typer.Exit`` where
    it ends badly."""
    folder, entropy, now = layout.state_dir, OsEntropy(), SystemClock().now()
    renew_certificates(layout, now)
    with contextlib.ExitStack() as stack:
        stack.enter_context(backends(layout, wanted, entropy, notes().print))
        parts = deploy(layout, Deployment())
        let_read_fleet(layout)
        devices = Devices.of(folder)
        devices.populate(layout, *crowd, entropy, now)
        if examples is not None:
            give_examples(devices.folders, examples)
        network = layout.options.network
        namespaces = stack.enter_context(join_networks(folder, network)) if network else {}
        status = asyncio.run(run_staging(layout, parts, kind, namespaces, notes(), tell))
    if status:
        raise typer.Exit(status)


def up_in_containers(
    layout: Layout, crowd: Crowd, images: Mapping[str, str], database_image: str, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Do the same with each service in a container of its own, from ``images`` by service."""
    devices, entropy, now = Devices.of(layout.state_dir), OsEntropy(), SystemClock().now()
    with alone(layout.state_dir) as compose:
        renew_certificates(layout, now)
        parts = deploy(layout, Deployment())
        devices.populate(layout, *crowd, entropy, now)
        write_databases(layout, entropy, now)
        write_prometheus(layout, parts.first, now)
        hand_over(layout, devices)
        compose.write(compose_document(layout, devices, images, database_image))
        asyncio.run(run_in_containers(layout, compose, parts.first, notes(), tell))
