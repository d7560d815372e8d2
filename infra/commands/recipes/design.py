"""``tacit recipe design``: compares the cost and accuracy of each way to ask, before a recipe exists."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.authoring.survey_errors import ParsedFlags
from infra.authoring.survey_flags import SurveyFile, amount_of_float, asking
from infra.stacks.command_options import AsJson, policy_of
from infra.views.terminal import answers, plain_table, print_json
from tacit.adapters.disk.files import replacing
from tacit.errors import FieldError, Refusal, UsageError
from tacit.extras import require_extra
from tacit.methods.base.statistics import STATISTICS

if TYPE_CHECKING:
    from tacit.accounting.requirements import Alternative, Requirements
    from tacit.recipe.policy import Policy
    from tacit.recipe.writing.survey import Survey


WIDTH = 120
LOCAL, AGGREGATED = "local", "secure-aggregation"
RARELY = 0.05
"""How often an answer of so many devices is cut to 0."""
CHOSEN, ALLOWED, COMPARED = "#332288", "#88ccee", "#bbbbbb"


@asking(
    "population", "cells", "statistic", "low", "high", "unit", "norm", "strings", "alphabet", "duration", "pause",
    "epsilon", "delta", "max_epsilon0", "model", "allow_unbounded_local", "policy", "accuracy",
    population={"help": "Devices that could answer.", "least": None},
    cells={"names": ("--cells", "--length"), "default": 1, "least": None},
    statistic={"help": f"One of {', '.join(STATISTICS)} (default: histogram, or heavy-hitters with --strings)."},
    low={"default": "0"},
    high={"help": "Largest value.", "default": "1"},
    unit={"help": "Round values to multiples of this, such as 0.01.", "default": "1"},
    norm={"default": "1"},
    model={"help": "Propose a way of this model: secure-aggregation, shuffled or local."},
    duration={"help": "Seconds of a round (K), with --strings."},
    epsilon={"kind": float, "read": amount_of_float, "help": "Against one aggregator or the analyst.", "default": 1.0},
    delta={"kind": float, "read": amount_of_float, "help": "Failure probability.", "default": 1e-6},
)  # fmt: skip
def design(
    said: ParsedFlags,
    pause: Annotated[int, typer.Option("--pause", min=0, help="Seconds between two rounds, with --strings.")] = 0,
    allow_unbounded_local: Annotated[
        bool, typer.Option("--allow-unbounded-local", help="Propose noise shares too: only their sum hides a device.")
    ] = False,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="Policy file: what it accepts may be proposed.")
    ] = None,
    file: SurveyFile = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw the comparison into this PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare central, aggregated, sampled, shuffled and local ways to ask, and propose one.

    With --strings, compare the ways to find frequent texts: locally, or in the rounds of a series.

    Example: tacit recipe design --population 1000000 --cells 16 --accuracy 0.001
    """
    from tacit.recipe.encoder_specs import Domain

    survey = flags_for_comparison(said).survey()
    if survey.population is None:
        raise typer.BadParameter("missing --population")
    accepted = None if policy is None else policy_of(policy)
    if isinstance(survey.encoder, Domain):
        from infra.commands.recipes.design_searched import compare_searches

        compare_searches(survey, pause, accepted, plot, as_json=as_json)
    elif pause or "duration" in said.flags:
        raise typer.BadParameter("--duration and --pause are for --strings: a round of a series, and until the next")
    else:
        _compare(survey, accepted, plot, allow_unbounded_local=allow_unbounded_local, as_json=as_json)


def _compare(
    survey: Survey, policy: Policy | None, plot: Path | None, *, allow_unbounded_local: bool, as_json: bool
) -> None:
    """Print the ways to answer the survey, and draw them into ``plot``."""
    from tacit.accounting.planner import alternatives
    from tacit.operations.design import alternative_document, requirements_of

    needs = requirements_of(survey, policy, allow_unbounded_local=allow_unbounded_local)
    wanted = None if survey.accuracy is None else float(survey.accuracy) * needs.scale
    found = alternatives(needs, wanted)
    chosen = _propose(found, wanted, needs.model, needs.min_batch_size)
    if plot is not None:
        require_extra("--plot", "demo", "matplotlib")
        draw(needs, found, chosen, wanted, plot)
    others = _of_others(needs, found, wanted)
    if as_json:
        print_json(
            {
                "proposal": alternative_document(needs, chosen),
                "alternatives": [alternative_document(needs, one) for one in found],
                "next": {one.form: next_command(needs, one) for one in (chosen, *others)},
            }
        )
        return
    _show(needs, found, chosen, others)
    if plot is not None:
        answers().print(f"drawn in {plot}", soft_wrap=True)


