"""Options of commands that need nothing of a stack: a service's process imports no more than these."""

from __future__ import annotations

from typing import Annotated

import typer

AlwaysJson = Annotated[bool, typer.Option("--json", help="As without it: what is printed is JSON.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
