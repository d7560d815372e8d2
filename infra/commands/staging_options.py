"""The options of ``tacit staging up``, and checks that this machine supports them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from client_agent.limits import MAX_CLOCK_ERROR
from infra.tools.staging.choices import Driver, Mode
from tacit.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from infra.backing.backends import Wanted
    from infra.stacks.examples import ExampleShards
    from infra.tools.staging.natures import Natures


SKEWED = 0.25
DEFAULT_EPOCH_SECONDS = 600

Agents = Annotated[int, typer.Option("--agents", min=0, max=10_000, help="Devices to run.")]
Single = Annotated[int, typer.Option("--single", min=0, max=50, help="How many of these get a process of their own.")]
PerHost = Annotated[
    int, typer.Option("--per-host", min=1, max=1000, help="At most this many of the others share a process.")
]
EpochSeconds = Annotated[
    int | None,
    typer.Option(
        "--epoch-seconds",
        min=5,
        max=366 * 86400,
        help=f"Token epoch of a new deployment (default {DEFAULT_EPOCH_SECONDS}).",
    ),
]
ModeName = Annotated[
    Mode,
    typer.Option(
        "--mode",
        help="processes, all on loopback; namespaces, a network for each organisation (root); or containers, each with "
        "its organisation's network and database (root, Podman).",
    ),
]
DatabaseImage = Annotated[
    str, typer.Option("--database-image", help="For containers: the PostgreSQL image, which must have a shell.")
]

ClockSkew = Annotated[
    float,
    typer.Option(
        "--clock-skew",
        min=0,
        max=MAX_CLOCK_ERROR,
        metavar="SECONDS",
        help="By how much the clocks of some new devices are wrong.",
    ),
]
Skewed = Annotated[
    float | None,
    typer.Option(
        "--skewed",
        min=0,
        max=1,
        metavar="SHARE",
        help=f"The share of new devices with a wrong clock (default {SKEWED}).",
    ),
]
DrivenBy = Annotated[
    Driver,
    typer.Option(
        "--driven-by",
        help="What makes new devices read the log: polling, announcements by MQTT, or half each (needs Mosquitto).",
    ),
]


def natures_of(clock_skew: float, skewed: float | None, driven_by: Driver) -> Natures:
    """Return the natures of new devices. Raises ``UsageError`` if only one of the clock options is given."""
    from infra.tools.staging.natures import Natures

    share = (SKEWED if clock_skew else 0.0) if skewed is None else skewed
    if bool(clock_skew) != bool(share):
        raise UsageError("--skewed SHARE says how many clocks are wrong, --clock-skew SECONDS by how much; give both")
    return Natures(clock_skew=clock_skew, skewed=share, driven_by=driven_by)


def wanted_for(kind: Mode, named: list[str], driven_by: Driver) -> Wanted:
    """Return the servers to start. Raises ``UsageError`` if this machine or user cannot run such a deployment."""
    from infra.backing.backends import parse_backends
    from infra.backing.backing_servers import BROKER
    from infra.tools.staging.networks import require_namespaces
    from infra.tools.staging.podman_compose import require_containers

    listening = driven_by is not Driver.POLLING
    if listening and kind is not Mode.PROCESSES:
        raise UsageError(f"--driven-by {driven_by} needs a broker on loopback, which {kind} do not reach; leave it out")
    wanted = parse_backends([*named, *([BROKER] if listening else [])], {})
    if kind is Mode.NAMESPACES:
        require_namespaces()
    if kind is Mode.CONTAINERS:
        require_containers()
    if kind is not Mode.PROCESSES and wanted.names:
        raise UsageError(f"--with starts its servers on loopback, which {kind} do not reach; leave it out")
    return wanted


def dealt_to(path: Path | None, kind: Mode, folder: Path, agents: int) -> ExampleShards | None:
    """The examples in the file at ``path`` for every device of the deployment in ``folder``, once it has at least so
    many ``agents``. Raises ``UsageError``, also where devices cannot train."""
    from infra.stacks.examples import deal_examples
    from infra.tools.staging.devices import Devices

    if path is not None and kind is Mode.CONTAINERS:
        raise UsageError("--examples: devices in containers train nothing, as their image has no NumPy; take another "
                         "--mode")  # fmt: skip
    return deal_examples(path, max(agents, Devices.of(folder).present))
