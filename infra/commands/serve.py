"""``tacit serve``: one service in the foreground."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated

import typer

from infra.deployables import KINDS, run_service
from infra.flags import AlwaysJson
from infra.ingest import run_ingest
from infra.loops import fastest_loop
from tacit.adapters.watermark import Recovery

INGEST = "ingest"
MARKED = ("issuer", "attester", "gateway", "leader", "helper", "witness")
"""The services whose databases say what was spent."""


def serve(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join((*KINDS, INGEST))}.", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The service's configuration, JSON or TOML.")],
    leader_config: Annotated[
        Path | None,
        typer.Option("--leader-config", help=f"For {INGEST}, a gateway and a leader in one process: the leader's."),
    ] = None,
    leader_url: Annotated[
        str | None,
        typer.Option("--leader-url", help=f"For {INGEST}: the leader's URL in the recipes, if not its listener's."),
    ] = None,
    accept_rollback: Annotated[
        bool,
        typer.Option(
            "--accept-rollback",
            help="The database is from a backup: close for good whatever may have been spent since, and go on. Once.",
        ),
    ] = False,
    new_mark: Annotated[
        bool,
        typer.Option("--new-mark", help="The database is complete and only its mark is missing: begin one. Once."),
    ] = False,
    stop_with_stdin: Annotated[
        bool,
        typer.Option("--stop-with-stdin", help="Stop when standard input (a pipe) closes, as under tacit up."),
    ] = False,
    as_json: AlwaysJson = True,
) -> None:
    """Run one service until it is told to stop (Ctrl-C or SIGTERM).

    Writes one JSON line {service, url, pid} to stdout once it listens, and its log to stderr. "ingest" is a gateway
    (--config) and a leader (--leader-config) in one process: uploads reach the leader without a further exchange.

    A database that was restored from a backup is refused; docs/restoring.md says what to do then.
    Example: tacit serve relay --config .tacit/relay/config.json
    """
    del as_json
    if name not in (*KINDS, INGEST):
        raise typer.BadParameter(f"no service is called {name}; choose one of {', '.join((*KINDS, INGEST))}")
    if (name == INGEST) != (leader_config is not None) or (leader_url is not None and name != INGEST):
        raise typer.BadParameter(f"--leader-config goes with {INGEST}, and {INGEST} needs it")
    recovery = _recovery(name, accept_rollback=accept_rollback, new_mark=new_mark)
    if leader_config is None:
        service = run_service(name, config, recovery)
    else:
        service = run_ingest(config, leader_config, leader_url)
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(_serve(service, stop_with_stdin=stop_with_stdin))


def _recovery(name: str, *, accept_rollback: bool, new_mark: bool) -> Recovery:
    """What is said about the one service's database. Raises ``BadParameter``."""
    if accept_rollback and new_mark:
        raise typer.BadParameter("--accept-rollback and --new-mark exclude each other")
    if (accept_rollback or new_mark) and name not in MARKED:
        raise typer.BadParameter(f"only {', '.join(MARKED)} have a mark; serve the one concerned by itself, once")
    return Recovery.ACCEPT if accept_rollback else Recovery.NEW_MARK if new_mark else Recovery.REFUSE


async def _serve(service: Coroutine[None, None, None], *, stop_with_stdin: bool) -> None:
    if stop_with_stdin:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _stop_at_end, sys.stdin.fileno())
    await service


def _stop_at_end(descriptor: int) -> None:
    """Ask this process to stop, as a signal would, once whoever holds the other end is gone."""
    if not os.read(descriptor, 4096):
        asyncio.get_running_loop().remove_reader(descriptor)
        os.kill(os.getpid(), signal.SIGTERM)
