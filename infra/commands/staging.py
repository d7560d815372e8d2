"""``tacit staging``: runs every organisation of a deployment on this machine, and hundreds of real devices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.text import Text

from infra.base.machine_load import how_busy
from infra.commands.images import Base
from infra.commands.images import images as images_command
from infra.commands.results import collector_access
from infra.commands.staging_options import (
    DEFAULT_EPOCH_SECONDS,
    Agents,
    ClockSkew,
    DatabaseImage,
    DrivenBy,
    EpochSeconds,
    ModeName,
    PerHost,
    Single,
    Skewed,
    dealt_to,
    natures_of,
    wanted_for,
)
from infra.commands.up import Backends, BatchFloor, ExamplesFile, MaxUpload, ReleaseCap, UnboundedLocal
from infra.stacks.command_options import AsJson, layout_of
from infra.stacks.layout import INDEX, UP_LOCK, Layout, claim_folder
from infra.stacks.opening import open_stack
from infra.tools.images.context import DEFAULT_BASE
from infra.tools.staging.choices import Driver, Mode
from infra.views.terminal import answers, notes, plain_table, print_json, print_json_line
from tacit.adapters.disk.folder_lock import alone_in
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.counting_words import plural
from tacit.operations.calls import recipes_of

if TYPE_CHECKING:
    from infra.backing.backends import Wanted
    from infra.stacks.examples import ExampleShards
    from infra.tools.staging.running import Running
    from infra.tools.staging.starting import Crowd


DEFAULT_STATE_DIR = Path(".tacit-staging")
DEFAULT_DATABASE_IMAGE = "docker.io/library/postgres:16"
PER_HOST = 250
SINGLE = 2
ANSWER_SECONDS = 10.0

app = typer.Typer(help="Run a whole deployment with many devices on this machine.", no_args_is_help=True)
app.command("images")(images_command)

StagingDir = Annotated[
    Path, typer.Option("--state-dir", help=f"The deployment's folder (default {DEFAULT_STATE_DIR}).")
]


@app.command("up")
def up(
    agents: Agents = 100,
    mode: ModeName = Mode.PROCESSES,
    single: Single = SINGLE,
    per_host: PerHost = PER_HOST,
    epoch_seconds: EpochSeconds = None,
    batch_floor: BatchFloor = None,
    allow_unbounded_local: UnboundedLocal = False,
    release_cap: ReleaseCap = None,
    max_upload: MaxUpload = None,
    examples: ExamplesFile = None,
    backends_named: Backends = None,
    clock_skew: ClockSkew = 0.0,
    skewed: Skewed = None,
    driven_by: DrivenBy = Driver.POLLING,
    base: Base = DEFAULT_BASE,
    database_image: DatabaseImage = DEFAULT_DATABASE_IMAGE,
    state_dir: StagingDir = DEFAULT_STATE_DIR,
    as_json: AsJson = False,
) -> None:
    """Run every organisation with TLS on every leg, and real devices, until Ctrl-C or tacit staging down.

    A new folder gets fresh keys; devices that exist already stay. Example:
    tacit staging up --agents 500 --mode processes
    """
    from infra.tools.staging.starting import Crowd
    from tacit.operations.pace import default_epoch_seconds

    folder, natures = state_dir.absolute(), natures_of(clock_skew, skewed, driven_by)
    wanted = wanted_for(mode, backends_named or [], driven_by)
    shares = dealt_to(examples, mode, folder, agents)
    fresh = not (folder / INDEX).exists()
    usual = max(DEFAULT_EPOCH_SECONDS, default_epoch_seconds(agents, how_busy()))
    seconds = epoch_seconds or (usual if fresh else None)
    crowd, unbounded = Crowd(agents, single, per_host, natures), allow_unbounded_local or None
    floors = partial(open_stack, folder, seconds, batch_floor, unbounded_local=unbounded)
    opened = partial(floors, release_cap=release_cap, max_upload=max_upload)
    tell = print_json_line if as_json else _show_up
    claim_folder(folder)
    with alone_in(folder, UP_LOCK, "a stack runs here; choose another --state-dir, or stop that one"):
        if mode is Mode.CONTAINERS:
            _in_containers(folder, opened, crowd, (base, database_image), tell, is_fresh=fresh)
        else:
            _as_processes(folder, opened, crowd, (mode, wanted, shares), tell)


def _in_containers(
    folder: Path,
    opened: Callable[..., Layout],
    crowd: Crowd,
    made_of: tuple[str, str],
    tell: Callable[[dict[str, Any]], None],
    *,
    is_fresh: bool,
) -> None:
    """``made_of``: the base image, and the image of the databases."""
    from infra.tools.images.building import built
    from infra.tools.staging.containers import free_network
    from infra.tools.staging.starting import up_in_containers

    base, database_image = made_of
    images = {name: image.name for name, image in built(base, folder / "images", notes().print).items()}
    addresses = free_network(folder) if is_fresh else None
    layout = opened(tls=True, network=addresses, containers=True)
    up_in_containers(layout, crowd, images, database_image, tell)


def _as_processes(
    folder: Path,
    opened: Callable[..., Layout],
    crowd: Crowd,
    how: tuple[Mode, Wanted, ExampleShards | None],
    tell: Callable[[dict[str, Any]], None],
) -> None:
    from infra.tools.staging.networks import network_of
    from infra.tools.staging.starting import up_as_processes

    kind, wanted, examples = how
    network = network_of(folder) if kind is Mode.NAMESPACES else ""
    layout = opened(tls=True, network=network)
    up_as_processes(layout, crowd, examples, kind, wanted, tell)


def _show_up(document: dict[str, Any]) -> None:
    table = plain_table("organisation", "service", "url")
    for organisation, services in document["organisations"].items():
        for name, url in services.items():
            table.add_row(organisation, name, url)
    console, agents = answers(), document["agents"]
    console.print(table)
    console.print(
        f"{plural(agents['devices'], 'device')} at work: {plural(agents['hosts'], 'host')} and "
        f"{agents['single']} by themselves"
    )
    console.print(f"Ctrl-C stops everything; the folder is {document['state_dir']}", soft_wrap=True)


@app.command("status")
def status(state_dir: StagingDir = DEFAULT_STATE_DIR, as_json: AsJson = False) -> None:
    """Show how many services are ready, and counts of devices and their journal entries.

    Example: tacit staging status
    """
    from infra.tools.staging.running import require_running

    folder = state_dir.absolute()
    running = require_running(folder, UP_LOCK)
    document = {"mode": running.mode.value, **asyncio.run(_counts(layout_of(folder), running))}
    if as_json:
        print_json(document)
    else:
        _show_counts(document)


def _show_counts(document: dict[str, Any]) -> None:
    services, agents = document["services"], document["agents"]
    answers().print(f"{services['ready']} of {services['all']} services ready, {plural(document['recipes'], 'recipe')}")
    answers().print(
        f"{agents['working']} of {agents['devices']} devices at work, {agents['failed']} failed; tokens held for "
        f"{agents['slots_held']} of {agents['slots_known']} slots"
    )
    for name, count in (agents["troubles"] | agents["entries"]).items():
        answers().print(f"  {name}: {count}")
    for problem in document["problems"]:
        answers().print(problem, style="red", soft_wrap=True)
    if services["down"]:
        answers().print(f"next: tacit staging start {' '.join(services['down'])}", soft_wrap=True)


async def _counts(layout: Layout, running: Running) -> dict[str, Any]:
    from infra.stacks.status import stack_status
    from infra.tools.staging.agents import count_devices
    from infra.tools.staging.devices import Devices

    async with layout.transport(timeout=ANSWER_SECONDS) as transport:
        found = await stack_status(layout, transport)
    ready, down = sum(one.ready for one in found.processes), [one.name for one in found.processes if not one.up]
    return {
        "services": {"ready": ready, "all": len(found.processes), "down": down},
        "problems": found.problems,
        "recipes": len(found.tasks),
        "agents": count_devices(Devices.of(layout.state_dir), running.runs),
    }


Services = Annotated[
    list[str] | None, typer.Argument(help="Services, or organisations for all of theirs.", show_default=False)
]
SomeServices = Annotated[
    list[str], typer.Argument(help="Services, or organisations for all of theirs.", show_default=False)
]
Beside = Annotated[
    Literal["accept-rollback", "new-mark"] | None,
    typer.Option("--serve-with", help="This option of tacit serve, for one service and only once."),
]


@app.command("restart")
def restart(services: Services = None, state_dir: StagingDir = DEFAULT_STATE_DIR, as_json: AsJson = False) -> None:
    """Restart services one after another (default: all); each is ready before the next stops.

    Example: tacit staging restart leader helper
    """
    _order("restart", services or (), state_dir, as_json=as_json)


@app.command("stop")
def stop(services: SomeServices, state_dir: StagingDir = DEFAULT_STATE_DIR, as_json: AsJson = False) -> None:
    """Stop services of a running deployment, which continues without them.

    Example: tacit staging stop helper
    """
    _order("stop", services, state_dir, as_json=as_json)


@app.command("start")
def start(
    services: Services = None,
    serve_with: Beside = None,
    state_dir: StagingDir = DEFAULT_STATE_DIR,
    as_json: AsJson = False,
) -> None:
    """Start services that were stopped or have ended (default: all of these).

    Example: tacit staging start helper
    """
    if serve_with and len(services or ()) != 1:
        raise typer.BadParameter("--serve-with needs one service")
    also = () if serve_with is None else (f"--{serve_with}",)
    _order("start", services or (), state_dir, also, as_json=as_json)


def _order(act: str, services: Sequence[str], state_dir: Path, also: Sequence[str] = (), *, as_json: bool) -> None:
    from infra.tools.staging.orders import Act, Order, give_order
    from infra.tools.staging.running import is_held, require_running

    folder = state_dir.absolute()
    require_running(folder, UP_LOCK)
    order = Order(Act(act), services, also)
    answer = asyncio.run(give_order(folder, order, lambda: is_held(folder, UP_LOCK), SystemClock()))
    if as_json:
        print_json(answer)
    else:
        answers().print(f"{order.act}: {', '.join(answer['done'])}", soft_wrap=True)


@app.command("agents")
def agents(
    join: Annotated[int, typer.Option("--join", min=0, max=10_000, help="New devices.")] = 0,
    leave: Annotated[int, typer.Option("--leave", min=0, help="Devices that leave, drawn at random.")] = 0,
    restart: Annotated[int, typer.Option("--restart", min=0, help="Devices that restart.")] = 0,
    state_dir: StagingDir = DEFAULT_STATE_DIR,
    as_json: AsJson = False,
) -> None:
    """Let devices of a running deployment leave, restart and join, in this order; hosts follow within seconds.

    A device that left keeps its journal, for the report. Example:
    tacit staging agents --join 20 --leave 10 --restart 5
    """
    from infra.tools.staging.devices import Devices
    from infra.tools.staging.running import require_running

    folder = state_dir.absolute()
    require_running(folder, UP_LOCK)
    devices, entropy = Devices.of(folder), OsEntropy()
    if not join + leave + restart:
        raise typer.BadParameter("give --join, --leave or --restart with a number")
    devices.leave(leave, entropy)
    devices.restart(restart, entropy)
    devices.join(layout_of(folder), join, entropy, SystemClock().now())
    if as_json:
        print_json({"joined": join, "left": leave, "restarted": restart, "devices": devices.present})
    else:
        answers().print(f"{join} joined, {leave} left, {restart} restart: {plural(devices.present, 'device')}")


@app.command("report")
def report(state_dir: StagingDir = DEFAULT_STATE_DIR, as_json: AsJson = False) -> None:
    """Compare what every device journalled with what was released; exits with 1 if they disagree.

    Example: tacit staging report --json
    """
    from infra.tools.staging.fleet import tell_report
    from infra.tools.staging.running import require_running

    folder = state_dir.absolute()
    require_running(folder, UP_LOCK)
    layout = layout_of(folder)
    document = asyncio.run(_report(layout))
    tell_report(layout, document, SystemClock().now())
    if as_json:
        print_json(document)
    else:
        _show_report(document)
    if document["mismatches"]:
        raise typer.Exit(1)


async def _report(layout: Layout) -> dict[str, Any]:
    from infra.stacks.status import stack_status
    from infra.tools.staging import report as reports
    from infra.tools.staging.devices import Devices
    from tacit.operations.results import read_results
    from tacit.operations.services import logged_recipe

    journals = await reports.read_journals(Devices.of(layout.state_dir).configs)
    async with layout.transport(timeout=ANSWER_SECONDS) as transport:
        server = layout.urls["recipe_server"]
        hashes = [one["hash"] for one in await recipes_of(transport, server)]
        recipes = [(await logged_recipe(transport, server, one))[1] for one in hashes]
        results = await read_results(transport, collector_access(layout))
        found = await stack_status(layout, transport)
    return reports.report(journals, results, found.tasks, recipes)


def _show_report(document: dict[str, Any]) -> None:
    console = answers()
    console.print(f"{document['answered']} of {document['devices']} devices with a journal answered")
    table = plain_table("recipe", "journalled as sent", "released")
    for row in document["recipes"]:
        count = "not yet" if row["released"] is None else str(row["released"])
        table.add_row(Text(row["recipe"]), str(row["journalled"].get("sent", 0)), count)
    console.print(table)
    wrong = document["wrong_clocks"]
    if wrong["devices"]:
        ends = {
            "answered": wrong["answered"],
            "late": wrong["late"],
            **wrong["refused"],
            "not asked": wrong["not_asked"],
        }
        words = ", ".join(f"{count} {name}" for name, count in ends.items())
        console.print(
            f"{plural(wrong['devices'], 'device')} with a wrong clock; for released recipes: {words}",
            markup=False,
        )
    for one in document["mismatches"]:
        console.print(f"{one['recipe'][:8]}: {one['count']} {one['cause']}: {one['detail']}", markup=False)
    if not document["released"]:
        console.print("nothing has been released yet; collect with: tacit collect NAME --wait 60")
    elif not document["mismatches"]:
        console.print("every answer that was sent to a released recipe was counted once")


@app.command("down")
def down(state_dir: StagingDir = DEFAULT_STATE_DIR, as_json: AsJson = False) -> None:
    """Stop a running deployment and wait until all of it has ended; its folder stays.

    Example: tacit staging down
    """
    from infra.tools.staging.running import stop_staging

    folder = state_dir.absolute()
    asyncio.run(stop_staging(folder, UP_LOCK, SystemClock()))
    if as_json:
        print_json({"stopped": str(folder)})
    else:
        answers().print(f"stopped; its folder stays: {folder}", soft_wrap=True)
