"""Connects a command of ``tacit admin`` to an admin service, remote or of a local stack, with a person's API key."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.stacks.command_options import StateDir, layout_of
from tacit.errors import Refusal, UsageError

if TYPE_CHECKING:
    from tacit.client import Operator

ADMIN = "admin"
"""The name of the admin service in a stack."""
Command = Callable[..., None]


class Speaker(enum.StrEnum):
    """A person of a local stack; the value names that person's key among the stack's credentials."""

    ADMINISTRATOR = "admin"
    ANALYST = "analyst"
    APPROVER = "approver"
    SECOND_ADMINISTRATOR = "second-admin"


AdminUrl = Annotated[str | None, typer.Option("--url", help="URL of an admin service, instead of a local stack's.")]
KeyFile = Annotated[Path | None, typer.Option("--key-file", help="With --url: file (mode 0600) with your API key.")]


def operator_of(url: str | None, key_file: Path | None, state_dir: Path | None, speaker: Speaker) -> Operator:
    """Return a client for the admin service at ``url``, or for the local stack's as ``speaker``. Raises ``UsageError``
    where the stack lacks the service or the key, and ``typer.BadParameter`` for options that exclude each other."""
    from tacit.client import Operator

    if url is not None:
        if key_file is None:
            raise typer.BadParameter("--url needs --key-file")
        if state_dir is not None:
            raise typer.BadParameter("give either --url or --state-dir")
        return Operator(url, key_file=key_file)
    layout = layout_of(state_dir)
    if ADMIN not in layout.urls:
        raise UsageError(f"{layout.state_dir}: its stack has no admin service yet; start it again with: tacit up")
    key = key_file or layout.credentials.get(speaker.value)
    if key is None:
        raise UsageError(f"{layout.state_dir}: its stack was made without a {speaker.value}; give --key-file")
    return Operator(layout.urls[ADMIN], key_file=key, tls=layout.client_tls)


def reaching(speaker: Speaker) -> Callable[[Command], Command]:
    """Return a decorator that replaces a command's parameter ``operator`` by the options ``--url``, ``--key-file``,
    ``--state-dir`` and ``--as`` (default ``speaker``). A ``RuleError`` of the service becomes a ``Refusal``."""
    chosen = Annotated[Speaker, typer.Option("--as", help="Person of the local stack whose key is used.")]

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True, locals={"Operator": None}).parameters)
        del own["operator"]

        @functools.wraps(command)
        def taking(
            *, url: str | None, key_file: Path | None, state_dir: Path | None, speaker: Speaker, **given: Any
        ) -> None:
            from tacit.client import RuleError

            with operator_of(url, key_file, state_dir, speaker) as operator:
                try:
                    command(operator=operator, **given)
                except RuleError as error:
                    raise Refusal(error.rule, error.detail or error.title) from error

        keyword = inspect.Parameter.KEYWORD_ONLY
        flags = [
            inspect.Parameter("url", keyword, default=None, annotation=AdminUrl),
            inspect.Parameter("key_file", keyword, default=None, annotation=KeyFile),
            inspect.Parameter("state_dir", keyword, default=None, annotation=StateDir),
            inspect.Parameter("speaker", keyword, default=speaker, annotation=chosen),
        ]
        parameters = [*(one.replace(kind=keyword) for one in own.values()), *flags]
        vars(taking)["__signature__"] = inspect.Signature(parameters)
        taking.__annotations__ = {one.name: one.annotation for one in parameters}
        return taking

    return decorate
