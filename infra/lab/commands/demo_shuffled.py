"""``tacit demo --model shuffled``: a histogram whose noise all devices make together, behind a shuffler."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from infra.lab.commands.demo_played import played
from tacit.errors import UsageError

if TYPE_CHECKING:
    from infra.lab.demo.dataset import Dataset

VARIANTS = {"zsum": "zsum", "hist": "zsum", "unbiased": "unbiased"}
"""The randomizer of each variant: a histogram is zsum in every cell."""
DEFAULT_DEVICES = 400
MOST_DOMAIN = 999


def of_domain(size: int, devices: int | None) -> Dataset:
    """Devices with answers of a domain of ``size``, Zipf-distributed (exponent 1.1): the first ones are frequent, and
    most of a large domain nobody has."""
    from infra.lab.demo.dataset import Dataset, Question

    if not 2 <= size <= MOST_DOMAIN:
        raise typer.BadParameter(f"--domain takes 2 to {MOST_DOMAIN}")
    names, number = tuple(f"item {one}" for one in range(1, size + 1)), devices or DEFAULT_DEVICES
    shares = [1 / place**1.1 for place in range(1, size + 1)]
    values = _in_shares(names, shares, number)
    return Dataset(f"Zipf (1.1) over {size} answers", Question("Which item?", "item", categories=names), values)


def _in_shares(names: Sequence[str], shares: Sequence[float], number: int) -> tuple[str, ...]:
    """``number`` names in these shares, rounded down; what is left over goes to the first."""
    total = sum(shares)
    values = [name for name, share in zip(names, shares, strict=True) for _ in range(int(number * share / total))]
    return (*values, *[names[0]] * (number - len(values)))


def shuffled(dataset: Dataset, variant: str | None, out: Path, *, json_output: bool) -> None:
    """Run the demo of the shuffled model; print its result as JSON, or show it and write a report to ``out``."""
    from infra.lab.demo.shuffled_run import LEAST_DEVICES, ShuffledRun

    randomizer = VARIANTS.get(variant or "zsum")
    if randomizer is None:
        raise typer.BadParameter(f"--variant is one of {', '.join(VARIANTS)}")
    if len(dataset.values) < LEAST_DEVICES:
        raise UsageError(f"{len(dataset.values)} devices are too few to hide in; ask for at least {LEAST_DEVICES}")
    played(lambda folder, stages: ShuffledRun(dataset, randomizer, folder, stages).run(), out, json_output=json_output)
