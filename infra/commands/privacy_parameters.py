"""The options of ``tacit privacy explain`` and ``calibrate``: one for each parameter that a mechanism may have."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tacit.accounting.events import Relation
from tacit.errors import UsageError

Mechanism = Annotated[str, typer.Option("--mechanism", help="One of: tacit privacy mechanisms.")]
By = Annotated[
    Relation | None,
    typer.Option("--relation", help="Neighbouring relation (default: the first that the mechanism has)."),
]
E0 = Annotated[float | None, typer.Option("--e0", help="Local epsilon of one report, by the relation.")]
Delta = Annotated[float | None, typer.Option("--delta", help="Failure probability.")]
TotalDelta = Annotated[float | None, typer.Option("--total-delta", help="That of a composition.")]
Steps = Annotated[
    list[str] | None, typer.Option("--step", metavar="EPSILON:DELTA", help="One step of a composition; repeatable.")
]
N = Annotated[int | None, typer.Option("--n", "--B", help="Reports in a batch.")]
K = Annotated[int | None, typer.Option("--k", help="Categories.")]
Q = Annotated[float | None, typer.Option("--q", help="Sampling rate.")]
Q0 = Annotated[float | None, typer.Option("--q0", help="That of devices with the usual answer.")]
M = Annotated[int | None, typer.Option("--m", help="Slots of a donation window.")]
Rounds = Annotated[int | None, typer.Option("--rounds", help="Repetitions.")]
Sigma = Annotated[float | None, typer.Option("--sigma", help="Standard deviation of Gaussian noise.")]
Scale = Annotated[float | None, typer.Option("--scale", help="Scale (or sigma) of the noise; of flips, the factor.")]
Sensitivity = Annotated[float | None, typer.Option("--sensitivity", help="Largest contribution of one report.")]
Intensity = Annotated[float | None, typer.Option("--intensity", "--lambda", help="Expected dummies.")]
Devices = Annotated[int | None, typer.Option("--devices", help="Devices that could send a dummy.")]
FlipsOfShare = Annotated[int | None, typer.Option("--flips", help="Fair coin flips of one device's noise share.")]
Maximum = Annotated[int | None, typer.Option("--maximum", help="Range of a value, or of an entry of a vector.")]
Cells = Annotated[int | None, typer.Option("--cells", help="Cells that one replaced answer moves: 1 or 2.")]
Length = Annotated[int | None, typer.Option("--length", help="Entries of a vector.")]
Norm = Annotated[int | None, typer.Option("--norm", help="Largest L2 norm of a vector.")]
Signs = Annotated[int | None, typer.Option("--signs", help="1: entries of one sign only; 2: of both.")]
BatchFlips = Annotated[int | None, typer.Option("--batch-flips", help="Flips of one honest aggregator per batch.")]
NAMES = (
    "e0", "epsilon", "delta", "total_delta", "steps", "n", "k", "q", "q0", "m", "rounds", "sigma", "scale",
    "sensitivity", "intensity", "devices", "flips", "maximum", "cells", "length", "norm", "signs", "batch_flips",
)  # fmt: skip


def given(context: typer.Context) -> dict[str, Any]:
    """The parameters that the command line gives, by their names in the table of mechanisms. ``UsageError`` for a step
    that is no pair of numbers."""
    found = {name: context.params.get(name) for name in NAMES}
    if context.params.get("step_epsilon") is not None:
        found["epsilon"] = context.params["step_epsilon"]
    found["steps"] = tuple(_step(text) for text in found["steps"] or ()) or None
    return {name: value for name, value in found.items() if value is not None}


def flag(name: str) -> str:
    """A parameter's option."""
    return "--step" if name == "steps" else f"--{name.replace('_', '-')}"


def _step(text: str) -> tuple[float, float]:
    epsilon, colon, delta = text.partition(":")
    try:
        return float(epsilon), float(delta) if colon else 0.0
    except ValueError as error:
        raise UsageError(f"--step {text}: a step is EPSILON:DELTA, such as 0.5:1e-8") from error
