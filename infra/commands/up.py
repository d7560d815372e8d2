"""``tacit up``: runs a whole stack on this machine, each service as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.stacks.layout import UP_LOCK, Layout, claim_folder
from infra.stacks.opening import (
    DEFAULT_BATCH_FLOOR,
    DEFAULT_MIN_AUDIENCE,
    DEFAULT_SLOTS,
    STAGING_DELTA,
    STAGING_EPSILON,
    open_stack,
)
from infra.views.terminal import answers, print_json, print_json_line
from infra.views.terminal import notes as stderr_notes
from tacit.adapters.disk.folder_lock import alone_in
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError

if TYPE_CHECKING:
    from infra.backing.backends import Wanted
    from infra.stacks.deployment import Deployment, Parts
    from infra.stacks.examples import ExampleShards
    from infra.stacks.processes import ServiceProcess


DEFAULT_AGENTS = 60
DEFAULT_STATE_DIR = Path(".tacit")


StateFolder = Annotated[Path, typer.Option("--state-dir", help="Where keys, databases and logs live.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout once all are ready.")]
EpochSeconds = Annotated[
    int | None,
    typer.Option(
        "--epoch-seconds",
        min=5,
        max=366 * 86400,
        help="Length of a token epoch of a new stack (default: 60, more for many agents or on a busy machine).",
    ),
]
Slots = Annotated[
    int | None,
    typer.Option(
        "--slots",
        min=1,
        max=64,
        help=f"Recipes for which an epoch of a new stack has tokens (default {DEFAULT_SLOTS}).",
    ),
]
Agents = Annotated[int, typer.Option("--agents", min=0, max=10_000, help="Devices to provision.")]
BatchFloor = Annotated[
    int | None,
    typer.Option(
        "--batch-floor", min=10, help=f"Least B that a new stack's policies accept (default {DEFAULT_BATCH_FLOOR})."
    ),
]
AccountEpsilon = Annotated[
    str | None, typer.Option("--account-epsilon", help=f"Yearly budget of a new stack (default {STAGING_EPSILON}).")
]
AccountDelta = Annotated[str | None, typer.Option("--account-delta", help=f"Its delta (default {STAGING_DELTA}).")]
MinAudience = Annotated[
    int | None,
    typer.Option(
        "--min-audience",
        min=1,
        help=f"Devices that a census must attest for a target, in a new stack (default {DEFAULT_MIN_AUDIENCE}).",
    ),
]
UnboundedLocal = Annotated[
    bool,
    typer.Option(
        "--allow-unbounded-local",
        help="A new stack's parties accept noise shares (sums, means, vectors): more accurate, but leader and helper "
        "together could read every answer.",
    ),
]
ReleaseCap = Annotated[
    str | None,
    typer.Option(
        "--release-cap",
        metavar="EPSILON",
        help="The most epsilon that a new stack's parties let one batch tell (default: 1, half a batch 2).",
    ),
]
MaxUpload = Annotated[
    int | None,
    typer.Option(
        "--max-upload",
        metavar="BYTES",
        help="Largest request with a report in a new stack, for long vectors: 1048576 or 4194304 (default 262144).",
    ),
]
ExamplesFile = Annotated[
    Path | None,
    typer.Option(
        "--examples",
        metavar="FILE.csv",
        help="Deal the examples of a training out over the devices, as their value of the metric that the file is "
        "named after (docs/learning.md).",
    ),
]
Backends = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="NAMES",
        help="Run own servers: postgres (databases), redis (replay window), mosquitto (announcements).",
    ),
]
PostgresUrl = Annotated[
    Path | None,
    typer.Option(
        "--postgres-url-file", help="Use this server: a 0600 file with the URL of a role that may create databases."
    ),
]
RedisUrl = Annotated[Path | None, typer.Option("--redis-url-file", help="Use this server: a 0600 file with its URL.")]
MqttUrl = Annotated[Path | None, typer.Option("--mqtt-url-file", help="Use this broker: a 0600 file with its URL.")]
LeaderWorkers = Annotated[
    int, typer.Option("--leader-workers", min=0, max=64, help="Further leader processes, for jobs only.")
]
HelperWorkers = Annotated[int, typer.Option("--helper-workers", min=1, max=64, help="Helper processes on one address.")]
Together = Annotated[
    bool, typer.Option("--together", help="For load: gateway and leader uploads in one process, and --frames.")
]
InFrames = Annotated[bool, typer.Option("--frames", help="For load: the relay also sends messages in frames.")]
BatchCrypto = Annotated[
    bool, typer.Option("--batch-crypto", help="Gateway, leader and helper open messages with the multi-buffer kernels.")
]


Tls = Annotated[
    bool,
    typer.Option("--tls", help="Use TLS on every leg of a new stack, with certificates of its own authority."),
]


commands = typer.Typer()


@commands.callback(invoke_without_command=True)
def up(
    context: typer.Context,
    state_dir: StateFolder = DEFAULT_STATE_DIR,
    as_json: AsJson = False,
    epoch_seconds: EpochSeconds = None,
    slots: Slots = None,
    agents: Agents = DEFAULT_AGENTS,
    batch_floor: BatchFloor = None,
    account_epsilon: AccountEpsilon = None,
    account_delta: AccountDelta = None,
    min_audience: MinAudience = None,
    allow_unbounded_local: UnboundedLocal = False,
    release_cap: ReleaseCap = None,
    max_upload: MaxUpload = None,
    examples: ExamplesFile = None,
    backends_named: Backends = None,
    postgres_url_file: PostgresUrl = None,
    redis_url_file: RedisUrl = None,
    mqtt_url_file: MqttUrl = None,
    leader_workers: LeaderWorkers = 0,
    helper_workers: HelperWorkers = 1,
    frames: InFrames = False,
    together: Together = False,
    batch_crypto: BatchCrypto = False,
    tls: Tls = False,
) -> None:
    """Run every service as a process of its own until Ctrl-C; a new state folder gets fresh keys.

    Example: tacit up --agents 60 --batch-floor 20 --with postgres,redis,mosquitto --together --batch-crypto
    """
    if context.invoked_subcommand is not None:
        return
    from infra.stacks.deployment import Deployment
    from infra.stacks.examples import deal_examples

    folder, unbounded, secure = state_dir.absolute(), allow_unbounded_local or None, tls or None
    made_with = folder, epoch_seconds, batch_floor, (account_epsilon, account_delta), min_audience, unbounded
    opened = partial(open_stack, *made_with, release_cap, max_upload=max_upload)
    spread = Deployment(together, batch_crypto, leader_workers, helper_workers, frames)
    status = _run(
        folder,
        lambda: opened(tls=secure, network="", slots=slots, agents=agents),
        _parse_wanted(backends_named, postgres_url_file, redis_url_file, mqtt_url_file),
        (spread, agents, deal_examples(examples, agents)),
        as_json=as_json,
    )
    if status:
        raise typer.Exit(status)


@commands.command("restart")
def restart(
    services: Annotated[list[str], typer.Argument(help="Services, by name.", show_default=False)],
    state_dir: StateFolder = DEFAULT_STATE_DIR,
    as_json: AsJson = False,
) -> None:
    """Tell the running tacit up to restart services, one after another.

    Example: tacit up restart helper --state-dir .tacit
    """
    from infra.tools.staging.orders import Act, Order, give_order
    from infra.tools.staging.running import is_held

    folder = state_dir.absolute()
    if not is_held(folder, UP_LOCK):
        raise UsageError(f"{folder}: no stack runs here; start one with: tacit up --state-dir {state_dir}")
    order = Order(Act.RESTART, services)
    answer = asyncio.run(give_order(folder, order, lambda: is_held(folder, UP_LOCK), SystemClock()))
    if as_json:
        print_json(answer)
    else:
        answers().print(f"{order.act}: {', '.join(answer['done'])}", soft_wrap=True)


def _parse_wanted(names: list[str] | None, postgres: Path | None, redis: Path | None, mqtt: Path | None) -> Wanted:
    from infra.backing.backends import POSTGRES, parse_backends
    from infra.backing.backing_servers import BROKER, REDIS

    return parse_backends(names or [], {POSTGRES: postgres, REDIS: redis, BROKER: mqtt})


def _run(
    folder: Path,
    open_layout: Callable[[], Layout],
    wanted: Wanted,
    shape: tuple[Deployment, int, ExampleShards | None],
    *,
    as_json: bool,
) -> int:
    """Run the stack in ``folder`` until it is told to stop, with the ``wanted`` servers, and in the ``shape`` of a
    deployment, a number of devices, and what these have as examples. Returns the exit code."""
    from infra.backing.backends import backends
    from infra.stacks.agents import provision_agents
    from infra.stacks.deployment import deploy
    from infra.stacks.examples import give_examples
    from infra.stacks.new_layout import renew_certificates

    (deployment, agents, examples), entropy = shape, OsEntropy()
    claim_folder(folder)
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            alone_in(folder, UP_LOCK, "a stack runs here; choose another --state-dir, or stop that one")
        )
        try:
            layout = open_layout()
            renew_certificates(layout, SystemClock().now())
            stack.enter_context(backends(layout, wanted, entropy, stderr_notes().print))
            parts = deploy(layout, deployment)
            paths = provision_agents(layout, agents, entropy, SystemClock().now())
            if examples is not None:
                give_examples([path.parent for path in paths], examples)
        except OSError as error:
            raise UsageError(f"{error.filename or folder}: {error.strerror or 'cannot be used'}") from error
        return asyncio.run(_up(layout, paths, parts, as_json=as_json))


async def _up(layout: Layout, agents: list[Path], parts: Parts, *, as_json: bool) -> int:
    """Run the stack, and return the command's exit code."""

    from infra.stacks.running_stack import run_stack, tell_prometheus
    from infra.tools.staging.orders import carry_out_orders
    from infra.views.stack_view import describe, show, where

    @contextlib.asynccontextmanager
    async def shown(services: list[ServiceProcess]) -> AsyncIterator[None]:
        tell_prometheus(layout, services)
        if as_json:
            print_json_line(describe(layout, services))
        else:
            show(layout, services, agents, answers())
        carrying = asyncio.ensure_future(carry_out_orders(layout, services, SystemClock()))
        try:
            yield
        finally:
            carrying.cancel()
            await asyncio.gather(carrying, return_exceptions=True)

    return await run_stack(layout, parts, stderr_notes(), shown, f"tacit up restart {{}}{where(layout)}")
