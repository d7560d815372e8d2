"""Options of the commands that write, sign and publish recipes and series."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

PartiesFile = Annotated[
    Path | None, typer.Option("--parties", help="JSON file with the recipe's parties, instead of a local stack.")
]
OutFile = Annotated[Path | None, typer.Option("--out", help="Write the recipe here (default: stdout).")]
AnalystKey = Annotated[Path | None, typer.Option("--key", help="The analyst's signing key (with --server).")]
SigningKey = Annotated[
    str,
    typer.Option(
        "--key", help="File with the analyst's signing key; with --pkcs11, its label in the token.", show_default=False
    ),
]
KnownHash = Annotated[
    str | None,
    typer.Option(
        "--hash", help="Sign only the document with this hash. Without it, a person at a terminal is asked to confirm."
    ),
]
LeafFile = Annotated[Path, typer.Option("--out", help="Write the signed leaf here.", show_default=False)]
Now = Annotated[bool, typer.Option("--now", help="Publish even if not every device can decide in time.")]
Anyway = Annotated[bool, typer.Option("--anyway", help="Publish even if too few agents are at work to reach B.")]


@dataclass(frozen=True)
class Insisted:
    """Consent given beforehand: publish even if devices may be late (``now``), or too few (``anyway``)."""

    now: bool = False
    anyway: bool = False
