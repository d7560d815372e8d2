"""``tacit backup`` and ``tacit restore``: copies what one service must not lose, and puts it back. Every image with a
database has them, so they import no more than a service's own process does."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.base.flags import AsJson
from infra.base.service_names import KINDS, kind_of
from infra.views.terminal import print_json_line
from tacit.errors import UsageError
from tacit.time_format import format_utc

Name = Annotated[str, typer.Argument(help=f"One of: {', '.join(KINDS)}.", show_default=False)]
Config = Annotated[Path, typer.Option("--config", help="The service's configuration, as tacit serve takes it.")]
Folder = Annotated[Path, typer.Argument(help="A folder that tacit backup made.", show_default=False)]
Out = Annotated[
    Path | None,
    typer.Option("--out", help="The folder to create; an existing one is never replaced.", show_default=False),
]
Into = Annotated[
    Path | None,
    typer.Option(
        "--into", help="Create a folder in this one, named after the service and the time.", show_default=False
    ),
]
Keep = Annotated[
    int | None,
    typer.Option(
        "--keep", help="With --into: keep only this many of the service's newest backups.", min=1, show_default=False
    ),
]


To = Annotated[
    list[str] | None,
    typer.Option(
        "--to", metavar="KEY", help="Encrypt to this public key (age1...; default: backup_keys of the configuration)."
    ),
]
Unencrypted = Annotated[
    bool, typer.Option("--unencrypted", help="Encrypt to nobody: whoever reads the backup has the service's secrets.")
]
KeyFile = Annotated[Path | None, typer.Option("--key", help="File (0600) with a private key, of an encrypted backup.")]


def backup(
    name: Name,
    config: Config,
    out: Out = None,
    into: Into = None,
    keep: Keep = None,
    to: To = None,
    unencrypted: Unencrypted = False,
    as_json: AsJson = False,
) -> None:
    """Copy a snapshot of a service's database, running or not, and the files that the service creates itself, all
    encrypted to your public key.

    Key files that you made, and the configuration, are not included: keep them where you keep your keys. Delete a
    backup once you would no longer restore it. For timers: --into FOLDER --keep 7
    Example: tacit backup leader --config .tacit/leader/config.json --out backups/leader --unencrypted
    """
    from infra.backing.backups import back_up, back_up_into
    from infra.stacks.deployables import deployable

    _require_known(name)
    if unencrypted and to:
        raise typer.BadParameter("give either --to or --unencrypted")
    if (into is None) != (keep is None) or (out is None) == (into is None):
        raise typer.BadParameter("give either --out FOLDER or --into FOLDER with --keep NUMBER")
    keys: list[str] | None = [] if unencrypted else to or None
    if keys is None and not deployable(name).load(config).backup_keys:
        raise UsageError(
            f"a backup of the {kind_of(name)} holds its secrets: encrypt it to a public key (--to, or backup_keys in "
            f"{config}; tacit keys generate backup makes one elsewhere), or say --unencrypted"
        )
    if into is not None and keep is not None:
        out, contents = back_up_into(name, config, into, keep, keys)
    elif out is not None:
        contents = back_up(name, config, out, keys)
    if as_json:
        print_json_line({"backup": str(out), **contents.model_dump()})
    else:
        typer.echo(f"{out}: {contents.service} as of {format_utc(contents.made)}")


def restore(name: Name, folder: Folder, config: Config, key: KeyFile = None, as_json: AsJson = False) -> None:
    """Replace the database of a stopped service by a backup; the old database is kept beside it.

    A service that records what was spent refuses a database older than its mark, and says at its start what to do
    (docs/restoring.md).
    Example: tacit restore leader backups/leader --config .tacit/leader/config.json
    """
    from infra.backing.backups import restore as put_back

    _require_known(name)
    done = put_back(name, config, folder, key)
    before = None if done.before is None else str(done.before)
    if as_json:
        print_json_line({"service": done.contents.service, "made": done.contents.made, "before": before})
        return
    typer.echo(f"{done.contents.service} is as of {format_utc(done.contents.made)}")
    if before is not None:
        typer.echo(f"old database: {before}")
    for file in done.missing:
        typer.echo(f"also put back: {file}")
    typer.echo(f"start it: tacit serve {name} --config {config}")


def _require_known(name: str) -> None:
    if kind_of(name) not in KINDS:
        raise typer.BadParameter(f"no service is called {name}; choose one of {', '.join(KINDS)}")
