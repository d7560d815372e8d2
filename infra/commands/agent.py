"""``tacit agent``: runs one device's agent, and shows what it keeps to itself."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.base.flags import AsJson
from infra.commands import hosting
from tacit.adapters.disk.files import read_bounded
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.methods.base.statistics import MAX_OCCURRENCES

if TYPE_CHECKING:
    from client_agent.config import AgentConfig
    from client_agent.journal import Entry
    from infra.views.agent_lines import Fields

app = typer.Typer(help="Run one device's agent, or read its journal.", no_args_is_help=True)
app.command("host")(hosting.host)

MOST_BYTES = 4 << 20
"""Most bytes of a recipe's file."""

ConfigOption = Annotated[Path, typer.Option("--config", help="The agent's configuration, JSON or TOML.")]


@app.command("run")
def run(
    config: Annotated[
        list[Path], typer.Option("--config", help="An agent's configuration, JSON or TOML; repeat it for several.")
    ],
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, then end.")] = False,
    until: Annotated[
        float | None, typer.Option("--until", min=0.1, metavar="SECONDS", help="End after this many seconds.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON lines even in a terminal.")] = False,
) -> None:
    """Run one agent (or several) until Ctrl-C: follow the log, fetch tokens, decide about recipes, send.

    Events are written to stderr: as short lines in a terminal, otherwise (or with --json) as one JSON line per change.
    With --once, exits with 1 if the log could not be read. Example:
    tacit agent run --config .tacit/agents/0/agent.json
    """
    from client_agent.config import AgentConfig
    from client_agent.process import json_lines, run_agents
    from tacit.service.base.config_files import load_config

    configs = [load_config(path, AgentConfig) for path in config]
    if as_json or not sys.stderr.isatty():
        failed = asyncio.run(run_agents(configs, json_lines(), once=once, until=until))
    else:
        failed = asyncio.run(_run_with_lines(configs, once=once, until=until))
    if failed:
        raise typer.Exit(1)


async def _run_with_lines(configs: list[AgentConfig], *, once: bool, until: float | None) -> bool:
    """Run the agents beside a terminal, in whose lines they share what they report alike."""
    from client_agent.process import run_agents
    from infra.views.agent_lines import AgentLines
    from infra.views.terminal import notes

    lines = AgentLines(len(configs), notes(), SystemClock())

    def tell(agent: int, event: str, told: Fields) -> None:
        if event not in {"started", "stopped"}:  # said once of all of them
            lines.tell(agent, event, told)

    if not once:
        lines.started()
    async with lines.flushed():
        failed = await run_agents(configs, tell, once=once, until=until)
    if not once:
        lines.stopped()
    return failed


@app.command("journal")
def journal(
    config: ConfigOption,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")] = False,
) -> None:
    """Show what this device was asked, refused and sent, and what it was charged.

    Example: tacit agent journal --config .tacit/agents/0/agent.json
    """
    from client_agent.config import AgentConfig
    from client_agent.runner import database_of
    from infra.views.agent_lines import show_journal
    from infra.views.terminal import print_json
    from tacit.service.base.config_files import load_config

    settings = load_config(config, AgentConfig)
    if not database_of(settings).exists():
        raise UsageError(f"{database_of(settings)}: no journal here yet; run the agent first")
    document, entries = asyncio.run(_read(settings))
    if as_json:
        print_json(document)
    else:
        show_journal(document, entries)


async def _read(config: AgentConfig) -> tuple[dict[str, Any], list[Entry]]:
    from client_agent.agent import journal_table
    from client_agent.device_rules import spent_epsilon
    from client_agent.journal import Fact, Trouble
    from client_agent.runner import journal_of
    from tacit.ledger.balance import computed_epsilon
    from tacit.logview.view import LogState

    async with journal_of(config) as store:
        entries = await store.entries()
        state = await store.fact(Fact.LOG_STATE)
        troubles = {fact: Trouble.decode(await store.fact(fact)) for fact in Fact.troubles()}
        rows = await store.prefetches()
    log = LogState.decode(state) if state else LogState()
    document: dict[str, Any] = {
        "log": {"entries": log.size, "failure": log.failure},
        "troubles": {
            fact.value: {"since": trouble.since, "detail": trouble.what}
            for fact, trouble in troubles.items()
            if trouble is not None
        },
        "slots": {"known": len(rows), "held": sum(row.usable for row in rows)},
        "budget": {
            "epsilon": config.budget.epsilon,
            "days": config.budget.days,
            "delta": config.budget.delta,
            "charged": computed_epsilon(spent_epsilon(entries, config.budget, SystemClock().now())),
            "epsilon_with_relay": f"{config.budget.account.epsilon_with_relay:f}",
            "charged_with_relay": computed_epsilon(
                spent_epsilon(entries, config.budget, SystemClock().now(), with_relay=True)
            ),
        },
        "recipes": journal_table(entries),
    }
    return document, entries


