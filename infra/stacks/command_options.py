"""Options that say where a command works, in a local stack's folder or on a remote recipe server; and file access."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.base.flags import AsJson
from infra.stacks.layout import Layout, load_layout
from tacit.adapters.disk.files import read_bounded
from tacit.adapters.disk.named_files import write_answer
from tacit.adapters.network.http import HttpTransport

if TYPE_CHECKING:
    from tacit.recipe.policy import Policy

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
    """Load the local stack in ``state_dir`` (default ``STATE_DIR``). Raises ``UsageError``."""
    return load_layout((state_dir or STATE_DIR).absolute())


def server_of(state_dir: Path | None, server: str | None) -> str:
    """Return the URL of the recipe server, without a slash at its end: ``server``, or the local stack's."""
    if server is not None and state_dir is not None:
        raise typer.BadParameter("give either --server or --state-dir")
    return server.rstrip("/") if server is not None else layout_of(state_dir).urls["recipe_server"]


def transport_of(state_dir: Path | None, server: str | None) -> HttpTransport:
    """Return a client for that recipe server, for the caller to close. For a local stack it trusts the stack's
    authority, otherwise the system's authorities (or those in the file named by SSL_CERT_FILE)."""
    return HttpTransport() if server is not None else layout_of(state_dir).transport()


def checked_name(text: str) -> str:
    """Return a recipe's name or hash unchanged. Raises ``typer.BadParameter`` for what looks like a long option."""
    if text.startswith("--"):
        raise typer.BadParameter(f"no such option: {text}")
    return text


def read_file(path: Path) -> bytes:
    """Return the file's bytes. Raises ``UsageError`` if it is unreadable or larger than ``MOST_BYTES``."""
    return read_bounded(path, MOST_BYTES)


def write_file(path: Path, data: bytes) -> None:
    """Write ``data`` to the file at ``path``, whole or not at all, or to a terminal or pipe. Raises ``UsageError``."""
    write_answer(path, data)


def policy_of(path: Path) -> Policy:
    """Read and parse the policy in the file at ``path``. Raises ``UsageError``."""
    from tacit.recipe.policy import parse_policy

    return parse_policy(read_file(path), str(path))