def _propose(found: list[Alternative], wanted: float | None, model: str, least_batch: int) -> Alternative:
    """Return ``proposal``; its refusal for lack of a local guarantee also names this command's flag."""
    from tacit.accounting.planner import NO_LOCAL_GUARANTEE, proposal

    try:
        return proposal(found, wanted, model, least_batch)
    except Refusal as refusal:
        if refusal.rule != NO_LOCAL_GUARANTEE:
            raise
        key = "a policy with allow_unbounded_local = true does without it"
        words = f"{refusal.detail}; {key}: tacit up --allow-unbounded-local; the same flag here proposes them"
        raise Refusal(refusal.rule, words) from refusal


def _of_others(needs: Requirements, found: list[Alternative], wanted: float | None) -> list[Alternative]:
    """Of each other model that could ask so, the most accurate way, or the one with the fewest contributions within
    the error ``wanted``."""
    best: dict[str, Alternative] = {}
    for one in found:
        if one.allowed and one.form not in {None, needs.model}:
            best[one.form] = min(best.get(one.form, one), one, key=lambda way: _effort(way, wanted))
    return [*best.values()]


def _effort(one: Alternative, wanted: float | None) -> tuple[float, float, float]:
    """What is least for the better way."""
    if wanted is None:
        return 0, one.stderr, one.contributions
    return (0, one.contributions, one.stderr) if one.stderr <= wanted else (1, one.stderr, one.contributions)


def flags_for_comparison(said: ParsedFlags) -> ParsedFlags:
    """Return ``said`` adapted to a comparison: ``--cells`` becomes a vector's length, and defaults that do not apply to
    the statistic are dropped. Raises ``FieldError`` for several cells of a statistic that is one number."""
    from tacit.models.forms import FORMS, form_of

    if said.file is not None and "statistic" not in said.flags:
        return said
    flags = {"statistic": "heavy-hitters" if "strings" in said.flags else "histogram", **said.flags}
    kind = STATISTICS.get(flags["statistic"])
    if kind is None:
        return replace(said, flags={"statistic": flags["statistic"]})
    if flags.get("model") in FORMS and form_of(flags["model"]).watched:
        raise typer.BadParameter(f"--model {flags['model']} is not compared: tacit recipe new says what it costs")
    if kind.is_ranked:
        return _of_texts(replace(said, flags=flags))
    for name in ("strings", "alphabet"):
        if name in flags:
            raise typer.BadParameter(f"--{name} is for frequent texts: leave --statistic out, or say heavy-hitters")
    if kind.is_scalar and flags.pop("cells", 1) != 1:
        raise FieldError("encoder.cells", f"must be 1: a {kind.name} is one number")
    if kind.is_vector and "cells" in flags:
        flags["length"] = flags.pop("cells")
    if kind.encoders == ("boolean",):
        flags["boolean"] = True
    idle = {"low": 0, "high": 1, "unit": 1, "norm": 1} if kind.counts_devices else {} if kind.is_vector else {"norm": 1}
    return replace(said, flags={name: value for name, value in flags.items() if idle.get(name, ...) != value})


def _of_texts(said: ParsedFlags) -> ParsedFlags:
    """``said`` about frequent texts. Raises ``BadParameter`` where it lacks their length, and for flags of others."""
    flags, defaults = said.flags, {"cells": 1, "low": 0, "high": 1, "unit": 1, "norm": 1}
    if "strings" not in flags and said.file is None:
        raise typer.BadParameter("missing --strings: up to how many characters the texts have, such as --strings 4")
    if flags.get("model", LOCAL) not in {LOCAL, AGGREGATED}:
        raise typer.BadParameter(f"--model {flags['model']} finds no frequent texts: {LOCAL} and {AGGREGATED} do")
    named = {"model", "population", "statistic", "strings", "alphabet", "duration", "epsilon", "delta", "max_epsilon0"}
    idle = [name for name, value in flags.items() if name not in named and defaults.get(name, ...) != value]
    if idle:
        raise typer.BadParameter(f"--{idle[0].replace('_', '-')} is not for frequent texts: leave it out")
    return replace(said, flags={**{name: flags[name] for name in named if name in flags}, "model": LOCAL})


