"""Signs and publishes recipes and series in the log as their analyst."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import typer

from infra.authoring.publishing_time import ready_recipe, ready_series, require_open
from infra.authoring.recipe_options import Insisted
from infra.stacks.command_options import layout_of, read_file, server_of, transport_of
from infra.stacks.layout import Layout
from infra.views.recipe_outlook import asked_words
from infra.views.terminal import answers, json_text, notes, print_json
from tacit.adapters.disk.files import replace_file
from tacit.adapters.disk.folder_lock import turn_in
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import SystemClock
from tacit.errors import UsageError
from tacit.operations.publishing import read_leaf, send_leaf, signed_leaf, verified_document
from tacit.recipe.asking import asked_until
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.service.base.keys import read_signing_key
from tacit.signing import Signer
from tacit.tlog.leaves import SignedLeaf

LOCK = "publish.lock"
"""Held while a draft is placed and published, so that two at the same time take different slots."""

D = TypeVar("D", Recipe, Series)


@dataclass(frozen=True)
class Signing:
    """A request to sign ``file`` with ``key`` and write the leaf to ``out``. ``expected``: the hash that the document
    must have, if known; ``apart``: files that ``out`` must not overwrite."""

    file: Path
    key: Signer
    out: Path
    expected: str | None
    apart: tuple[Path | None, ...]


def sign_file(asked: Signing, read: Callable[[bytes, str], D], show: Callable[[D], None], *, as_json: bool) -> None:
    """Show the document as JSON and in words, sign it, and write its leaf. Without an expected hash, a person at a
    terminal is asked to confirm first. The file is read only once, so that what is shown is what is signed. Raises
    ``UsageError``, ``typer.Abort``, and ``TransportError`` if the key's token does not sign."""
    file, out = asked.file, asked.out
    document = read(read_file(file), str(file))
    if asked.expected not in {None, document.hash_text}:
        raise UsageError(f"{file}: its hash is {document.hash_text}, not that of --hash; it is not signed")
    for kept in (file, *asked.apart):
        if kept is not None and out.resolve() == kept.resolve():
            raise UsageError(f"{out}: this command also reads this file; give --out another name")
    if not as_json:
        print_json(document.body())
        show(document)
        if asked.expected is None and sys.stdin.isatty() and sys.stdout.isatty():
            typer.confirm(f"sign this as {_analyst_of(document)}?", abort=True)
    leaf = signed_leaf(document, asked.key)
    replace_file(out, leaf.encode())
    if as_json:
        written = {"hash": document.hash_text, "name": document.name, "signer": leaf.signer, "file": str(out)}
        print_json({"type": leaf.type.value, **written})
        return
    answers().print(f"signed {leaf.type.value} {document.name} as {leaf.signer}: {out}", soft_wrap=True)
    answers().print(f"hash  {document.hash_text}", soft_wrap=True)


def publish_file(
    file: Path,
    kind: type[D],
    read: Callable[[bytes, str], D],
    state_dir: Path | None,
    server: str | None,
    key: Path | None,
    insisted: Insisted,
) -> tuple[D, str, int]:
    """Publish the document of type ``kind`` in ``file``, signing it first unless the file is a signed leaf: in the
    local stack's log with its analyst's key, or in that of ``server`` with ``key``. A draft's time may be moved before
    (``infra.authoring.publishing_time``); its file is then rewritten. Returns the document, the server's URL and the
    index of the entry. Raises ``UsageError``, ``Refusal``, and what ``tacit.operations.calls.call`` raises."""
    data = read_file(file)
    leaf = read_leaf(data, str(file))
    if leaf is None and (server is None) != (key is None):
        raise typer.BadParameter("--server and --key go together, unless FILE is signed already")
    if leaf is not None and key is not None:
        raise typer.BadParameter(f"{file} is signed already; leave --key out")
    url = server_of(state_dir, server)
    layout = layout_of(state_dir) if server is None else None
    with contextlib.nullcontext() if layout is None else turn_in(layout.state_dir, LOCK):
        if leaf is None:
            document = _ready(read(data, str(file)), file, layout, insisted, signed=False)
            leaf = signed_leaf(
                document, read_signing_key(layout.analyst_key if layout and key is None else Path(key or ""))
            )
        else:
            found = verified_document(leaf)
            if not isinstance(found, kind):
                raise UsageError(f"{file} is a signed {leaf.type}; publish it with: tacit {leaf.type} publish {file}")
            document = _ready(found, file, layout, insisted, signed=True)
        return document, url, asyncio.run(_send(transport_of(state_dir, server), url, leaf))


def _ready(document: D, file: Path, layout: Layout | None, insisted: Insisted, *, signed: bool) -> D:
    """``document`` as it is to be published; ``file`` is rewritten if it was moved. Raises what
    ``infra.authoring.publishing_time.ready_recipe`` raises."""
    if isinstance(document, Series):
        if layout is not None:
            ready_series(document, layout, insisted)
        return document
    if layout is None:
        require_open(document.interval, insisted)
        return document
    ready = ready_recipe(document, layout, insisted, signed=signed)
    if ready.hash != document.hash:
        replace_file(file, json_text(ready.body()).encode())
    return ready


def _analyst_of(document: Recipe | Series) -> str:
    return (document.probe if isinstance(document, Series) else document).parties.analyst.operator


def note_asked(recipe: Recipe) -> None:
    """Print until when devices are asked, as a warning if that time is over and nobody will answer."""
    now = SystemClock().now()
    over = now > asked_until(recipe.interval)
    notes().print(asked_words(recipe.interval, now), style="yellow" if over else "dim")


def show_published(document: Recipe | Series, index: int) -> None:
    """Print that the document is in the log, with its index and hash."""
    console = answers()
    console.print(f"published {document.name} as entry {index} of the log", soft_wrap=True)
    console.print(f"hash  {document.hash_text}", soft_wrap=True)


async def _send(client: HttpTransport, server: str, leaf: SignedLeaf) -> int:
    async with client as transport:
        return await send_leaf(transport, server, leaf)
