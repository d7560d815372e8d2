"""``tacit agent record`` and ``state``: records events for recipes that watch them, and lists the encrypted state that
a device keeps for these (``docs/pan-privacy.md``)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.base.flags import AsJson
from tacit.errors import UsageError
from tacit.methods.base.statistics import MAX_OCCURRENCES

ConfigOption = Annotated[Path, typer.Option("--config", help="The agent's configuration, JSON or TOML.")]


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


def state(config: ConfigOption, as_json: AsJson = False) -> None:
    """List the encrypted state of each recipe that watches an event: step, bytes and file, which depend on no event.

    Example: tacit agent state --config .tacit/agents/0/agent.json
    """
    from client_agent.config import AgentConfig
    from client_agent.panprivate.watches import FOLDER, states_in
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
