"""``tacit bench soak``: whether a long run costs the same at its end as at its beginning."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from infra.lab.bench.history import require_folder
from infra.lab.commands.bench_needs import tell_of_driver
from infra.lab.commands.progress import draw, progress
from infra.stacks.command_options import AsJson
from infra.views.terminal import answers, notes, print_json
from tacit.errors import UsageError
from tacit.extras import require_extra

if TYPE_CHECKING:
    from infra.lab.bench.soak.run import Soak

WIDTH = 140
"""Cells that the table needs."""


def soak(
    reports: Annotated[int, typer.Option("--reports", min=1, help="Contributions to send.")] = 100_000,
    tasks: Annotated[int, typer.Option("--tasks", min=1, help="Recipes that are live at once.")] = 1,
    rate: Annotated[float, typer.Option("--rate", min=0, help="Contributions a second (0: as fast as it goes).")] = 0.0,
    as_json: AsJson = False,
    save: Annotated[Path | None, typer.Option("--save", help="Draw the run into this PNG or SVG file.")] = None,
    servers: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAMES", help="Servers, as for tacit up (default: postgres where it is installed)."
        ),
    ] = None,
) -> None:
    """Send contributions for a long time, and watch processor time, memory and databases over the run.

    Real processes, from the relay to the release; contributions are made while they are sent, a thousand a second on
    two fast free cores. Every task fills and releases up to five batches, and after each round the databases have half
    a minute to shrink. Exits with 1 if a contribution was lost or counted wrongly, or if memory, cost or a database
    grows. Spent tokens are kept until they expire, so they are shown apart. After Ctrl-C it shows what it has measured.

    Example: tacit bench soak --reports 1000 --with ''
    """
    require_extra("this measurement", "bench", "psutil", *(("matplotlib",) if save else ()))
    tell_of_driver(servers)
    from infra.lab.bench.soak.report import document, verdicts
    from infra.lab.bench.soak.run import Plan
    from infra.lab.bench.soak.run import soak as run

    names = None if servers is None else frozenset(name for text in servers for name in text.split(",") if name)
    plan = Plan.of(reports, tasks, rate)
    if save is not None and save.suffix not in {".png", ".svg"}:
        raise UsageError(f"--save: {save} must end in .png or .svg")
    if save is not None:
        require_folder(save.parent)
    with progress("soaking  ") as tell:
        found = run(plan, names, tell)
    judgements = verdicts(found)
    if as_json:
        print_json(document(found, judgements))
    else:
        _show(found)
    for wrong in [*found.errors, *(f"{one.subject} grows" for one in judgements if not one.holds)]:
        notes().print(wrong, style="red", soft_wrap=True)
    if save is not None:
        from infra.lab.bench.soak.drawing import write

        draw(partial(write, found), "--save", save)
    if found.errors or not all(one.holds for one in judgements):
        raise typer.Exit(1)


def _show(found: Soak) -> None:
    from infra.lab.bench.soak.drawing import table
    from infra.lab.bench.soak.report import kept_bytes, verdicts

    plan, last, console = found.plan, found.samples[-1], answers(WIDTH)
    console.print(
        f"{last.sent:,} contributions to {plan.tasks:,} task{'s' if plan.tasks > 1 else ''} on {found.database} in"
        f" {last.seconds:,.0f} s ({last.sent / last.seconds:,.0f} a second); {last.releases:,} releases of"
        f" {plan.batch:,}; {last.retries:,} uploads repeated; tasks live after {found.set_up:,.0f} s"
    )
    console.print(table(found, verdicts(found)))
    kept = ", ".join(f"{name} {size:,.0f}" for name, size in kept_bytes(found).items())
    console.print(f"bytes of spent tokens for each contribution: {kept}")
