"""Options of commands without a local stack, kept apart so that a service's process imports nothing more."""

from __future__ import annotations

from typing import Annotated

import typer

AlwaysJson = Annotated[bool, typer.Option("--json", help="No effect: the output is always JSON.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