@app.command("check")
def check(
    config: ConfigOption,
    metrics: Annotated[
        list[str] | None,
        typer.Argument(metavar="METRIC", help="Metrics that are asked for (default: all that the source names)."),
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", help="Check the metric that this recipe asks for, as it reads it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read this device's files and data as its agent would, and show the values. Sends nothing and keeps nothing.

    Exits with 1 if a value cannot be read: the agent would take part without one, and pay the same. Example:
    tacit agent check mdvis --config .tacit/agents/0/agent.json
    """
    from client_agent.checking import check_files, findings
    from client_agent.config import AgentConfig
    from infra.base.recipe_files import read_recipe
    from infra.views.terminal import answers, plain_table, print_json
    from tacit.service.base.config_files import load_config

    settings = load_config(config, AgentConfig)
    check_files(settings)
    asked = None if recipe is None else read_recipe(read_bounded(recipe, MOST_BYTES), str(recipe))
    found = asyncio.run(findings(settings, metrics or [], asked))
    if as_json:
        print_json({name: {"value": reading.value, "trouble": reading.trouble} for name, reading in found.items()})
    else:
        table = plain_table("metric", "value", "trouble")
        for name, reading in found.items():
            table.add_row(name, "none" if reading.value is None else str(reading.value), reading.trouble)
        answers(least=120).print(table)
    if any(reading.trouble for reading in found.values()):
        raise typer.Exit(1)


@app.command("record")
def record(
    event: Annotated[str, typer.Argument(help="Name of the event: the metric of the recipes that watch it.")],
    config: ConfigOption,
    times: Annotated[int, typer.Option("--times", min=0, max=MAX_OCCURRENCES, help="How often it happened.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Tell this device's agent, which must be at work, that an event happened just now. Prints nothing without --json,
    except a note if no recipe watches the event, so that nothing is kept.

    Example: tacit agent record visit --config .tacit/agents/0/agent.json
    """
    from client_agent.config import AgentConfig
    from client_agent.panprivate.listening import OK, UNWATCHED, tell
    from infra.views.terminal import notes, print_json
    from tacit.service.base.config_files import load_config

    answer = tell(load_config(config, AgentConfig).state_dir, event, times)
    if answer not in {OK, UNWATCHED}:
        raise UsageError(f"{event}: {answer or 'the agent ended'}; an event has a name such as visit")
    if as_json:
        print_json({"recorded": answer == OK})
    elif answer == UNWATCHED:
        notes().print(f"no recipe watches {event} on this device now; nothing was kept", markup=False)


@app.command("state")
def state(config: ConfigOption, as_json: AsJson = False) -> None:
    """List the encrypted state of each recipe that watches an event: step, bytes and file, which depend on no event.

    Example: tacit agent state --config .tacit/agents/0/agent.json
    """
    from client_agent.config import AgentConfig
    from client_agent.panprivate.state_files import FOLDER
    from client_agent.panprivate.watch import states_in
    from infra.views.terminal import answers, plain_table, print_json
    from tacit.service.base.config_files import load_config

    rows = states_in(load_config(config, AgentConfig).state_dir / FOLDER)
    if as_json:
        print_json(rows)
        return
    table = plain_table("recipe", "step", "bytes", "path")
    for row in rows:
        table.add_row(str(row["recipe"]), str(row["step"]), f"{row['bytes']:,}", str(row["path"]))
    answers().print(table if rows else "no state here: this device watches nothing now")
