"""What ``tacit staging up`` may be told, and whether this machine can do it."""

from __future__ import annotations

from typing import Annotated

import typer

from client_agent.config import MAX_CLOCK_ERROR
from infra.backends import Wanted, parse_backends
from infra.backing_servers import BROKER
from infra.staging.natures import Driver, Natures
from infra.staging.networks import require_namespaces
from infra.staging.podman_compose import require_containers
from infra.staging.running import Mode
from tacit.errors import UsageError

SKEWED = 0.25

ModeName = Annotated[
    str,
    typer.Option(
        "--mode",
        help="processes, all on loopback; namespaces, a network for each organisation (root); or containers, each with "
        "its organisation's network and database (root, Podman).",
    ),
]
DatabaseImage = Annotated[
    str, typer.Option("--database-image", help="For containers: the image of PostgreSQL, which needs a shell.")
]

ClockSkew = Annotated[
    float,
    typer.Option(
        "--clock-skew",
        min=0,
        max=MAX_CLOCK_ERROR,
        metavar="SECONDS",
        help="New devices with wrong clocks: by how much.",
    ),
]
Skewed = Annotated[
    float | None,
    typer.Option("--skewed", min=0, max=1, metavar="SHARE", help=f"The share of them (default {SKEWED})."),
]
DrivenBy = Annotated[
    Driver,
    typer.Option(
        "--driven-by",
        help="What has new devices look at the log: polling, announcements by MQTT, or half each (needs Mosquitto).",
    ),
]


def natures_of(clock_skew: float, skewed: float | None, driven_by: Driver) -> Natures:
    """What new devices are to be like. Raises ``UsageError``."""
    share = (SKEWED if clock_skew else 0.0) if skewed is None else skewed
    if bool(clock_skew) != bool(share):
        raise UsageError("--skewed SHARE says how many clocks are wrong, --clock-skew SECONDS by how much; give both")
    return Natures(clock_skew=clock_skew, skewed=share, driven_by=driven_by)


def wanted_for(kind: Mode, named: list[str], driven_by: Driver) -> Wanted:
    """The servers to start. Raises ``UsageError`` where this machine or user cannot run a deployment so."""
    listening = driven_by is not Driver.POLLING
    if listening and kind is not Mode.PROCESSES:
        raise UsageError(
            f"--driven-by {driven_by} needs a broker on loopback, where {kind} do not reach it; leave it out"
        )
    wanted = parse_backends([*named, *([BROKER] if listening else [])], {})
    if kind is Mode.NAMESPACES:
        require_namespaces()
    if kind is Mode.CONTAINERS:
        require_containers()
    if kind is not Mode.PROCESSES and wanted.names:
        raise UsageError(f"--with starts its servers on loopback, where {kind} do not reach them; leave it out")
    return wanted


def mode_of(text: str) -> Mode:
    """The mode of that name; a usage error of the command where there is none."""
    try:
        return Mode(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text}: no such mode; there are {', '.join(Mode)}") from error
