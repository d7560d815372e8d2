"""``tacit agent watch``, ``record`` and ``state``: events that a device keeps encrypted (``docs/pan-privacy.md``)."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from client_agent.panprivate.config import WatchingConfig
from client_agent.panprivate.keeper import OK, Keeper, keep, opened_keeper, tell
from client_agent.panprivate.watch import kept_step
from infra.command_options import AsJson
from infra.terminal import answers, notes, plain_table, print_json
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import DecodeError, UsageError
from tacit.panprivate.single_server import MAX_OCCURRENCES
from tacit.service.config import load_config

ConfigOption = Annotated[Path, typer.Option("--config", help="What is watched, JSON or TOML.")]


def watch(
    config: ConfigOption,
    until: Annotated[
        float | None, typer.Option("--until", min=0.1, metavar="SECONDS", help="End after so many seconds.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep the encrypted state of watched events until Ctrl-C, and take events from applications by a local socket.

    Example: tacit agent watch --config watches.json
    """
    settings = load_config(config, WatchingConfig)
    clock = SystemClock()
    with opened_keeper(settings, clock, OsEntropy(), _told_as_json if as_json else _told) as keeper:
        asyncio.run(_keep(keeper, settings, clock, until))


async def _keep(keeper: Keeper, settings: WatchingConfig, clock: SystemClock, until: float | None) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    if until is not None:
        loop.call_later(until, stop.set)
    await keep(keeper, settings, clock, stop)


def _told(line: str) -> None:
    notes().print(line, soft_wrap=True, markup=False)


def _told_as_json(line: str) -> None:
    sys.stdout.write(json.dumps({"told": line}) + "\n")
    sys.stdout.flush()


def record(
    event: Annotated[str, typer.Argument(help="Its name in the configuration.")],
    config: ConfigOption,
    times: Annotated[int, typer.Option("--times", min=0, max=MAX_OCCURRENCES, help="How often it happened.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Say that an event happened, to the process that watches (tacit agent watch). Prints nothing without --json.

    Example: tacit agent record visit --config watches.json
    """
    answer = tell(load_config(config, WatchingConfig), event, times)
    if answer != OK:
        raise UsageError(f"{event}: {answer or 'the watching process ended'}; the configuration names what is watched")
    if as_json:
        print_json({"recorded": True})


def state(config: ConfigOption, as_json: AsJson = False) -> None:
    """List the encrypted state of each recipe: ended steps, bytes, file; nothing that depends on events.

    Example: tacit agent state --config watches.json
    """
    settings = load_config(config, WatchingConfig)
    rows = [row for watched in settings.watches if (row := _row(watched.plan.path(settings.state_dir), watched.recipe))]
    if as_json:
        print_json(rows)
        return
    table = plain_table("recipe", "step", "bytes", "path")
    for row in rows:
        table.add_row(row["recipe"][:16], str(row["step"]), f"{row['bytes']:,}", row["path"])
    answers().print(table if rows else "no state here yet; start with: tacit agent watch --config FILE")


def _row(path: Path, recipe: str) -> dict[str, Any] | None:
    """``None`` where there is no state: not begun, sent, or put aside."""
    try:
        return {"recipe": recipe, "step": kept_step(path), "bytes": path.stat().st_size, "path": str(path)}
    except FileNotFoundError:
        return None
    except (OSError, DecodeError) as error:
        raise UsageError(f"{path}: {error}") from error
