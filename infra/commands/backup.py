"""``tacit backup`` and ``tacit restore``: what one service must not lose, at one moment, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.backups import back_up
from infra.backups import restore as put_back
from infra.command_options import AsJson
from infra.deployables import KINDS, kind_of
from infra.terminal import answers, print_json
from tacit.moments import when

Name = Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.", show_default=False)]
Config = Annotated[Path, typer.Option("--config", help="The service's configuration, as tacit serve takes it.")]
Folder = Annotated[Path, typer.Argument(help="A folder that tacit backup made.", show_default=False)]
Out = Annotated[Path, typer.Option("--out", help="The folder to make; an existing one is never replaced.")]


def backup(name: Name, config: Config, out: Out, as_json: AsJson = False) -> None:
    """Copy the database of a service at one moment, running or not, and the files that it makes itself.

    Key files that you made, and the configuration, are not in it: keep those where you keep your keys. It holds secrets
    of the service: encrypt it, and keep it no longer than you would restore it.
    Example: tacit backup leader --config .tacit/leader/config.json --out backups/leader
    """
    _require_known(name)
    contents = back_up(name, config, out)
    if as_json:
        print_json({"backup": str(out), **contents.model_dump()})
    else:
        answers().print(f"{out}: {contents.service} as of {when(contents.made)}", soft_wrap=True, markup=False)


def restore(name: Name, folder: Folder, config: Config, as_json: AsJson = False) -> None:
    """Put a backup's database in the place of that of a service that was stopped; what was there is kept beside it.

    A service that knows what was spent refuses a database that is older than its mark, and says at its start what to do
    (docs/restoring.md).
    Example: tacit restore leader backups/leader --config .tacit/leader/config.json
    """
    _require_known(name)
    done = put_back(name, config, folder)
    before = None if done.before is None else str(done.before)
    if as_json:
        print_json({"service": done.contents.service, "made": done.contents.made, "before": before})
        return
    console = answers()
    console.print(f"{done.contents.service} is as of {when(done.contents.made)}", markup=False)
    if before is not None:
        console.print(f"what was there: {before}", soft_wrap=True, markup=False)
    for file in done.missing:
        console.print(f"put back too: {file}", markup=False)
    console.print(f"start it: tacit serve {name} --config {config}", soft_wrap=True, markup=False)


def _require_known(name: str) -> None:
    if kind_of(name) not in KINDS:
        raise typer.BadParameter(f"no service is called {name}; choose one of {', '.join(KINDS)}")
