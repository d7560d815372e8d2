"""``tacit recipe design`` for frequent texts: the ways to search as a table and as a picture."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.views.terminal import answers, plain_table, print_json
from tacit.adapters.disk.files import replacing
from tacit.errors import UsageError
from tacit.extras import require_extra
from tacit.methods.base.method import plain
from tacit.operations.design_rounds import RoundsPlan
from tacit.operations.design_searched import LOCAL, ROUNDS, SearchedWay, refusals, searched_ways, texts_shape
from tacit.recipe.encoder_specs import Domain, PrefixSearch
from tacit.recipe.policy import Policy
from tacit.recipe.writing.survey import Survey

WIDTH = 120
COLOURS = {"tree": "#332288", "paper": "#cc6677", ROUNDS: "#117733"}
ASK, SEARCH = "ask.json", "search.json"


def compare_searches(survey: Survey, pause: int, policy: Policy | None, plot: Path | None, *, as_json: bool) -> None:
    """Print every way to answer the survey, as a table or as JSON, and draw them into ``plot``."""
    ways = searched_ways(survey, pause, policy)
    if plot is not None:
        require_extra("--plot", "demo", "matplotlib")
        draw(ways, survey, plot)
    next_of = {one.model: next_commands(survey, one) for one in propose(ways, survey)}
    if as_json:
        print_json({"alternatives": [one.document() for one in ways], "next": next_of})
        return
    console = answers(WIDTH)
    bits = texts_shape(survey).item_bits
    asked = f"frequent texts of {bits} bits among {survey.given('population'):,} devices"
    console.print(f"{asked}; ± is the standard error of a rare text", style="bold")
    console.print(_table(ways))
    for line in (*_rounds_lines(ways), *refusals(ways)):
        console.print(line, style="dim", soft_wrap=True)
    console.print(
        "paper lists by the bound of its theorem, the others with at most 5 % false positives; bytes are those of one "
        "message's payload, in rounds of the leader's share",
        style="dim",
    )
    for commands in next_of.values():
        console.print(f"next: {'; '.join(commands)}", soft_wrap=True)
    if next_of:
        console.print("add --name, --text, --metric; in a terminal the command asks for what is missing", style="dim")
    if plot is not None:
        console.print(f"drawn in {plot}", soft_wrap=True)


def propose(ways: list[SearchedWay], survey: Survey) -> Iterator[SearchedWay]:
    """Of each model, the way that finds the most with the epsilon that was asked for."""
    models = dict.fromkeys(one.model for one in ways)
    for model in models:
        here = (one for one in ways if one.model == model and one.available and one.asked <= survey.epsilon)
        yield from sorted(here, key=lambda one: one.listed_from or 0.0)[:1]


def next_commands(survey: Survey, one: SearchedWay) -> list[str]:
    """The commands that make exactly this way, one after the other; a name, a text and a metric are left out."""
    domain, asked = survey.encoder, ["--population", str(survey.given("population")), "--rate", f"{one.rate:.12g}"]
    flag = "--strings" if one.series is None else "--prefixes"
    texts = [flag, str(domain.length)] if isinstance(domain, Domain) else []
    if isinstance(domain, Domain) and domain.alphabet is not None:
        texts += ["--alphabet", domain.alphabet]
    privacy = ["--epsilon", plain(one.asked), "--delta", plain(survey.delta), "--randomizer", one.randomizer]
    privacy += [] if survey.duration is None else ["--duration", str(survey.duration)]
    if one.series is None:
        return [shlex.join(["tacit", "recipe", "new", "--model", one.model, *texts, *asked, *privacy])]
    if isinstance(domain, PrefixSearch):
        levels = ",".join(map(str, one.series.levels))
        texts += ["--prefix-levels", levels, "--candidates", str(domain.candidates)]
    asked += ["--min-batch-size", str(one.series.min_batch_size)]
    privacy += [] if survey.max_epsilon0 is None else ["--max-epsilon0", plain(survey.max_epsilon0)]
    pause = ["--pause", str(one.series.pause_seconds)] if one.series.pause_seconds else []
    return [
        shlex.join(["tacit", "recipe", "new", *texts, *asked, *privacy, "--out", ASK]),
        shlex.join(["tacit", "series", "new", "--from", ASK, *pause, "--out", SEARCH]),
    ]


def _rounds_lines(ways: list[SearchedWay]) -> Iterator[str]:
    for one in ways:
        if one.series is not None and one.available:
            yield f"{one.way} at epsilon {plain(one.asked)}: {_rounds_words(one.series)}"


def _rounds_words(plan: RoundsPlan) -> str:
    """A series in a sentence: K, m and pause, who takes part, and what all rounds together cost."""
    expected = plan.contributions
    window = "the recipe's duration" if plan.window_seconds is None else f"{plan.window_seconds} s"
    against = (f"{float(plan.epsilon[name]):.4g} {words}" for name, words in (
        ("aggregator", "against one aggregator"), ("aggregator_with_relay", "with the relay"),
        ("both_aggregators_with_relay", "against both"),
    ))  # fmt: skip
    return (
        f"{len(plan.levels)} rounds of {', '.join(map(str, plan.levels))} bits, K = {window} each, "
        f"{plan.pause_seconds} s apart; a device is in one of m = {plan.slots} at most, {plan.taking_part:.0%} in any; "
        f"{plan.randomizer} with epsilon0 {plan.epsilon0}, B = {plan.min_batch_size:,} of about {expected[0]:,} in the "
        f"first round and {expected[-1]:,} in the last; all rounds together: epsilon {', '.join(against)}, at delta "
        f"{plan.delta}"
    )


def _table(ways: list[SearchedWay]) -> Any:
    table = plain_table("model", "way", "trust", "ε", "± devices", "listed from", "bytes", "messages", "rounds")
    for column in table.columns[3:]:
        column.justify = "right"
    for column in table.columns:
        column.no_wrap = True
    for one in ways:
        known = one.stderr is not None and one.listed_from is not None
        table.add_row(
            one.model, _name_way(one), one.trust, f"{one.epsilon:.3g}",
            f"{one.stderr:,.0f}" if known else "", f"{one.listed_from:,.0f}" if known else "never",
            "" if one.payload_bytes is None else f"{one.payload_bytes:,}", f"{one.messages:,}", str(one.rounds),
            style="" if one.available else "dim",
        )  # fmt: skip
    return table


def _name_way(one: SearchedWay) -> str:
    """The way, with what devices of a series randomise by."""
    return one.way if one.series is None else f"{one.way}, {one.randomizer}"


def draw(ways: list[SearchedWay], survey: Survey, path: Path) -> None:
    """Draw from how many devices on a text is listed, as bars on a logarithmic axis, into the file ``path``. Raises
    ``UsageError`` if it cannot be written."""
    from matplotlib.figure import Figure

    shown = [one for one in reversed(ways) if one.listed_from is not None]
    canvas = Figure(figsize=(9.5, 0.45 * len(shown) + 1.6), layout="constrained")
    place = canvas.subplots()
    names = [
        f"{_name_way(one)}, epsilon {one.epsilon:.3g}" + ("" if one.model == LOCAL else " in all") for one in shown
    ]
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
    place.set_title(f"N = {survey.given('population'):,}, {texts_shape(survey).item_bits} bits", fontsize=10)
    try:
        with replacing(path) as draft:
            canvas.savefig(draft, dpi=130)
    except (OSError, ValueError, UsageError) as error:
        raise UsageError(f"{path}: cannot be written; give --plot another path") from error
