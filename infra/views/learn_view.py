"""Prints the forecast of a training run for a person."""

from __future__ import annotations

import math
import shlex
from datetime import timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from infra.views.claim_words import adversary_text, delta_text, epsilon_text
from infra.views.policy_words import for_authors
from infra.views.terminal import plain_table
from tacit.counting_words import plural
from tacit.learning.plan import Plan
from tacit.operations.learning.plans import Forecast


def show_forecast(plan: Plan, found: Forecast, console: Console) -> None:
    """Print the plan in a line, what it costs against whom, and what each round brings."""
    training = plan.training
    words = (
        f"{plan.name}: {training.architecture.kind}, {found.parameters:,} parameters, {plural(found.rounds, 'round')}"
    )
    console.print(Text(words, style="bold"))
    table = plain_table("what all rounds reveal of a device, to", "epsilon", "delta")
    for name, epsilon in found.epsilon.items():
        row = adversary_text(name, found.min_batch_size), epsilon_text(epsilon, 2)
        table.add_row(*row, delta_text(name, epsilon, found.delta))
    console.print(table)
    console.print()
    console.print(_numbers(plan, found))
    for rule, detail in found.refusals:
        words = f"a device of this policy refuses it ({rule}): {for_authors(detail)}"
        console.print(Text(words, style="yellow"), soft_wrap=True)
    console.print(Text(_stack_words(plan, found)), soft_wrap=True)


def _stack_words(plan: Plan, found: Forecast) -> str:
    """The command that makes a stack for the plan, ready to be pasted, and another that takes its options; or why there
    is none."""
    if not found.stack:
        return f"no stack of tacit up runs this plan: {found.no_stack}"
    words = ["tacit", "up", *found.stack, "--examples", f"{plan.metric}.csv"]
    other = "or, with its devices at work: tacit staging up, with the same options"
    return f"a stack that runs this plan: {shlex.join(words)}\n{other}"


def _numbers(plan: Plan, found: Forecast) -> Table:
    """What each round brings and takes, a row each."""
    table = plain_table("", "")
    whole = found.signal_to_noise * math.sqrt(found.rounds)
    rows = {
        "contributions a round": f"{found.contributions:,.0f} expected, released from {found.min_batch_size:,} on",
        "noise of the mean update": f"{found.noise_entry:.2g} an entry, {found.noise_length:.2g} in length",
        "update, clipped": f"{found.signal_entry:.2g} an entry ({found.signal_units:.1f} steps), {found.clip:g} in "
        "length, if all devices agree",
        "projection": _projection_words(found),
        "a dishonest device": _influence_words(plan, found),
        "signal to noise": f"{found.signal_to_noise:.1f} in a round, {whole:.0f} over all of them, at most",
        "a contribution": f"{found.contribution_bytes:,} bytes",
        "the model file": f"{found.model_bytes:,} bytes, fetched by every device in every round",
        "the run": f"{timedelta(seconds=found.seconds)}, a round every {timedelta(seconds=plan.period)}",
    }
    for name, words in rows.items():
        if words:
            table.add_row(Text(name, style="dim"), Text(words))
    return table


def _influence_words(plan: Plan, found: Forecast) -> str:
    """How far one contribution moves a round, beside what an honest one adds."""
    mean = found.influence_clips * found.clip / found.contributions
    proved = "" if plan.proof == "norm" else "; `proof`: `norm` bounds it"
    return f"adds {found.influence_clips:.3g} clips at most, and so moves the mean update by {mean:.2g}{proved}"


def _projection_words(found: Forecast) -> str:
    """What a device sends of its update, and what that costs; empty where it sends all."""
    if found.sent == found.parameters:
        return ""
    return f"{found.sent:,} numbers sent; an error as long as {found.projection_error:.1f} mean updates in each round"
