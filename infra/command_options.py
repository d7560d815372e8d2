"""Where a command works: a local stack's folder, or a recipe server somewhere else."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.flags import AsJson
from infra.layout import Layout, load_layout
from tacit.adapters.files import read_bounded
from tacit.adapters.http import HttpTransport
from tacit.errors import UsageError
from tacit.recipe.policy import Policy, parse_policy

__all__ = [
    "HASH_ARGUMENT",
    "AsJson",
    "Server",
    "StateDir",
    "checked_name",
    "layout_of",
    "policy_of",
    "read_file",
    "server_of",
    "transport_of",
    "write_file",
]
STATE_DIR = Path(".tacit")
MOST_BYTES = 16 << 20
"""The largest document that a command accepts, in bytes."""

StateDir = Annotated[
    Path | None, typer.Option("--state-dir", help=f"Folder of a local stack (default {STATE_DIR}).", show_default=False)
]
Server = Annotated[str | None, typer.Option("--server", help="URL of a recipe server, instead of a local stack.")]
HASH_ARGUMENT = {"ignore_unknown_options": True}
"""Context settings of commands that take a recipe hash, which may begin with a dash."""


def layout_of(state_dir: Path | None) -> Layout:
    """The local stack in ``state_dir``. Raises ``UsageError``."""
    return load_layout((state_dir or STATE_DIR).absolute())


def server_of(state_dir: Path | None, server: str | None) -> str:
    """URL of the recipe server that is meant, without a slash at its end."""
    if server is not None and state_dir is not None:
        raise typer.BadParameter("give either --server or --state-dir")
    return server.rstrip("/") if server is not None else layout_of(state_dir).urls["recipe_server"]


def transport_of(state_dir: Path | None, server: str | None) -> HttpTransport:
    """A client for that recipe server: a local stack's trusts the stack's authority, another the system's (or those of
    the file that SSL_CERT_FILE names). Close it."""
    return HttpTransport() if server is not None else layout_of(state_dir).transport()


def checked_name(text: str) -> str:
    """A recipe's name or hash; what looks like a long option is a mistake, not a hash."""
    if text.startswith("--"):
        raise typer.BadParameter(f"no such option: {text}")
    return text


def read_file(path: Path) -> bytes:
    """The file's bytes. Raises ``UsageError``."""
    return read_bounded(path, MOST_BYTES)


def write_file(path: Path, data: bytes) -> None:
    """Write the file. Raises ``UsageError``."""
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or 'cannot be written'}") from error


def policy_of(path: Path) -> Policy:
    """The policy in a file. Raises ``UsageError``."""
    return parse_policy(read_file(path), str(path))
