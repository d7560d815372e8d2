"""Putting a document into the log as its analyst: what recipes and series have in common."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.command_options import layout_of, server_of, transport_of
from infra.recipe_outlook import asked_words
from infra.terminal import answers, notes
from tacit.adapters.http import HttpTransport
from tacit.adapters.system import SystemClock
from tacit.operations.services import call
from tacit.recipe.asking import asked_until
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.service.keys import read_signing_key
from tacit.tlog.leaves import LeafType, sign_leaf

AnalystKey = Annotated[Path | None, typer.Option("--key", help="The analyst's signing key (with --server).")]


def publish_document(
    document: Recipe | Series, state_dir: Path | None, server: str | None, key: Path | None
) -> tuple[str, int]:
    """Sign ``document`` and send it, to the local stack's log with its analyst's key, or to ``server`` with ``key``.
    Returns the server's URL and the index of the entry. Raises as ``tacit.operations.services.call``."""
    if (server is None) != (key is None):
        raise typer.BadParameter("--server and --key go together")
    url = server_of(state_dir, server)
    signing_key = read_signing_key(layout_of(state_dir).analyst_key if key is None else key)
    if isinstance(document, Series):
        kind, parties = LeafType.SERIES, document.probe.parties
    else:
        kind, parties = LeafType.RECIPE, document.parties
    leaf = sign_leaf(kind, document.body(), parties.analyst.operator, signing_key)
    answer = asyncio.run(_post(transport_of(state_dir, server), f"{url}/v1/leaves", leaf.encode()))
    return url, answer["index"]


def note_asked(recipe: Recipe) -> None:
    """Say until when devices are asked; where that is over, nobody will answer."""
    now = SystemClock().now()
    over = now > asked_until(recipe.interval)
    notes().print(asked_words(recipe.interval, now), style="yellow" if over else "dim")


def show_published(document: Recipe | Series, index: int) -> None:
    """Say that it is in the log."""
    console = answers()
    console.print(f"published {document.name} as entry {index} of the log", soft_wrap=True)
    console.print(f"hash  {document.hash_text}", soft_wrap=True)


async def _post(client: HttpTransport, url: str, body: bytes) -> Any:
    async with client as transport:
        return await call(transport, "POST", url, body=body)
