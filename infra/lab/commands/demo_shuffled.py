"""``tacit demo --model shuffled``: a histogram whose noise all devices make together, behind a shuffler."""

from __future__ import annotations

import itertools
from collections.abc import Coroutine, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infra.lab.commands.demo_played import played
from infra.views.terminal import notes
from tacit.errors import UsageError

if TYPE_CHECKING:
    from infra.lab.demo.dataset import Dataset
    from infra.lab.demo.proposed import Shown
    from infra.lab.demo.results.result import DemoResult
    from infra.lab.demo.results.view import Stages

VARIANTS = {"zsum": "zsum", "hist": "zsum", "unbiased": "unbiased", "flipped": "flipped"}
"""The randomizer of each variant: a histogram is zsum in every cell."""
DEFAULT_DEVICES = 400
MOST_DOMAIN, MOST_SEALED_DOMAIN = 1_000_000, 999
"""Up to the second, every device seals its messages; above it, those of most are counted."""


def shown_of_shuffled(variant: str | None) -> Shown:
    from infra.lab.demo.proposed import Shown
    from infra.lab.demo.run import rate_of
    from tacit.models.shuffled.form import Shuffled

    asked = {"model": Shuffled.name, "randomizer": VARIANTS.get(variant or "zsum", "zsum")}
    return Shown(partial(rate_of, highest=Decimal(1)), asked)


def of_domain(size: int, devices: int | None) -> Dataset:
    """Devices with answers of a domain of ``size``, Zipf-distributed (exponent 1.1): the first ones are frequent, and
    most of a large domain nobody has."""
    from infra.lab.demo.dataset import Dataset, Question

    if not 2 <= size <= MOST_DOMAIN:
        raise typer.BadParameter(f"--domain takes 2 to {MOST_DOMAIN:,}")
    few, source = size <= MOST_SEALED_DOMAIN, f"Zipf (1.1) over {size:,} answers"
    names, number = [f"item {one}" if few else str(one) for one in range(1, size + 1)], devices or DEFAULT_DEVICES
    shares = [1 / place**1.1 for place in range(1, size + 1)]
    values = _in_shares(names, shares, number)
    asked = Question("Which item?", "item", categories=tuple(names) if few else None, numbers=None if few else size)
    return Dataset(source, asked, values)


def _in_shares(names: Sequence[str], shares: Sequence[float], number: int) -> tuple[str, ...]:
    """``number`` names in these shares: of the first ones together as many as their shares together, rounded."""
    total = sum(shares)
    until = [round(number * below / total) for below in itertools.accumulate(shares)]
    return tuple(
        name
        for name, (low, high) in zip(names, itertools.pairwise((0, *until)), strict=True)
        for _ in range(high - low)
    )


def shuffled(dataset: Dataset, variant: str | None, out: Path, *, json_output: bool) -> None:
    """Run the demo of the shuffled model; print its result as JSON, or show it and write a report to ``out``."""
    from infra.lab.demo.counted_run import CountedRun
    from infra.lab.demo.shuffled_run import LEAST_DEVICES, ShuffledRun

    randomizer = VARIANTS.get(variant or "zsum")
    if randomizer is None:
        raise typer.BadParameter(f"--variant is one of {', '.join(VARIANTS)}")
    if len(dataset.values) < LEAST_DEVICES:
        raise UsageError(f"{len(dataset.values)} devices are too few to hide in; ask for at least {LEAST_DEVICES}")

    def run(folder: Path, stages: Stages) -> Coroutine[Any, Any, DemoResult]:
        if dataset.question.numbers is None:
            return ShuffledRun(dataset, randomizer, folder, stages).run()
        counted = CountedRun(dataset, randomizer, folder, stages)
        if counted.caution:
            notes().print(counted.caution, style="yellow", highlight=False, soft_wrap=True)
        return counted.run()

    played(run, out, json_output=json_output)
