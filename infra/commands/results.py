"""``tacit collect`` and ``tacit results``: collect a batch, and show released results."""

from __future__ import annotations

import asyncio
import enum
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from infra.authoring.recipe_names import hash_of
from infra.stacks.command_options import AsJson, StateDir, checked_name, layout_of, write_file
from infra.stacks.layout import Layout
from infra.views.terminal import answers, notes, print_json
from tacit.adapters.system import SystemClock
from tacit.errors import Refusal, UsageError
from tacit.operations.calls import recipes_of
from tacit.operations.results import CollectorAccess, collected, read_results, rule_of
from tacit.operations.tables import csv_bytes, parquet_bytes
from tacit.ports import Transport

TOO_FEW = frozenset({"invalidBatchSize", "batch-too-small"})
FEWER_HINT = (
    ". Devices that read the recipe after the first quarter of its interval "
    "took no part (see tacit agent journal): publish the next one earlier, ask more devices, or choose a smaller B"
)

AskedDevices = Annotated[
    int | None,
    typer.Option("--asked", min=1, metavar="N", help="How many devices were asked (default: as the recipe states)."),
]
RecipeName = Annotated[str, typer.Argument(metavar="HASH|NAME", help="The recipe's hash, its beginning, or its name.")]


class Table(enum.StrEnum):
    CSV = "csv"
    PARQUET = "parquet"


TableFormat = Annotated[
    Table | None, typer.Option("--format", help="Write the results as a table instead of showing them.")
]
TableFile = Annotated[Path | None, typer.Option("--out", help="Write the table here (csv: stdout by default).")]


@dataclass(frozen=True)
class _Known:
    """What is known of a recipe's answers because its devices are simulated: nothing, as a rule. ``shown``: as
    ``show_result`` takes it; ``document``: the same as a member of a JSON document."""

    shown: tuple[Any, ...] = ()
    document: Mapping[str, Any] = field(default_factory=dict)


def collect(
    recipe: RecipeName,
    state_dir: StateDir = None,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            min=0,
            metavar="SECONDS",
            help="Wait up to this long for the release, counted from the end of the interval.",
        ),
    ] = 0.0,
    asked: AskedDevices = None,
    as_json: AsJson = False,
) -> None:
    """Collect a recipe's batch, and show the result once it is released.

    Exits with 1 if it is refused (for example, with fewer than B contributions) or not released in time. Example:
    tacit collect visits --wait 60
    """
    from infra.views.result_view import show_result

    layout = layout_of(state_dir)
    collection, found, waits_for, known = asyncio.run(_collect(layout, checked_name(recipe), wait, asked))
    if as_json:
        print_json({**collection, "results": found, **known.document})
    elif found:
        for document in found:
            show_result(document, answers(), *known.shown)
    else:
        answers().print(f"collection {collection['id']} is {collection['state']}{_why(collection)}", soft_wrap=True)
    if wait and not found:
        again = f"try again with: tacit collect {recipe} --wait 60"
        notes().print(f"not released within {wait:g} s of its interval: {waits_for}; {again}", soft_wrap=True)
        raise typer.Exit(1)
    if not found and not as_json:
        notes().print(
            f"{waits_for}\nnext: tacit collect {recipe} --wait 60 waits for the release", style="dim", soft_wrap=True
        )


async def _collect(
    layout: Layout, name: str, wait: float, asked: int | None
) -> tuple[dict[str, Any], list[dict[str, Any]], str, _Known]:
    """Collect a recipe's batch; return the collection, and its results if it was released, or what that waits for; and
    what is known of simulated agents. Raises ``Refusal``."""
    access = collector_access(layout)
    async with layout.transport() as transport:
        recipe_hash = await hash_of(transport, access.recipe_server, name)
        whole = wait + (await _open_for(transport, access.recipe_server, recipe_hash) if wait else 0.0)
        try:
            with notes().status("waiting for the release"):
                collection, found = await collected(
                    transport, access, recipe_hash, SystemClock(), wait=whole, asked=asked
                )
            if not found:
                return collection, found, await explain_unreleased(layout, transport, recipe_hash), _Known()
            return collection, found, "", await _read_known(layout, transport, recipe_hash)
        except Refusal as refusal:
            if refusal.rule not in TOO_FEW:
                raise
            counted = await explain_unreleased(layout, transport, recipe_hash)
            raise Refusal(refusal.rule, f"{refusal.detail}: {counted}{FEWER_HINT}") from refusal


async def explain_unreleased(layout: Layout, transport: Transport, recipe_hash: str) -> str:
    """What the release of a recipe of a local stack waits for."""
    from infra.stacks.status import task_of_stack
    from tacit.operations.services import logged_recipe
    from tacit.operations.unreleased import unreleased_words

    _, recipe = await logged_recipe(transport, layout.urls["recipe_server"], recipe_hash)
    return unreleased_words(await task_of_stack(layout, transport, recipe_hash), recipe, SystemClock().now())


