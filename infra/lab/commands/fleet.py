"""``tacit fleet``: very many simulated devices that contribute to a stack over the real wire."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.lab.devices.profile import Profile
from infra.stacks.command_options import AsJson, StateDir, checked_name, layout_of
from infra.views.terminal import answers, notes, print_json, span
from tacit.errors import UsageError
from tacit.extras import require_fleet

if TYPE_CHECKING:
    from rich.console import Console

    from infra.lab.fleet.run import FleetRun, Load

app = typer.Typer(help="Simulate very many devices over the real wire.", no_args_is_help=True)

TOKENS = ("issued", "direct")
DATA_HELP = (
    "uniform, zipf[:EXPONENT] (default) or weights:W,W,... for categories (one weight each); "
    "uniform (default) or normal:MEAN,DEVIATION for numbers and vectors; "
    "events[:RATE], the probability in each step, for watched events; "
    "digits (default) for rounds that train a model"
)

Recipe = Annotated[str, typer.Option("--recipe", metavar="HASH|NAME", help="The recipe that the devices answer.")]
OfModel = Annotated[
    str | None,
    typer.Option("--model", help="The model that the recipe must be of: pan-private, pan-private-single, ..."),
]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="Worker processes (shards of devices).")]
Data = Annotated[str | None, typer.Option("--data", help=f"What the devices know: {DATA_HELP}.")]
PopulationFile = Annotated[
    Path | None,
    typer.Option(
        "--population",
        help="CSV file with one row per device (vectors as 1,2,...), instead of --data.",
    ),
]
Missing = Annotated[float, typer.Option("--missing", min=0, max=1, help="Share of devices without a value.")]
Column = Annotated[str | None, typer.Option("--column", help="Column of that file (default: the recipe's metric).")]
Faults = Annotated[str, typer.Option("--faults", help="Shares of the sampled devices: bad-proof=0.01,late=0.005,...")]
Tokens = Annotated[
    str,
    typer.Option("--tokens", help="issued: attester and issuer; direct: signed with the local issuer's key."),
]
AgentConfigFile = Annotated[
    Path | None, typer.Option("--agent-config", help="A deployment's agent configuration, instead of a local stack.")
]
Authority = Annotated[
    Path | None, typer.Option("--authority", help="PEM (mode 0600) of the software authority its attester trusts.")
]
AllowRemote = Annotated[
    bool, typer.Option("--allow-remote", help="Send load to other machines: only with their operators' consent.")
]
Limit = Annotated[float, typer.Option("--limit", min=1, metavar="SECONDS", help="Stop the workers after this time.")]
Ray = Annotated[str, typer.Option("--ray", metavar="ADDRESS", help="Run the shards as tasks of a Ray cluster.")]
Devices = Annotated[int | None, typer.Option("--devices", min=1, help="How many devices are asked.")]
Rate = Annotated[
    float | None, typer.Option("--rate", min=0.001, help="Contributions a second (default: as fast as it goes).")
]
Arrival = Annotated[Profile, typer.Option("--profile", help="How contributions arrive.")]
InFlight = Annotated[int, typer.Option("--in-flight", min=1, max=4096, help="Most contributions in flight per worker.")]
Oracle = Annotated[
    bool,
    typer.Option("--oracle", help="Compare what the stack counted with what was sent; exit with 1 if they differ."),
]
Prepared = Annotated[
    Path | None, typer.Option("--prepared", help="Send the contributions of this file (tacit fleet prepare).")
]
Out = Annotated[Path | None, typer.Option("--out", help="Folder for the report (JSON, pictures, page).")]


@app.command("run")
def run(
    recipe: Recipe,
    model: OfModel = None,
    devices: Devices = None,
    rate: Rate = None,
    profile: Arrival = Profile.STEADY,
    faults: Faults = "",
    workers: Workers = 1,
    in_flight: InFlight = 64,
    oracle: Oracle = False,
    prepared: Prepared = None,
    data: Data = None,
    population: PopulationFile = None,
    column: Column = None,
    missing: Missing = 0.0,
    tokens: Tokens = "issued",
    state_dir: StateDir = None,
    agent_config: AgentConfigFile = None,
    authority: Authority = None,
    allow_remote: AllowRemote = False,
    limit: Limit = 3600.0,
    ray: Ray = "",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Run a fleet: devices with their own datum, coin and journal line send contributions over the real wire.

    For a recipe that watches an event (models pan-private and pan-private-single), every sampled device has a stream of
    events, and keeps encrypted state through all steps before it answers.
    Example: tacit fleet run --devices 1000 --recipe visits --workers 2 --oracle --out fleet-out
    """
    if prepared is None and devices is None:
        raise typer.BadParameter("--devices is needed, or --prepared")
    require_fleet("a fleet")
    from infra.lab.fleet.origin import origin_of
    from infra.lab.fleet.progress import showing
    from infra.lab.fleet.run import Data as Knowledge
    from infra.lab.fleet.run import Load, open_fleet

    load = Load(
        devices=devices, rate=rate, profile=profile, faults=faults, workers=workers, window=in_flight,
        direct=_direct(tokens), limit=limit, ray=ray, prepared=prepared,
    )  # fmt: skip
    origin = origin_of(None if agent_config else layout_of(state_dir), agent_config, authority)
    knowledge = Knowledge(data, population, column, missing)
    with showing(notes()) as view:
        fleet = open_fleet(
            origin, checked_name(recipe), load, knowledge, model=model, allow_remote=allow_remote, say=view.say
        )
    _run(fleet, load, out, oracle=oracle, as_json=as_json)


