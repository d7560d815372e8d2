"""``tacit learn``: trains a model in the rounds of a series."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from infra.commands.learn_run import run, show
from infra.stacks.command_options import HASH_ARGUMENT, AsJson, StateDir, layout_of, policy_of, read_file, write_file
from infra.views.terminal import answers, json_text, print_json
from tacit.errors import UsageError
from tacit.extras import require_extra

app = typer.Typer(help="Train a model by the sums that devices contribute.", no_args_is_help=True)

PlanFile = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="A plan as JSON or TOML (docs/learning.md).", show_default=False)
]
ArraysFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="The application's first model: .npz, .npy or a model file.")
]
OutFile = Annotated[Path | None, typer.Option("--out", help="Write the model file here.")]
TERMINAL_WIDTH = 100

app.command("run")(run)
app.command("show", context_settings=HASH_ARGUMENT)(show)


@app.command("plan")
def plan(
    file: PlanFile = None,
    example: Annotated[
        bool,
        typer.Option(
            "--example", help="Print a plan to begin with, and nothing else; small in place of FILE: for one machine."
        ),
    ] = False,
    state_dir: StateDir = None,
    as_json: AsJson = False,
) -> None:
    """Show what a training run would cost and how noisy it would be, before there are parties and a time for it; and
    with which stack of this machine it runs.

    Refuses a plan that has no series, with what would fit; docs/learning.md explains the members.

    Example: tacit learn plan --example small
    """
    from infra.views.learn_view import show_forecast
    from tacit.learning.plan import EXAMPLES, Plan
    from tacit.operations.learning.plans import forecast

    if example:
        name = "digits" if file is None else str(file)
        if name not in EXAMPLES:
            raise UsageError(f"{name}: no such example; there are: {', '.join(EXAMPLES)}")
        print(json_text(EXAMPLES[name]), end="")
        return
    if file is None:
        raise UsageError("give the file of a plan, or --example to get one")
    policy = None if state_dir is None else policy_of(layout_of(state_dir).policy_path)
    own = Plan.read(read_file(file), str(file))
    found = forecast(own, policy)
    if as_json:
        print_json({"plan": own.model_dump(mode="json", exclude_none=True), "forecast": found.document()})
    else:
        show_forecast(own, found, answers(TERMINAL_WIDTH))


@app.command("model")
def model(file: ArraysFile, out: OutFile = None, as_json: AsJson = False) -> None:
    """Show the ``architecture`` of a plan that trains an application's own model from FILE.

    Its arrays are one row of numbers, in their order. tacit learn run --initial takes FILE as it is.

    Example: tacit learn model first.npz
    """
    require_extra("this command", "learn", "numpy")
    from tacit.learning.first_model import OwnModel

    found = OwnModel.read(read_file(file), str(file))
    if out is not None:
        write_file(out, found.file)
    spec = found.spec.model_dump(mode="json")
    if as_json:
        print_json({"architecture": spec, "bytes": len(found.file)})
    else:
        print(f'"architecture": {json.dumps(spec)}')
