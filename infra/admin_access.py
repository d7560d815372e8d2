"""Whose key a command of ``tacit admin`` shows, and to which admin service: one somewhere else, or a local stack's."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.command_options import StateDir, layout_of
from tacit.client import Operator, RuleError
from tacit.errors import Refusal, UsageError

ADMIN = "admin"
"""The service's name in a stack."""
Command = Callable[..., None]


class Speaker(enum.StrEnum):
    """A person of a local stack; the name of their key among its credentials."""

    ADMINISTRATOR = "admin"
    ANALYST = "analyst"
    APPROVER = "approver"
    SECOND_ADMINISTRATOR = "second-admin"


AdminUrl = Annotated[str | None, typer.Option("--url", help="URL of an admin service, instead of a local stack's.")]
KeyFile = Annotated[Path | None, typer.Option("--key-file", help="With --url: file (mode 0600) with your API key.")]


def operator_of(url: str | None, key_file: Path | None, state_dir: Path | None, speaker: Speaker) -> Operator:
    """The client that is meant. Raises ``UsageError``."""
    if url is not None:
        if key_file is None:
            raise typer.BadParameter("--url goes with --key-file")
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
    """A command whose parameter ``operator`` is the client that the flags mean; ``speaker``: who speaks to a local
    stack unless ``--as`` says otherwise. What a rule refuses is a ``Refusal``, as everywhere."""
    chosen = Annotated[Speaker, typer.Option("--as", help="Whose key of a local stack is shown.")]

    def decorate(command: Command) -> Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own["operator"]

        @functools.wraps(command)
        def taking(
            *, url: str | None, key_file: Path | None, state_dir: Path | None, speaker: Speaker, **given: Any
        ) -> None:
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
