"""``tacit recipe design`` for frequent texts: the ways to search as a table and as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.views.terminal import answers, plain_table, print_json
from tacit.errors import UsageError
from tacit.extras import require_extra
from tacit.operations.design_searched import LOCAL, SearchedWay, refusals, searched_ways
from tacit.recipe.survey import Survey

WIDTH = 120
COLOURS = {"tree": "#332288", "paper": "#cc6677", "prefix rounds": "#bbbbbb"}


def compare_searches(survey: Survey, plot: Path | None, *, as_json: bool) -> None:
    """Print every way to answer the survey, as a table or as JSON, and draw them into ``plot``."""
    ways = searched_ways(survey)
    if plot is not None:
        require_extra("--plot", "demo", "matplotlib")
        draw(ways, survey, plot)
    if as_json:
        print_json({"alternatives": [one.document() for one in ways]})
        return
    console = answers(WIDTH)
    asked = f"frequent texts of {survey.shape.item_bits} bits among {survey.given('population'):,} devices"
    console.print(f"{asked}; ± is the standard error of a rare text", style="bold")
    console.print(_table(ways))
    for line in refusals(ways):
        console.print(line, style="dim", soft_wrap=True)
    console.print(
        "paper lists by the bound of its theorem, the others with at most 5 % false positives; prefix rounds are "
        "computed for noise shares of every device in every round, where tacit series asks each device in one; "
        "bytes are those of one message's payload",
        style="dim",
    )
    if plot is not None:
        console.print(f"drawn in {plot}", soft_wrap=True)


def _table(ways: list[SearchedWay]) -> Any:
    table = plain_table("model", "way", "trust", "ε", "± devices", "listed from", "bytes", "messages", "rounds")
    for column in table.columns[3:]:
        column.justify = "right"
    for column in table.columns:
        column.no_wrap = True
    for one in ways:
        known = one.stderr is not None and one.listed_from is not None
        table.add_row(
            one.model, one.way, one.trust, f"{one.epsilon:g}",
            f"{one.stderr:,.0f}" if known else "finds nothing", f"{one.listed_from:,.0f}" if known else "",
            "" if one.payload_bytes is None else f"{one.payload_bytes:,}", f"{one.messages:,}", str(one.rounds),
            style="" if one.available else "dim",
        )  # fmt: skip
    return table


def draw(ways: list[SearchedWay], survey: Survey, path: Path) -> None:
    """Draw from how many devices on a text is listed, as bars on a logarithmic axis, into the file ``path``. Raises
    ``UsageError`` if it cannot be written."""
    from matplotlib.figure import Figure

    shown = [one for one in reversed(ways) if one.listed_from is not None]
    canvas = Figure(figsize=(9.5, 0.45 * len(shown) + 1.6), layout="constrained")
    place = canvas.subplots()
    names = [f"{one.way}, epsilon {one.epsilon:g}" + ("" if one.model == LOCAL else " in all") for one in shown]
    bars = place.barh(
        names, [one.listed_from or 0.0 for one in shown], xerr=[one.stderr or 0.0 for one in shown],
        color=[COLOURS[one.way] for one in shown], ecolor="#343a40", capsize=3,
    )  # fmt: skip
    words = [f"{one.messages:,} messages, {one.rounds} round{'' if one.rounds == 1 else 's'}" for one in shown]
    place.bar_label(bars, words, padding=6, fontsize=8)
    place.set_xscale("log")
    low, high = place.get_xlim()
    place.set_xlim(low, high * (high / low) ** 0.5)
    place.set_xlabel("devices from which on a text is listed, with the standard error of its number")
    place.set_title(f"N = {survey.given('population'):,}, {survey.shape.item_bits} bits", fontsize=10)
    try:
        canvas.savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
