"""``tacit collect`` and ``tacit results``: ask for a batch, and show what was released."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from infra.api import REFUSAL_PREFIX, call, hash_of
from infra.layout import Layout
from infra.places import AsJson, StateDir, checked_name, layout_of
from infra.terminal import (
    ADVERSARIES,
    answers,
    delta_text,
    epsilon_text,
    estimate_bar,
    notes,
    plain_table,
    print_json,
    span,
    when,
)
from tacit.adapters.http import AiohttpTransport
from tacit.adapters.system import SystemClock
from tacit.errors import Abort, Refusal
from tacit.ports import Clock, Transport
from tacit.service.config import read_secret

POLL_SECONDS = 0.5
WAITING_RULES = frozenset({"opt-in-missing", "slot-key-missing"})
"""Refusals that leaves which are still to come may lift."""
RELEASED, REFUSED = "released", "refused"

RecipeName = Annotated[str, typer.Argument(metavar="HASH|NAME", help="The recipe's hash, its beginning, or its name.")]


def collect(
    recipe: RecipeName,
    state_dir: StateDir = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="Wait so long for the release.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Ask for a recipe's batch, and show the result once leader and helper have released it.

    Exit code 1 where it is refused (fewer than B contributions, say) or not there in time. Example:
    tacit collect visits --wait 60
    """
    layout = layout_of(state_dir)
    collection, released = asyncio.run(_collect(layout, checked_name(recipe), wait))
    if as_json:
        print_json({**collection, "results": released})
    elif released:
        for document in released:
            show_result(document, answers())
    else:
        answers().print(f"collection {collection['id']} is {collection['state']}{_why(collection)}", soft_wrap=True)
    if wait and not released:
        notes().print(f"not released within {wait:g} seconds; ask again with: tacit collect {recipe} --wait 60")
        raise typer.Exit(1)


async def _collect(layout: Layout, name: str, wait: float) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The collection, and the results if it was released. Raises ``Refusal`` where it was refused."""
    url, bearer, clock = layout.urls["collector"], _operator_token(layout), SystemClock()
    async with AiohttpTransport() as transport:
        recipe_hash = await hash_of(transport, layout.urls["recipe_server"], name)
        until = clock.now() + wait
        with notes().status("waiting for leader and helper"):
            collection = await _asked(transport, url, bearer, recipe_hash, clock, until)
            while collection["state"] not in {RELEASED, REFUSED} and clock.now() < until:
                await clock.sleep(POLL_SECONDS)
                shown = f"{url}/v1/collections/{collection['id']}"
                collection = await call(transport, "GET", shown, bearer=bearer)
        if collection["state"] == REFUSED:
            rule = str(collection.get("rule", "")).rsplit(":", 1)[-1]
            raise Refusal(rule or "collection", str(collection.get("detail", "")))
        if collection["state"] != RELEASED:
            return collection, []
        found = await _results(transport, url, bearer, recipe_hash)
        return collection, [one for one in found if one["batch"] == collection["batch"]]


async def _asked(
    transport: Transport, url: str, bearer: str, recipe_hash: str, clock: Clock, until: float
) -> dict[str, Any]:
    """The collection, asked for again while the collector has not seen the recipe or its opt-ins in the log."""
    body = json.dumps({"recipe_hash": recipe_hash}).encode()
    while True:
        try:
            found = await call(transport, "POST", f"{url}/v1/collections", body=body, bearer=bearer)
        except Abort as problem:
            passing = problem.status == 404 or problem.type.removeprefix(REFUSAL_PREFIX) in WAITING_RULES
            if not passing or clock.now() + POLL_SECONDS >= until:
                raise
            await clock.sleep(POLL_SECONDS)
        else:
            return dict(found)


def _why(collection: dict[str, Any]) -> str:
    """What its last attempt met."""
    rule = str(collection.get("rule", "")).rsplit(":", 1)[-1]
    return f" ({rule}: {collection.get('detail', '')})" if rule else ""


def results(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[HASH|NAME]", help="Only this recipe's results.", show_default=False)
    ] = None,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Show what was released: estimates with their errors, and what each release costs in privacy.

    Example: tacit results visits --state-dir .tacit
    """
    found = asyncio.run(_released(layout_of(state_dir), None if recipe is None else checked_name(recipe)))
    if as_json:
        print_json({"results": found})
        return
    for document in found:
        show_result(document, answers())
    if not found:
        answers().print("nothing was released yet; ask with: tacit collect NAME --wait 60")


async def _released(layout: Layout, name: str | None) -> list[dict[str, Any]]:
    async with AiohttpTransport() as transport:
        recipe_hash = None if name is None else await hash_of(transport, layout.urls["recipe_server"], name)
        return await _results(transport, layout.urls["collector"], _operator_token(layout), recipe_hash)


async def _results(transport: Transport, url: str, bearer: str, recipe_hash: str | None) -> list[dict[str, Any]]:
    document = await call(transport, "GET", f"{url}/v1/results", bearer=bearer)
    return [one for one in document["results"] if recipe_hash in {None, one["recipe_hash"]}]


def _operator_token(layout: Layout) -> str:
    path: Path = layout.credentials["operator"]
    return read_secret(path).decode("ascii", "replace").strip()


def show_result(document: dict[str, Any], console: Console) -> None:
    """Print one released result."""
    buckets = document["buckets"]
    top = max((bucket["estimate"] + 2 * bucket["stderr"] for bucket in buckets), default=1.0)
    table = plain_table("answer", "estimate ━ with 95 % interval ╌", "estimate", "± 1.96 s.e.")
    for column in (0, 2, 3):
        table.columns[column].justify = "right"
    form = ",.4f" if document.get("statistic") == "mean" else ",.0f"
    for bucket in buckets:
        estimate, stderr = bucket["estimate"], bucket["stderr"]
        table.add_row(
            Text(bucket["label"], style="bold"),
            estimate_bar(estimate, stderr, top),
            format(estimate, form),
            Text(format(1.96 * stderr, form), style="dim"),
        )
    interval = document["interval"]
    caption = (
        f"{document['report_count']:,} contributions counted · {span(interval['start'], _end(interval))} · "
        f"released {when(document['released_at'])}"
    )
    title = Text(f"{document['name']}, batch {document['batch']}", style="bold")
    console.print(Panel(Group(table, Text(caption, style="dim")), title=title, title_align="left"))
    console.print(Panel(_price(document["privacy"]), title="[bold]What it costs in privacy", title_align="left"))


def _end(interval: dict[str, int]) -> int:
    return interval["start"] + interval["duration"]


def _price(privacy: dict[str, Any]) -> Group:
    table = plain_table("who might look at a contribution", "ε", "δ")
    for name, value in privacy["by_adversary"].items():
        table.add_row(ADVERSARIES.get(name, name), epsilon_text(value), delta_text(name, value, privacy["delta"]))
    caption = f"{privacy['mechanism']}, {privacy['relation']} neighbours, at n = {privacy['n']:,} contributions"
    return Group(table, Text(caption, style="dim"))
