"""``tacit privacy``: computes a mechanism's epsilon, its parameters for a wanted epsilon, and accounts' spending."""

from __future__ import annotations

import importlib
import math
from typing import Annotated, Any

import typer

from infra.commands import privacy_parameters as given_by
from infra.commands.privacy_budget import ledger, plan_command
from infra.commands.privacy_parameters import flag
from infra.stacks.command_options import AsJson
from infra.views.terminal import answers, plain_table, print_json
from tacit.accounting.accountants import require_library
from tacit.accounting.calibrate import Calibration, calibrate
from tacit.accounting.device_mechanisms import Quantities
from tacit.accounting.events import Relation
from tacit.accounting.examples import EXAMPLES, rows
from tacit.accounting.mechanisms import MECHANISMS, MechanismEntry, entry_of, explain, relation_of
from tacit.extras import LABORATORY, missing_laboratory

WIDTH = 110
app = typer.Typer(help="Account for privacy: mechanisms, worked examples, budgets.", no_args_is_help=True)

_PAPER = {
    "ex3_sigma": "5.1",
    "ex4_fmt22": "0.61",
    "ex5_round_analytic": "0.034",
    "ex5_2500_pld": "0.8: does not reproduce",
    "ex5_2500_device": "0.8: does not reproduce",
    "ex5_noamp": "over 100",
    "ex5_nonanon_50": "8.3",
    "ex6_composed": "under 0.02",
}
"""The values that the SA2 paper states, by example."""


@app.callback()
def _nothing_in_common() -> None:
    """Account for privacy: mechanisms, worked examples, budgets."""


app.command("ledger")(ledger)
app.command("plan")(plan_command)
try:
    app.command("shuffle-check")(importlib.import_module(f"{LABORATORY}.commands.shuffle_check").shuffle_check)
except ModuleNotFoundError:

    @app.command("shuffle-check", context_settings={"ignore_unknown_options": True, "allow_extra_args": True})
    def _lacking() -> None:
        """Compute exactly what one message for each user tells, alone and shuffled with those of others."""
        raise missing_laboratory("tacit privacy shuffle-check")


@app.command("examples")
def examples(as_json: AsJson = False) -> None:
    """Compute the worked examples of the SA2 paper, and show them beside the paper's values.

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
        value = f"{row['value']:.6g}"
        table.add_row(example.id, example.mechanism, given, str(row["relation"]), value, _PAPER.get(example.id, ""))
    answers().print(table)


@app.command("mechanisms")
def mechanisms(as_json: AsJson = False) -> None:
    """List every mechanism that explain knows, with its parameters (optional ones in brackets) and its relations.

    Example: tacit privacy mechanisms
    """
    if as_json:
        print_json(
            [
                {
                    "mechanism": entry.name,
                    "relation": entry.relation.value,
                    "relations": {relation.value: meaning for relation, meaning in entry.relations.items()},
                    "parameters": entry.parameters(),
                    "solved_for": [*entry.rising, *entry.falling],
                }
                for entry in MECHANISMS.values()
            ]
        )
        return
    table = plain_table("mechanism", "what it is", "parameters", "relations, the default first")
    table.columns[0].no_wrap = table.columns[3].no_wrap = True
    for entry in MECHANISMS.values():
        names = (flag(name) if needed else f"[{flag(name)}]" for name, needed in entry.parameters().items())
        table.add_row(entry.name, entry.summary, " ".join(names), ", ".join(entry.relations))
    answers(WIDTH).print(table)


@app.command("explain")
@given_by.with_parameters
def explain_command(
    context: typer.Context,
    mechanism: given_by.Mechanism,
    relation: given_by.By = None,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="Epsilon of one step, or the target.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compute what a mechanism costs in privacy, or needs, for any parameters.

    Example: tacit privacy explain --mechanism shuffle-fmt22 --e0 2 --n 100000 --delta 1e-8
    """
    answer = explain(mechanism, given_by.given_parameters(context), relation)
    entry = entry_of(mechanism)
    chosen = relation_of(entry, relation)
    if as_json:
        print_json({"mechanism": entry.name, "relation": chosen.value, **_finite(answer)})
        return
    _show(entry, chosen, answer)


@app.command("calibrate")
@given_by.with_parameters
def calibrate_command(
    context: typer.Context,
    mechanism: given_by.Mechanism,
    solve: Annotated[str, typer.Option("--solve", help="The parameter to find: e0, n (B), q, sigma, ...")],
    target: Annotated[float, typer.Option("--epsilon", help="The epsilon to keep.")],
    relation: given_by.By = None,
    step_epsilon: Annotated[float | None, typer.Option("--step-epsilon", help="Epsilon of one step.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the parameter with which a mechanism keeps a wanted epsilon, and recompute the mechanism with it.

    Example: tacit privacy calibrate --mechanism shuffle-fmt22 --solve e0 --n 100000 --delta 1e-8 --epsilon 0.5
    """
    parameters = given_by.given_parameters(context)
    found = calibrate(mechanism, solve, target, parameters, relation)
    if as_json:
        print_json(_document(found, parameters))
        return
    _show(entry_of(mechanism), found.relation, {found.solved: found.value, **found.answer})


def _document(found: Calibration, parameters: dict[str, Any]) -> dict[str, Any]:
    return {
        "mechanism": found.mechanism,
        "relation": found.relation.value,
        "solve": found.solved,
        "value": found.value,
        "target": found.target,
        "parameters": {**parameters, found.solved: found.value},
        **_finite(found.answer),
    }


def _show(entry: MechanismEntry, relation: Relation, answer: Quantities) -> None:
    console = answers(WIDTH)
    console.print(f"{entry.name}: {entry.summary}", style="bold")
    console.print(f"neighbours by {relation}: {entry.relations[relation]}")
    table = plain_table("", "")
    for name, value in answer.items():
        table.add_row(name, f"{value:.7g}")
    console.print(table)


def _finite(answer: Quantities) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in answer.items()}
