"""``tacit recipe yield``: shows how far a recipe's batch is filled, and when B may be expected."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from infra.authoring.recipe_names import hash_of
from infra.commands.results import RecipeName, collector_access
from infra.stacks.command_options import AsJson, StateDir, checked_name, layout_of
from infra.views.terminal import answers, print_json
from tacit.adapters.system import SystemClock
from tacit.time_format import when

if TYPE_CHECKING:
    from tacit.operations.yields import Yield
    from tacit.recipe.model import Recipe


def show_yield(recipe: RecipeName, state_dir: StateDir = None, as_json: AsJson = False) -> None:
    """Show how far a recipe's batch is filled: in noisy tenths of B, updated five times, until it is released.

    Example: tacit recipe yield visits
    """
    found, filled = asyncio.run(_yield(state_dir, checked_name(recipe)))
    if as_json:
        print_json({"hash": found.hash_text, "name": found.name, **filled.document()})
        return
    for line in yield_lines(filled):
        answers().print(line, soft_wrap=True)


async def _yield(state_dir: Path | None, name: str) -> tuple[Recipe, Yield]:
    from tacit.operations.yields import yield_at

    layout = layout_of(state_dir)
    access = collector_access(layout)
    async with layout.transport() as transport:
        recipe_hash = await hash_of(transport, access.recipe_server, name)
        return await yield_at(transport, access, recipe_hash, SystemClock().now())


def yield_lines(found: Yield) -> list[str]:
    """Return a yield as sentences."""
    size = found.min_batch_size
    if found.exact:
        return [f"released: {found.contributions:,} contributions, B = {size:,}"]
    lines = ["no count yet"]
    if found.at is not None:
        most = "" if found.most is None else f", at most {found.most:,}"
        bounds = f"at least {found.least:,}{most} with 95 %"
        lines = [f"about {found.contributions:,} of B = {size:,} contributions at {when(found.at)}: {bounds}"]
    if found.next_at is not None:
        lines.append(f"the next count comes from {when(found.next_at)} on")
    expected = found.forecast
    if expected is not None:
        lines.append(
            f"expected by the end: {expected.contributions:,} ({expected.least:,} to {expected.most:,} with 95 %), "
            f"B with probability {expected.chance:.0%}"
        )
        lines.append("B is not expected" if expected.at is None else f"B is expected at {when(expected.at)}")
    return lines
