"""The options of ``tacit privacy explain`` and ``calibrate``: one for each parameter that a mechanism may have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from tacit.accounting.events import Relation
from tacit.errors import UsageError

Mechanism = Annotated[str, typer.Option("--mechanism", help="A name from: tacit privacy mechanisms.")]
By = Annotated[
    Relation | None,
    typer.Option("--relation", help="Neighbouring relation (default: the first that the mechanism has)."),
]
OPTIONS: dict[str, Any] = {
    "e0": Annotated[float | None, typer.Option("--e0", help="Local epsilon of one report, by the relation.")],
    "delta": Annotated[float | None, typer.Option("--delta", help="Failure probability.")],
    "total_delta": Annotated[float | None, typer.Option("--total-delta", help="Failure probability of a composition.")],
    "steps": Annotated[
        list[str] | None, typer.Option("--step", metavar="EPSILON:DELTA", help="One step of a composition; repeatable.")
    ],
    "n": Annotated[int | None, typer.Option("--n", "--B", help="Reports in a batch.")],
    "k": Annotated[int | None, typer.Option("--k", help="Categories.")],
    "q": Annotated[float | None, typer.Option("--q", help="Sampling rate.")],
    "q0": Annotated[float | None, typer.Option("--q0", help="Sampling rate of devices with the usual answer.")],
    "m": Annotated[int | None, typer.Option("--m", help="Slots of a donation window.")],
    "rounds": Annotated[int | None, typer.Option("--rounds", help="Repetitions.")],
    "sigma": Annotated[float | None, typer.Option("--sigma", help="Standard deviation of Gaussian noise.")],
    "scale": Annotated[
        float | None, typer.Option("--scale", help="Scale (or sigma) of the noise; of flips, the factor.")
    ],
    "sensitivity": Annotated[float | None, typer.Option("--sensitivity", help="Largest contribution of one report.")],
    "intensity": Annotated[float | None, typer.Option("--intensity", "--lambda", help="Expected dummies.")],
    "devices": Annotated[int | None, typer.Option("--devices", help="Devices that could send a dummy.")],
    "flips": Annotated[int | None, typer.Option("--flips", help="Fair coin flips of one device's noise share.")],
    "maximum": Annotated[int | None, typer.Option("--maximum", help="Range of a value, or of an entry of a vector.")],
    "cells": Annotated[int | None, typer.Option("--cells", help="Cells that one replaced answer moves: 1 or 2.")],
    "length": Annotated[int | None, typer.Option("--length", help="Entries of a vector.")],
    "norm": Annotated[int | None, typer.Option("--norm", help="Largest L2 norm of a vector.")],
    "signs": Annotated[int | None, typer.Option("--signs", help="1: entries of one sign only; 2: of both.")],
    "batch_flips": Annotated[
        int | None, typer.Option("--batch-flips", help="Flips of one honest aggregator per batch.")
    ],
}
"""The options by parameter name, in the order of the help; epsilon is missing, as it differs between the commands."""


def with_parameters(command: Callable[..., None]) -> Callable[..., None]:
    """Return ``command`` with ``OPTIONS`` before its last parameter; ``given_parameters`` reads their values from its
    context."""
    own = inspect.signature(command, eval_str=True).parameters
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in OPTIONS.items()
    ]

    @functools.wraps(command)
    def taking_all(**options: Any) -> None:
        command(**{name: options[name] for name in own})

    *first, last = (one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own.values())
    signature = inspect.Signature([*first, *shared, last])
    vars(taking_all)["__signature__"] = signature
    taking_all.__annotations__ = {name: one.annotation for name, one in signature.parameters.items()}
    return taking_all


def given_parameters(context: typer.Context) -> dict[str, Any]:
    """Return the parameters given on the command line, by their names in the table of mechanisms. Raises ``UsageError``
    for a step that is not a pair of numbers."""
    found = {name: context.params.get(name) for name in (*OPTIONS, "epsilon")}
    if context.params.get("step_epsilon") is not None:
        found["epsilon"] = context.params["step_epsilon"]
    found["steps"] = tuple(_step(text) for text in found["steps"] or ()) or None
    return {name: value for name, value in found.items() if value is not None}


def flag(name: str) -> str:
    """Return the option for a parameter, such as ``--total-delta`` for ``total_delta``."""
    return "--step" if name == "steps" else f"--{name.replace('_', '-')}"


def _step(text: str) -> tuple[float, float]:
    epsilon, colon, delta = text.partition(":")
    try:
        return float(epsilon), float(delta) if colon else 0.0
    except ValueError as error:
        raise UsageError(f"--step {text}: a step is EPSILON:DELTA, such as 0.5:1e-8") from error
