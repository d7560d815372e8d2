"""``tacit recipe design``: what each model would cost and how accurate it would be, before a recipe exists."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from infra.places import AsJson
from infra.terminal import answers, plain_table, print_json
from tacit.accounting.planner import Alternative, Goal, alternatives, proposal
from tacit.errors import UsageError
from tacit.vdaf.registry import chunk_length_for


def design(
    population: Annotated[int, typer.Option("--population", help="Devices that could answer.")],
    cells: Annotated[int, typer.Option("--cells", help="Counts in the answer; 1: yes or no.")] = 1,
    epsilon: Annotated[float, typer.Option("--epsilon", help="Against one aggregator or the analyst.")] = 1.0,
    delta: Annotated[float, typer.Option("--delta", help="Failure probability.")] = 1e-6,
    max_epsilon0: Annotated[float, typer.Option("--max-epsilon0", help="Most that one report may tell.")] = 8.0,
    accuracy: Annotated[
        float | None, typer.Option("--accuracy", help="Wanted standard error of a count, as a share of the population.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the comparison into this PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare central, aggregated, sampled, shuffled and local ways to ask, and propose one.

    Example: tacit recipe design --population 1000000 --cells 16 --accuracy 0.001
    """
    try:
        goal = Goal(population, cells, epsilon, delta, max_epsilon0)
    except (ValueError, TypeError) as error:
        raise UsageError(str(error)) from error
    if accuracy is not None and not 0 < accuracy < 1:
        raise UsageError("--accuracy is a share of the population, above 0 and below 1")
    wanted = None if accuracy is None else accuracy * population
    found = alternatives(goal, wanted)
    chosen = proposal(found, wanted)
    if plot is not None:
        draw(goal, found, wanted, plot)
    if as_json:
        print_json({"proposal": _document(goal, chosen), "alternatives": [_document(goal, one) for one in found]})
        return
    _show(goal, found, chosen)
    if plot is not None:
        answers().print(f"drawn in {plot}", soft_wrap=True)


def _show(goal: Goal, found: list[Alternative], chosen: Alternative) -> None:
    table = plain_table("", "model", "randomizer", "q", "B", "contributions", "± devices", "± share", "local ε")
    for column in table.columns[3:]:
        column.justify = "right"
    for one in found:
        mark = "→" if one is chosen else ""
        local = "" if one.epsilon0 is None else f"{one.epsilon0:.3g}"
        numbers = (f"{one.rate:g}", f"{one.batch_size:,}", f"{one.contributions:,}", f"{one.stderr:,.1f}")
        style = "" if one.available else "dim"
        table.add_row(
            mark, one.model, one.randomizer, *numbers, f"{100 * one.relative(goal):.2g} %", local,
            style="bold" if one is chosen else style,
        )  # fmt: skip
    console = answers(100)
    console.print(table)
    console.print(
        "→ the proposal; dim for comparison: central, shuffled and local are not run here, and flips (noise shares)",
        style="dim",
    )
    console.print("need a policy that allows recipes without a local guarantee", style="dim")
    console.print(f"next: tacit recipe new --population {goal.population} --rate {chosen.rate:g} "
                  f"--min-batch-size {chosen.batch_size} --epsilon {goal.epsilon:g} ...", soft_wrap=True)  # fmt: skip


def _document(goal: Goal, one: Alternative) -> dict[str, Any]:
    return {
        "model": one.model,
        "randomizer": one.randomizer,
        "rate": one.rate,
        "batch_size": one.batch_size,
        "contributions": one.contributions,
        "stderr": one.stderr,
        "relative_error": one.relative(goal),
        "epsilon0": one.epsilon0,
        "noise_share": None if one.share is None else {"scale": one.share.scale, "flips": one.share.flips},
        "chunk_length": chunk_length_for(goal.cells),
        "available": one.available,
    }


def draw(goal: Goal, found: list[Alternative], wanted: float | None, path: Path) -> None:
    """Bars of the errors, on a logarithmic axis. Raises ``UsageError`` where the file cannot be written."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(8.5, 0.5 * len(found) + 1.4), layout="constrained")
    place = canvas.subplots()
    names = [f"{one.model}: {one.randomizer}, q = {one.rate:g}" for one in reversed(found)]
    colours = ["#332288" if one.available else "#bbbbbb" for one in reversed(found)]
    bars = place.barh(names, [one.stderr for one in reversed(found)], color=colours)
    place.bar_label(bars, [f"{one.stderr:,.4g}" for one in reversed(found)], padding=4, fontsize=8)
    place.set_xscale("log")
    place.margins(x=0.12)
    place.set_xlabel("standard error of one count, devices")
    if wanted is not None:
        place.axvline(wanted, color="#cc6677", linestyle="--", label="wanted")
        place.legend(loc="lower right", frameon=False)
    place.set_title(
        f"N = {goal.population:,}, {goal.cells} cells, ε = {goal.epsilon:g}, δ = {goal.delta:g}", fontsize=10
    )
    try:
        canvas.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