async def _open_for(transport: Transport, server: str, recipe_hash: str) -> float:
    """Seconds until the recipe's interval is over; 0.0 if it is over."""
    ends = [
        one["interval"]["start"] + one["interval"]["duration"]
        for one in await recipes_of(transport, server)
        if one["hash"] == recipe_hash
    ]
    return max(0.0, max(ends, default=0.0) - SystemClock().now())


def collector_access(layout: Layout) -> CollectorAccess:
    """Return access to a stack's collector and recipe server, with the collector's operator token."""
    token = layout.operator_token("collector")
    return CollectorAccess(layout.urls["collector"], layout.urls["recipe_server"], lambda: token)


def _why(collection: dict[str, Any]) -> str:
    """The refusal that the collection's last attempt met, or an empty text."""
    rule = rule_of(collection)
    return f" ({rule}: {collection.get('detail', '')})" if rule else ""


def results(
    recipe: Annotated[
        str | None, typer.Argument(metavar="[HASH|NAME]", help="Only this recipe's results.", show_default=False)
    ] = None,
    state_dir: StateDir = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page that opens offline.")] = None,
    asked: AskedDevices = None,
    table: TableFormat = None,
    out: TableFile = None,
    as_json: AsJson = False,
) -> None:
    """Show released results: estimates with their errors, how many were asked and answered, how they were sampled, and
    what each release costs. A table has one row per answer; Parquet needs the extra `operator`.

    Exits with 1, and writes nothing, where the recipe, or with a table or page any recipe, is not released yet.
    Example: tacit results visits --html visits.html --format csv --out answers.csv
    """
    from infra.views.result_page import result_page
    from infra.views.result_view import show_result

    if table is None and out is not None:
        raise typer.BadParameter("--out needs --format csv or parquet")
    if table is Table.PARQUET and out is None:
        raise typer.BadParameter("--format parquet needs --out FILE")
    if asked is not None and recipe is None:
        raise UsageError("--asked needs the name of a recipe: tacit results NAME --asked 1000")
    found, waits_for, known = asyncio.run(
        _read_released(layout_of(state_dir), None if recipe is None else checked_name(recipe), asked)
    )
    if not found:
        _tell_unreleased(recipe, waits_for, as_json=as_json)
        if recipe is None and html is None and table is None:
            return
        raise typer.Exit(1)
    if html is not None:
        write_file(html, result_page(found).encode())
    if table is not None:
        _write_table(found, table, out)
        return
    if as_json:
        print_json({"results": found, **known.document})
        return
    for document in found:
        show_result(document, answers(), *known.shown)
    if html is not None:
        notes().print(f"page: {html}")


def _tell_unreleased(recipe: str | None, waits_for: str, *, as_json: bool) -> None:
    """Say on stderr that there is no result, what it waits for and how to collect it; as JSON also print an empty
    list."""
    if as_json:
        print_json({"results": []})
    words = "nothing has been released yet" if recipe is None else f"{recipe} is not released: {waits_for}"
    notes().print(f"{words}; collect with: tacit collect {recipe or 'NAME'} --wait 60", soft_wrap=True)


def _write_table(found: list[dict[str, Any]], table: Table, out: Path | None) -> None:
    data = parquet_bytes(found) if table is Table.PARQUET else csv_bytes(found)
    if out is None:
        sys.stdout.write(data.decode())
        return
    write_file(out, data)
    notes().print(f"table: {out}")


async def _read_released(
    layout: Layout, name: str | None, asked: int | None
) -> tuple[list[dict[str, Any]], str, _Known]:
    """The results of one recipe or of all; of one also what its release waits for where there is none, and what is
    known of simulated agents."""
    access = collector_access(layout)
    async with layout.transport() as transport:
        recipe_hash = None if name is None else await hash_of(transport, access.recipe_server, name)
        found = await read_results(transport, access, recipe_hash, asked)
        if recipe_hash is None:
            return found, "", _Known()
        if not found:
            return found, await explain_unreleased(layout, transport, recipe_hash), _Known()
        return found, "", await _read_known(layout, transport, recipe_hash)


async def _read_known(layout: Layout, transport: Transport, recipe_hash: str) -> _Known:
    from infra.stacks.simulated import truth_of
    from tacit.operations.services import logged_recipe

    _, recipe = await logged_recipe(transport, layout.urls["recipe_server"], recipe_hash)
    truth = truth_of(layout, recipe)
    return _Known() if truth is None else _Known((truth.values, truth.words), {"simulated": truth.document(recipe)})