def _show(needs: Requirements, found: list[Alternative], chosen: Alternative, others: list[Alternative]) -> None:
    console = answers(WIDTH)
    console.print(_describe_needs(needs), style="bold")
    console.print(_table(needs, found, chosen))
    for line in _legend(needs, found):
        console.print(line, style="dim")
    console.print(f"next: {next_command(needs, chosen)}", soft_wrap=True)
    for line in _next_lines(needs, chosen):
        console.print(line, style="dim")
    for one in others:
        console.print(f"or, trusting {one.trust}: {next_command(needs, one)}", soft_wrap=True)


def _legend(needs: Requirements, found: list[Alternative]) -> list[str]:
    """What the marks and names in the table mean."""
    few = needs.allow_unbounded_local or not any(one.is_summed for one in found)
    run = "" if few else ", flips (noise shares) only with --allow-unbounded-local"
    lines = [f"→ is the proposal for model {needs.model}; dim rows are not run here{run}"]
    if any(one.is_summed for one in found):
        lines.append("flips 3/12: 3 coin flips on top of 12 times the value, in every device")
    for one in found:
        zeros = _zeros_below(one)
        if zeros is not None:
            lines.append(f"{one.randomizer} may release an answer of fewer than {zeros:,.0f} devices as 0, and always "
                         "releases one that nobody has as 0")  # fmt: skip
    return lines


def _zeros_below(one: Alternative) -> float | None:
    """The number of devices with which an answer is rarely cut to 0; None where nothing is cut."""
    from tacit.methods.estimators.registry import estimator_of

    if one.method is None:
        return None
    return estimator_of(one.method).zeros_below(max(1, one.contributions), one.rate, RARELY)


def _next_lines(needs: Requirements, one: Alternative) -> list[str]:
    """What the next command still needs, and why its epsilon may differ."""
    from infra.views.influence_words import words_of
    from tacit.methods.estimators.registry import estimator_of

    answers_flag = ""
    if needs.counts:
        several = f"--buckets or --categories with {needs.cells} answers"
        answers_flag = several if needs.cells > 1 else "--boolean"
    needed = ", ".join(flag for flag in ("--name", "--text", "--metric", answers_flag, "--out") if flag)
    lines = [f"add {needed}; in a terminal the command asks for what is missing"]
    influence = None if one.method is None else estimator_of(one.method).influence
    if influence is not None:
        lie = words_of(influence, needs.cells, float(needs.norm))
        lines.append(f"a dishonest device can {lie}, before the division by q")
    if one.inner is not None and one.inner > needs.epsilon:
        lines.append(
            f"its --epsilon holds against an aggregator with the relay, which sees who sends; "
            f"sampling makes it {needs.epsilon:g} against one aggregator"
        )
    return lines


def _table(needs: Requirements, found: list[Alternative], chosen: Alternative) -> Any:
    from tacit.methods.figures import NORMAL_95, form_of_errors, margin

    names = ("", "model", "trusts", "randomizer", "q", "B", "sent", "msgs", "bytes", _unit(needs), "share", "local ε")
    table = plain_table(*names)
    for column in table.columns[1:]:
        column.no_wrap = True
    for column in table.columns[4:]:
        column.justify = "right"
    form = form_of_errors(NORMAL_95 * one.stderr for one in found)
    for one in found:
        cost = "" if one.upload_bytes is None else f"{one.upload_bytes:,}"
        table.add_row(
            "→" if one is chosen else "", one.model.partition(",")[0], one.trust, _randomizer(one), f"{one.rate:g}",
            f"{one.batch_size:,}", f"{one.contributions:,}", f"{one.messages:,}", cost, margin(one.stderr, form),
            f"{100 * NORMAL_95 * one.relative(needs):.2g} %", "" if one.epsilon0 is None else f"{one.epsilon0:.3g}",
            style="bold" if one is chosen else "" if one.allowed else "dim",
        )  # fmt: skip
    return table


