"""``tacit collect`` and ``tacit results``: ask for a batch, and show what was released."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.api import hash_of
from infra.command_options import AsJson, StateDir, checked_name, layout_of, write_file
from infra.layout import Layout
from infra.result_page import result_page
from infra.result_view import in_order, show_result
from infra.terminal import answers, notes, print_json
from tacit.adapters.system import SystemClock
from tacit.errors import REFUSAL_PREFIX, Abort, Refusal, UsageError
from tacit.operations.services import call, logged_recipe
from tacit.ports import Clock, Transport
from tacit.recipe.response import stated, with_response

POLL_SECONDS = 0.5
WAITING_RULES = frozenset({"opt-in-missing", "slot-key-missing"})
"""Refusals that leaves which are still to come may lift."""
RELEASED, REFUSED = "released", "refused"
TOO_FEW = "invalidBatchSize"
FEWER_HINT = (
    "; tacit status shows how many were counted. Devices that met the recipe after the first quarter of its interval "
    "took no part (tacit agent journal tells): publish the next one earlier, ask more devices, or have a smaller B"
)

AskedDevices = Annotated[
    int | None,
    typer.Option("--asked", min=1, metavar="N", help="How many devices were asked (default: as the recipe states)."),
]
RecipeName = Annotated[str, typer.Argument(metavar="HASH|NAME", help="The recipe's hash, its beginning, or its name.")]


def collect(
    recipe: RecipeName,
    state_dir: StateDir = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, metavar="SECONDS", help="Wait so long for the release.")
    ] = 0.0,
    asked: AskedDevices = None,
    as_json: AsJson = False,
) -> None:
    """Ask for a recipe's batch, and show the result once leader and helper have released it.

    Exit code 1 where it is refused (fewer than B contributions, say) or not there in time. Example:
    tacit collect visits --wait 60
    """
    layout = layout_of(state_dir)
    collection, released = asyncio.run(_collect(layout, checked_name(recipe), wait, asked))
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


async def _collect(
    layout: Layout, name: str, wait: float, asked: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The collection, and the results if it was released. Raises ``Refusal`` where it was refused."""
    url, bearer, clock = layout.urls["collector"], layout.operator_token("collector"), SystemClock()
    async with layout.transport() as transport:
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
            detail = str(collection.get("detail", ""))
            raise Refusal(rule or "collection", f"{detail}{FEWER_HINT if rule == TOO_FEW else ''}")
        if collection["state"] != RELEASED:
            return collection, []
        found = await _results(transport, layout, recipe_hash, asked)
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
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page that opens offline.")] = None,
    asked: AskedDevices = None,
    as_json: AsJson = False,
) -> None:
    """Show what was released: estimates with their errors, how many were asked and answered, how they were sampled, and
    what each release costs.

    Example: tacit results visits --html visits.html
    """
    if asked is not None and recipe is None:
        raise UsageError("--asked is of one recipe; name it: tacit results NAME --asked 1000")
    found = asyncio.run(_released(layout_of(state_dir), None if recipe is None else checked_name(recipe), asked))
    if html is not None:
        write_file(html, result_page(found).encode())
    if as_json:
        print_json({"results": found})
        return
    for document in found:
        show_result(document, answers())
    if not found:
        answers().print("nothing was released yet; ask with: tacit collect NAME --wait 60")
    if html is not None:
        notes().print(f"page: {html}")


async def _released(layout: Layout, name: str | None, asked: int | None) -> list[dict[str, Any]]:
    async with layout.transport() as transport:
        recipe_hash = None if name is None else await hash_of(transport, layout.urls["recipe_server"], name)
        return await _results(transport, layout, recipe_hash, asked)


async def _results(
    transport: Transport, layout: Layout, recipe_hash: str | None, asked: int | None
) -> list[dict[str, Any]]:
    """Results in order; of one recipe, of which ``asked`` devices were asked where that is given."""
    bearer = layout.operator_token("collector")
    document = await call(transport, "GET", f"{layout.urls['collector']}/v1/results", bearer=bearer)
    found = in_order(one for one in document["results"] if recipe_hash in {None, one["recipe_hash"]})
    if asked is None or recipe_hash is None:
        return found
    _, recipe = await logged_recipe(transport, layout.urls["recipe_server"], recipe_hash)
    return [with_response(one, recipe, stated(asked)) for one in found]
