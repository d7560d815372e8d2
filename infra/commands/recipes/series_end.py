"""``tacit series end``: ends a series, so that the slots and the room that it has not used are free."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.authoring.recipe_options import AnalystKey
from infra.stacks.command_options import (
    AsJson,
    Server,
    StateDir,
    checked_name,
    layout_of,
    read_file,
    server_of,
    transport_of,
)
from infra.views.terminal import answers, print_json
from tacit.adapters.disk.named_files import is_readable
from tacit.errors import UsageError

if TYPE_CHECKING:
    from tacit.recipe.series import Series


def end(
    series: Annotated[str, typer.Argument(metavar="HASH|NAME|FILE", help="A series in the stack's log, or in a file.")],
    state_dir: StateDir = None,
    server: Server = None,
    key: AnalystKey = None,
    log_key: Annotated[
        Path | None, typer.Option("--log-key", help="End it as the log's operator, with the log's signing key.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """End a series: no further round is asked, and the slots and the room that it has not used are free. Its total
    stays charged until the last published round is over; without one, nothing is. Rounds that are published go on. It
    cannot be begun again.

    Its analyst may end it, and the operator of the log. Example: tacit series end training.json --state-dir .tacit
    """
    from tacit.operations.publishing import end_of, send_leaf
    from tacit.service.base.keys import read_signing_key

    if key is not None and log_key is not None:
        raise typer.BadParameter("give either --key or --log-key")
    if server is not None and key is None and log_key is None:
        raise typer.BadParameter("--server needs --key or --log-key")
    found = _series(series, state_dir, server)
    if log_key is not None:
        leaf = end_of(found, read_signing_key(log_key), "log")
    else:
        own = layout_of(state_dir).analyst_key if key is None else key
        leaf = end_of(found, read_signing_key(own), "analyst")
    url = server_of(state_dir, server)

    async def send() -> int:
        async with transport_of(state_dir, server) as transport:
            return await send_leaf(transport, url, leaf)

    index = asyncio.run(send())
    if as_json:
        print_json({"hash": found.hash_text, "name": found.name, "index": index})
    else:
        answers().print(f"entry {index} of the log ends {found.name}: no round after it is asked", soft_wrap=True)


def _series(name: str, state_dir: Path | None, server: str | None) -> Series:
    from infra.authoring.series_form import logged_series, read_series

    path = Path(checked_name(name))
    if is_readable(path):
        return read_series(read_file(path), str(path))
    if server is not None:
        raise UsageError(f"{name}: no such file; with --server give the file of the series")
    return asyncio.run(logged_series(name, state_dir)).series
