"""``tacit serve``: one service in the foreground."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from infra.deployables import SERVICES, run_service
from infra.loops import fastest_loop


def serve(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(SERVICES)}.", show_default=False)],
    config: Annotated[Path, typer.Option("--config", help="The service's configuration, JSON or TOML.")],
    stop_with_stdin: Annotated[
        bool,
        typer.Option("--stop-with-stdin", help="Stop when standard input (a pipe) closes, as under tacit up."),
    ] = False,
) -> None:
    """Run one service until it is told to stop (Ctrl-C or SIGTERM).

    Writes one JSON line {service, url, pid} to stdout once it listens, and its log to stderr.
    """
    if name not in SERVICES:
        raise typer.BadParameter(f"no service is called {name}; choose one of {', '.join(SERVICES)}")
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(_serve(name, config, stop_with_stdin=stop_with_stdin))


async def _serve(name: str, config: Path, *, stop_with_stdin: bool) -> None:
    if stop_with_stdin:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _stop_at_end, sys.stdin.fileno())
    await run_service(name, config)


def _stop_at_end(descriptor: int) -> None:
    """Ask this process to stop, as a signal would, once whoever holds the other end is gone."""
    if not os.read(descriptor, 4096):
        asyncio.get_running_loop().remove_reader(descriptor)
        os.kill(os.getpid(), signal.SIGTERM)
