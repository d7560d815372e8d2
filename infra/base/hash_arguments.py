"""Recipe hashes on the command line. Their text (base64url) begins with a hyphen in one of 64 cases, and must not be
taken for options then."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand

_LIKE_AN_OPTION = re.compile(r"-[A-Za-z0-9_-]{42}")
"""A hash of 32 bytes that begins with a hyphen; no option has so long a name."""


class HashCommand(TyperCommand):
    """A command that takes hashes as arguments wherever they stand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args``, in which hashes that look like options are moved behind ``--``."""
        with_value = {
            name
            for one in self.params
            if not getattr(one, "is_flag", True)
            for name in (*one.opts, *one.secondary_opts)
        }
        return super().parse_args(ctx, moved(args, with_value))


def moved(args: Sequence[str], with_value: set[str]) -> list[str]:
    """``args`` with the hashes that look like options at the end, behind ``--``, unless they are the value of an option
    (those ``with_value`` have one)."""
    if "--" in args:
        return list(args)
    before = ["", *args]
    found = [one for last, one in zip(before, args, strict=False) if _is_hash(one) and last not in with_value]
    if not found:
        return list(args)
    rest = [one for last, one in zip(before, args, strict=False) if not _is_hash(one) or last in with_value]
    return [*rest, "--", *found]


def taking_hashes(app: typer.Typer) -> typer.Typer:
    """``app``, whose commands, and those of its groups, take such hashes."""
    for command in app.registered_commands:
        command.cls = HashCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            taking_hashes(group.typer_instance)
    return app


def _is_hash(argument: str) -> bool:
    return _LIKE_AN_OPTION.fullmatch(argument) is not None