def _run(fleet: FleetRun, load: Load, out: Path | None, *, oracle: bool, as_json: bool) -> None:
    """Run the fleet, write its report and show the result. Exits with 1 if the oracle found a difference."""
    from infra.lab.fleet.progress import showing
    from infra.lab.fleet.report import show, write_report

    console = notes()
    _say_which(fleet, console)
    console.print(f"journals: {fleet.folder}")
    with showing(console) as view:
        result, verdict = fleet.run(view.look, oracle, view.say)
    written = write_report(result, verdict, load, fleet.target, out) if out is not None else []
    if as_json:
        print_json({**result.document(), "oracle": None if verdict is None else verdict.document()})
    else:
        show(result, verdict, load, answers(), written)
    if verdict is not None and not verdict.holds:
        raise typer.Exit(1)


@app.command("prepare")
def prepare(
    devices: Annotated[int, typer.Option("--devices", min=1, help="How many devices are asked.")],
    recipe: Recipe,
    out: Annotated[Path, typer.Option("--out", help="The file to write (mode 0600).")],
    faults: Faults = "",
    workers: Workers = 1,
    data: Data = None,
    population: PopulationFile = None,
    column: Column = None,
    missing: Missing = 0.0,
    tokens: Tokens = "issued",
    state_dir: StateDir = None,
    agent_config: AgentConfigFile = None,
    authority: Authority = None,
    allow_remote: AllowRemote = False,
    limit: Limit = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Make the contributions of a fleet before a load test, so that the test does not include the devices' work.

    Example: tacit fleet prepare --devices 1000 --recipe visits --tokens direct --workers 2 --out visits.fleet
    """
    if out.exists():
        raise UsageError(f"{out}: exists already; choose another --out")
    require_fleet("a fleet")
    from infra.lab.fleet.origin import origin_of
    from infra.lab.fleet.progress import showing
    from infra.lab.fleet.report import show_prepared
    from infra.lab.fleet.run import Data as Knowledge
    from infra.lab.fleet.run import Load, open_fleet

    load = Load(devices=devices, faults=faults, workers=workers, direct=_direct(tokens), limit=limit)
    origin = origin_of(None if agent_config else layout_of(state_dir), agent_config, authority)
    knowledge = Knowledge(data, population, column, missing)
    with showing(notes()) as view:
        fleet = open_fleet(origin, checked_name(recipe), load, knowledge, allow_remote=allow_remote, say=view.say)
    _say_which(fleet, notes())
    with showing(notes()) as view:
        result = fleet.prepare(out.absolute(), view.look)
    if as_json:
        print_json({**result.document(), "prepared": result.prepared, "bytes": out.stat().st_size})
    else:
        show_prepared(result, load, out, answers())


def _say_which(fleet: FleetRun, console: Console) -> None:
    """Say which recipe is answered: several may have its name."""
    recipe = fleet.target.recipe
    asked = span(recipe.interval.start, recipe.interval.end)
    console.print(f"recipe: {recipe.name}, {recipe.hash_text[:8]}, {asked}")


def _direct(tokens: str) -> bool:
    if tokens not in TOKENS:
        raise typer.BadParameter("--tokens is issued or direct")
    return tokens == "direct"