def _describe_needs(needs: Requirements) -> str:
    """A sentence on what is compared, and at which privacy."""
    from tacit.methods.figures import NORMAL_95

    what = needs.statistic if needs.cells == 1 else f"{needs.statistic} of {needs.cells} numbers"
    return (
        f"{what} over {needs.population:,} devices, epsilon at most {needs.epsilon:g} at delta {needs.delta:g} against "
        f"one server; ± is {NORMAL_95:g} standard errors"
    )


def _unit(needs: Requirements) -> str:
    return "± devices" if needs.counts else f"± {'entry' if needs.kind.is_vector else needs.statistic}"


def _randomizer(one: Alternative) -> str:
    share = None if one.method is None else one.method.noise_share
    return one.randomizer if share is None else f"{one.randomizer} {share.flips}/{share.scale}"


def next_command(needs: Requirements, one: Alternative) -> str:
    """Return the beginning of the command that makes the recipe; its epsilon is that of a batch before sampling."""
    from tacit.recipe.quantity import in_words

    inner = math.floor((one.inner or needs.epsilon) * 1e4 + 1e-9) / 1e4
    number = "" if needs.counts else f" --low {in_words(needs.low)} --high {in_words(needs.high)}"
    number += f" --unit {in_words(needs.unit)}" if needs.unit != 1 else ""
    number += f" --length {needs.cells} --norm {in_words(needs.norm)}" if needs.kind.is_vector else ""
    statistic = needs.kind.name
    delta = f"{needs.delta:.15f}".rstrip("0")
    model = "" if one.form in {None, AGGREGATED} else f" --model {one.form}"
    return (
        f"tacit recipe new{model} --population {needs.population} --statistic {statistic}{number}"
        f" --randomizer {one.randomizer} --rate {one.rate:g} --min-batch-size {one.batch_size}"
        f" --epsilon {inner:g} --delta {delta}"
    )


def _cost(one: Alternative) -> str:
    """Error and cost of a way, for its bar."""
    size = "" if one.upload_bytes is None else f", {one.upload_bytes:,} bytes"
    several = "" if one.messages == 1 else f" in {one.messages:,} messages"
    return f"{one.stderr:,.4g}  ({one.contributions:,} contributions{size}{several})"


def draw(needs: Requirements, found: list[Alternative], chosen: Alternative, wanted: float | None, path: Path) -> None:
    """Draw the standard errors as bars on a logarithmic axis into the file ``path``. Raises ``UsageError`` if it cannot
    be written."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    canvas = Figure(figsize=(9.5, 0.5 * len(found) + 1.9), layout="constrained")
    place = canvas.subplots()
    shown = [*reversed(found)]
    names = [f"{one.model}: {_randomizer(one)}, q = {one.rate:g}\ntrusts {one.trust}" for one in shown]
    colours = [CHOSEN if one is chosen else ALLOWED if one.allowed else COMPARED for one in shown]
    bars = place.barh(names, [one.stderr for one in shown], color=colours)
    labels = [_cost(one) for one in shown]
    place.set_xscale("log")
    place.set_xlim(found[0].stderr / 2, found[-1].stderr * (found[-1].stderr / found[0].stderr) ** 0.5 * 6)
    on_white = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    place.bar_label(bars, labels, padding=4, fontsize=8, bbox=on_white, zorder=3)
    place.set_xlabel(f"standard error of one number of the {needs.statistic}")
    legend: list[Any] = [Patch(color=CHOSEN, label="proposed"), Patch(color=ALLOWED, label="can be asked"),
                         Patch(color=COMPARED, label="for comparison")]  # fmt: skip
    if wanted is not None:
        legend.append(place.axvline(wanted, color="#cc6677", linestyle="--", zorder=1.5, label="wanted"))
    canvas.legend(handles=legend, loc="outside lower center", ncols=len(legend), frameon=False, fontsize=8)
    place.set_title(
        f"N = {needs.population:,}, {needs.statistic}, {needs.cells} cells, ε = {needs.epsilon:g}, δ = {needs.delta:g}",
        fontsize=10,
    )
    try:
        with replacing(path) as draft:
            canvas.savefig(draft, dpi=130)
    except (OSError, ValueError, UsageError) as error:
        raise UsageError(f"{path}: cannot be written; give --plot another path") from error
