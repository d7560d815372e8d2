"""``tacit fleet``: very many simulated devices against a stack, over the real wire."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from client_agent.fleet.arrivals import Profile
from client_agent.fleet.faults import parse_faults
from client_agent.fleet.population import HELP as DATA_HELP
from client_agent.fleet.prepared import read_header
from client_agent.fleet.target import Target
from infra.fleet.origin import Origin, configured_origin, local_origin, open_target, population_of
from infra.fleet.progress import showing
from infra.fleet.report import show, show_prepared, write_report
from infra.fleet.run import FleetRun, Load
from infra.places import AsJson, StateDir, checked_name, layout_of
from infra.terminal import answers, notes, print_json
from tacit.errors import UsageError

app = typer.Typer(help="Simulate very many devices over the real wire.", no_args_is_help=True)

OPT_IN_SECONDS = 30.0
TOKENS = ("issued", "direct")

Recipe = Annotated[str, typer.Option("--recipe", metavar="HASH|NAME", help="The recipe that they are asked.")]
Workers = Annotated[int, typer.Option("--workers", min=1, max=64, help="Worker processes (shards of devices).")]
Data = Annotated[str, typer.Option("--data", help=f"What the devices know: {DATA_HELP}.")]
PopulationFile = Annotated[
    Path | None, typer.Option("--population", help="CSV file with one row per device, instead of --data.")
]
Column = Annotated[str | None, typer.Option("--column", help="Its column (default: the recipe's metric).")]
Faults = Annotated[str, typer.Option("--faults", help="Shares of the sampled devices: bad-proof=0.01,late=0.005,...")]
Tokens = Annotated[
    str,
    typer.Option("--tokens", help="issued: attester and issuer; direct: signed with the local issuer's key."),
]
AgentConfigFile = Annotated[
    Path | None, typer.Option("--agent-config", help="A deployment's agent configuration, instead of a local stack.")
]
Authority = Annotated[
    Path | None, typer.Option("--authority", help="0600 PEM of the software authority that its attester trusts.")
]
AllowRemote = Annotated[
    bool, typer.Option("--allow-remote", help="Load another machine than this one: only with its operators' consent.")
]
Limit = Annotated[float, typer.Option("--limit", min=1, metavar="SECONDS", help="Stop the workers after so long.")]
Ray = Annotated[str, typer.Option("--ray", metavar="ADDRESS", help="Run the shards as tasks of a Ray cluster.")]


@app.command("run")
def run(
    recipe: Recipe,
    devices: Annotated[int | None, typer.Option("--devices", min=1, help="How many devices are asked.")] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=0.001, help="Contributions a second (default: as fast as it goes).")
    ] = None,
    profile: Annotated[Profile, typer.Option("--profile", help="How contributions arrive.")] = Profile.STEADY,
    faults: Faults = "",
    workers: Workers = 1,
    in_flight: Annotated[
        int, typer.Option("--in-flight", min=1, max=4096, help="Most contributions on their way, per worker.")
    ] = 64,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Compare what the stack counted with what was sent; 1 if it differs.")
    ] = False,
    prepared: Annotated[
        Path | None, typer.Option("--prepared", help="Send the contributions of this file (tacit fleet prepare).")
    ] = None,
    data: Data = "zipf",
    population: PopulationFile = None,
    column: Column = None,
    tokens: Tokens = "issued",
    state_dir: StateDir = None,
    agent_config: AgentConfigFile = None,
    authority: Authority = None,
    allow_remote: AllowRemote = False,
    limit: Limit = 3600.0,
    ray: Ray = "",
    out: Annotated[Path | None, typer.Option("--out", help="Folder for the report (JSON, pictures, page).")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a fleet: every device its own datum, coin and journal line, every contribution over the real wire.

    Example: tacit fleet run --devices 100000 --recipe visits --workers 2 --oracle --out fleet-out
    """
    origin, target = _opened(recipe, state_dir, agent_config, authority, allow_remote=allow_remote)
    if prepared is None and devices is None:
        raise typer.BadParameter("--devices is needed, or --prepared")
    load = Load(
        devices=devices or read_header(prepared or Path()).devices,
        rate=rate,
        profile=profile,
        faults=parse_faults(faults),
        workers=workers,
        window=in_flight,
        direct=_direct(tokens),
        limit=limit,
        ray=ray,
        prepared=prepared,
    )
    fleet = FleetRun(origin, target, load, population_of(target.recipe, data, population, column))
    console = notes()
    console.print(f"journals: {fleet.folder}")
    with showing(console) as look:
        result, verdict = fleet.run(look, oracle)
    written = write_report(result, verdict, load, target, out) if out is not None else []
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
    data: Data = "zipf",
    population: PopulationFile = None,
    column: Column = None,
    tokens: Tokens = "issued",
    state_dir: StateDir = None,
    agent_config: AgentConfigFile = None,
    authority: Authority = None,
    allow_remote: AllowRemote = False,
    limit: Limit = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Make the contributions of a fleet before a load test, so that it does not pay for the devices.

    Example: tacit fleet prepare --devices 1000000 --recipe visits --tokens direct --workers 2 --out visits.fleet
    """
    if out.exists():
        raise UsageError(f"{out}: exists already; choose another --out")
    origin, target = _opened(recipe, state_dir, agent_config, authority, allow_remote=allow_remote)
    load = Load(devices=devices, faults=parse_faults(faults), workers=workers, direct=_direct(tokens), limit=limit)
    fleet = FleetRun(origin, target, load, population_of(target.recipe, data, population, column))
    with showing(notes()) as look:
        result = fleet.prepare(out.absolute(), look)
    if as_json:
        print_json({**result.document(), "prepared": result.prepared, "bytes": out.stat().st_size})
    else:
        show_prepared(result, load, out, answers())


def _opened(
    recipe: str, state_dir: Path | None, agent_config: Path | None, authority: Path | None, *, allow_remote: bool
) -> tuple[Origin, Target]:
    """Where the fleet goes, verified as a device verifies it."""
    if (agent_config is None) != (authority is None):
        raise typer.BadParameter("--agent-config and --authority go together")
    if agent_config is not None and authority is not None:
        if state_dir is not None:
            raise typer.BadParameter("give either --state-dir or --agent-config")
        origin = configured_origin(agent_config, authority)
    else:
        origin = local_origin(layout_of(state_dir))
    target = asyncio.run(open_target(origin, checked_name(recipe), OPT_IN_SECONDS))
    if not allow_remote:
        target.require_local()
    return origin, target


def _direct(tokens: str) -> bool:
    if tokens not in TOKENS:
        raise typer.BadParameter("--tokens is issued or direct")
    return tokens == "direct"
