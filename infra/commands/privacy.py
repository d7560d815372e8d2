"""``tacit privacy``: what epsilon a mechanism gives, or what it needs for one; what accounts have spent."""

from __future__ import annotations

import math
from typing import Annotated

import typer

from infra.commands.privacy_budget import ledger, plan_command
from infra.places import AsJson
from infra.terminal import answers, plain_table, print_json
from tacit.accounting.accountants import require_library
from tacit.accounting.examples import EXAMPLES, rows
from tacit.accounting.mechanisms import MECHANISMS, explain

app = typer.Typer(help="Account for privacy: mechanisms, worked examples, budgets.", no_args_is_help=True)

_PAPER = {
    "ex3_sigma": "5.1",
    "ex4_fmt22": "0.61",
    "ex5_round_analytic": "0.034",
    "ex5_2500_pld": "0.8: does not reproduce",
    "ex5_noamp": "over 100",
    "ex5_nonanon_50": "8.3",
    "ex6_composed": "under 0.02",
}
"""What the SA2 paper says, where it says something."""


@app.callback()
def _nothing_in_common() -> None:
    """Account for privacy: mechanisms, worked examples, budgets."""


app.command("ledger")(ledger)
app.command("plan")(plan_command)


@app.command("examples")
def examples(as_json: AsJson = False) -> None:
    """The worked examples of the SA2 paper, computed now, beside what the paper prints.

    Example: tacit privacy examples --json
    """
    require_library()
    found = list(rows())
    if as_json:
        print_json(found)
        return
    table = plain_table("example", "mechanism", "parameters", "relation", "value", "paper")
    table.columns[0].no_wrap = True
    for example, row in zip(EXAMPLES, found, strict=True):
        given = ", ".join(f"{name}={value:g}" for name, value in example.parameters.items())
        value = f"{row['value']:.5g}"
        table.add_row(example.id, example.mechanism, given, str(row["relation"]), value, _PAPER.get(example.id, ""))
    answers().print(table)


@app.command("mechanisms")
def mechanisms(as_json: AsJson = False) -> None:
    """Every mechanism that explain knows, with its parameters (optional ones in brackets)."""
    if as_json:
        print_json(
            [
                {"mechanism": entry.name, "relation": entry.relation.value, "parameters": entry.parameters()}
                for entry in MECHANISMS.values()
            ]
        )
        return
    table = plain_table("mechanism", "parameters", "relation", "what it is")
    for entry in MECHANISMS.values():
        names = (f"--{_flag(name)}" if needed else f"[--{_flag(name)}]" for name, needed in entry.parameters().items())
        table.add_row(entry.name, " ".join(names), entry.relation.value, entry.summary)
    answers().print(table)


@app.command("explain")
def explain_command(
    mechanism: Annotated[str, typer.Option("--mechanism", help="One of: tacit privacy mechanisms.")],
    e0: Annotated[float | None, typer.Option("--e0", help="Local epsilon of one report.")] = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Epsilon of one step, or the target.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="Failure probability.")] = None,
    total_delta: Annotated[float | None, typer.Option("--total-delta", help="That of a composition.")] = None,
    n: Annotated[int | None, typer.Option("--n", help="Reports in a batch.")] = None,
    q: Annotated[float | None, typer.Option("--q", help="Sampling rate.")] = None,
    q0: Annotated[float | None, typer.Option("--q0", help="That of devices with the usual answer.")] = None,
    m: Annotated[int | None, typer.Option("--m", help="Slots of a donation window.")] = None,
    rounds: Annotated[int | None, typer.Option("--rounds", help="Repetitions.")] = None,
    sigma: Annotated[float | None, typer.Option("--sigma", help="Standard deviation of Gaussian noise.")] = None,
    scale: Annotated[float | None, typer.Option("--scale", help="Scale (or sigma) of the noise.")] = None,
    sensitivity: Annotated[float | None, typer.Option("--sensitivity", help="How far one device moves it.")] = None,
    intensity: Annotated[float | None, typer.Option("--intensity", help="Expected dummies.")] = None,
    devices: Annotated[int | None, typer.Option("--devices", help="Devices that could send one.")] = None,
    as_json: AsJson = False,
) -> None:
    """What a mechanism costs in privacy, or needs, for any parameters.

    Example: tacit privacy explain --mechanism shuffle-fmt22 --e0 2 --n 100000 --delta 1e-8
    """
    options = {
        "e0": e0,
        "epsilon": epsilon,
        "delta": delta,
        "total_delta": total_delta,
        "n": n,
        "q": q,
        "q0": q0,
        "m": m,
        "rounds": rounds,
        "sigma": sigma,
        "scale": scale,
        "sensitivity": sensitivity,
        "intensity": intensity,
        "devices": devices,
    }
    answer = explain(mechanism, {name: value for name, value in options.items() if value is not None})
    if as_json:
        print_json({name: value if math.isfinite(value) else None for name, value in answer.items()})
        return
    entry = MECHANISMS[mechanism]
    answers().print(f"{entry.name}: {entry.summary}; neighbours by {entry.relation.value}", style="bold")
    table = plain_table("", "")
    for name, value in answer.items():
        table.add_row(name, f"{value:.6g}")
    answers().print(table)


def _flag(name: str) -> str:
    return name.replace("_", "-")
