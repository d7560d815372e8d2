"""``tacit demo --learn``: devices with handwritten digits train one model."""

from __future__ import annotations

import math
from decimal import ROUND_UP, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from infra.lab.commands.demo_local import epsilon_of
from infra.lab.commands.demo_played import played
from infra.views.terminal import notes
from tacit.errors import FieldError, UsageError
from tacit.extras import require_extra

if TYPE_CHECKING:
    from tacit.learning.plan import Plan

DEFAULT_DEVICES, LEAST_DEVICES, MOST_DEVICES = 2000, 500, 10_000
DEFAULT_ROUNDS, LEAST_ROUNDS, MOST_ROUNDS = 8, 2, 22
DEFAULT_EPSILON, MOST_EPSILON = "2", "16"
MOST_LIARS: Final = 100
"""Each is an agent more."""
CONTRIBUTIONS: Final = 200
"""Expected in a round, or a tenth of the devices if that is more: below it, sampling hides a device less."""
LEAST_RATE: Final = Decimal("0.1")
DEVIATIONS: Final = 4.5
"""By so many standard deviations B is below the expected contributions: one round of 300,000 has fewer."""
START_SECONDS, CONTRIBUTION_SECONDS = 20.0, 0.011
"""About what a run takes on two cores: without rounds, and for each contribution."""


def learn(
    input_file: Path | None,
    column: str | None,
    devices: int | None,
    rounds: int | None,
    epsilon: str | None,
    liars: int | None,
    out: Path,
    *,
    json_output: bool,
) -> None:
    """Run the training, in which ``liars`` devices lie; print its result as JSON, or show it and write a report to
    ``out``."""
    if input_file is not None or column is not None:
        raise typer.BadParameter("--learn has digits of its own; leave out --input and --column")
    require_extra("training", "learn", "numpy")
    from infra.lab.demo.learn_run import AGENTS, LearnRun

    number = DEFAULT_DEVICES if devices is None else devices
    if not LEAST_DEVICES <= number <= MOST_DEVICES:
        raise UsageError(f"--learn takes {LEAST_DEVICES:,} to {MOST_DEVICES:,} devices")
    plan = demo_plan(number, rounds or DEFAULT_ROUNDS, epsilon_of(epsilon, DEFAULT_EPSILON, MOST_EPSILON))
    taking_part = plan.rounds * float(plan.expected_contributions)
    seconds = 10 * math.ceil((START_SECONDS + CONTRIBUTION_SECONDS * taking_part) / 10)
    words = (
        f"{number:,} devices, about {plan.expected_contributions:,.0f} of which take part in each of {plan.rounds} "
        f"rounds: {AGENTS} run as agents of their own, the others in batches, as in tacit fleet. This takes about "
        f"{seconds} s on two free cores."
    )
    notes().print(words, highlight=False, style="dim", soft_wrap=True)
    played(lambda folder, stages: LearnRun(plan, folder, stages, liars or 0).run(), out, json_output=json_output)


def demo_plan(devices: int, rounds: int, epsilon: Decimal) -> Plan:
    """The plan of a demo. Raises ``UsageError`` where no noise keeps its epsilon, with an epsilon that can be kept."""
    from tacit.learning.plan import EXAMPLE, Plan
    from tacit.operations.learning.plans import unplaced_series

    rate = max(LEAST_RATE, (Decimal(CONTRIBUTIONS) / devices).quantize(Decimal("0.001"), ROUND_UP))
    expected = float(rate * devices)
    changed: dict[str, Any] = {
        "devices": devices,
        "rate": rate,
        "min_batch_size": math.floor(expected - DEVIATIONS * math.sqrt(expected * (1 - float(rate)))),
        "rounds": rounds,
        "round_seconds": 1800,
        "release_seconds": 1800,
        "epsilon": epsilon,
        "delta": "0.000001",
        "unit": "0.05",
        "server": {"kind": "fedavg", "learning_rate": 3, "momentum": "0.7"},
    }
    plan = Plan.model_validate({**EXAMPLE, **changed})
    try:
        unplaced_series(plan)
    except FieldError as error:
        raise UsageError(f"--epsilon {epsilon}: {error}; with --learn, more --devices are a larger batch") from error
    return plan
