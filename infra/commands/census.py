"""``tacit recipe census``: ask how many devices have which attributes, so that recipes may target them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from infra.places import AsJson, StateDir
from infra.recipe_form import RANDOMIZERS, Form, completed
from infra.recipe_writing import write_recipe


def census(
    attribute: Annotated[
        list[str],
        typer.Option("--attribute", metavar="NAME=VALUE,...", help="Count devices by these values; repeat for more."),
    ],
    population: Annotated[int, typer.Option("--population", min=1, help="How many devices are asked.")],
    name: Annotated[str, typer.Option("--name", help="Short name: a-z, 0-9 and -.")] = "census",
    text: Annotated[
        str, typer.Option("--text", help="The question, as a person reads it.")
    ] = "Which devices are there?",
    missing_label: Annotated[
        str, typer.Option("--missing-label", help="The category of devices with none of the counted conjunctions.")
    ] = "none of these",
    rate: Annotated[str, typer.Option("--rate", help="Probability with which a device takes part.")] = "0.5",
    epsilon: Annotated[str, typer.Option("--epsilon", help="Most epsilon against an aggregator with the relay.")] = "1",
    delta: Annotated[str, typer.Option("--delta", help="Delta of the claim.")] = "0.000001",
    min_batch_size: Annotated[
        int | None, typer.Option("--min-batch-size", min=1, help="B (default: 0.8 x rate x population).")
    ] = None,
    randomizer: Annotated[str | None, typer.Option("--randomizer", help=RANDOMIZERS)] = None,
    start: Annotated[int | None, typer.Option("--start", min=0, help="POSIX second in which reports begin.")] = None,
    duration: Annotated[int | None, typer.Option("--duration", min=1, help="Seconds for which they are made.")] = None,
    epoch: Annotated[int | None, typer.Option("--epoch", min=0, help="Token epoch (default: the next one).")] = None,
    slot: Annotated[int | None, typer.Option("--slot", min=0, help="Token slot (default: the first free one).")] = None,
    parties: Annotated[
        Path | None, typer.Option("--parties", help="JSON file with the recipe's parties, instead of a local stack.")
    ] = None,
    state_dir: StateDir = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the recipe here (default: stdout).")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a census: how many devices have which attributes, which recipes with --target need in the log.

    Once it is released, leader and helper publish their shares, and everybody can add them up. Example:
    tacit recipe census --attribute os=linux,mac --population 200 --rate 1 --out census.json
    """
    form = completed(
        Form(
            name, text, "attributes", population=population, rate=rate, epsilon=epsilon, delta=delta,
            min_batch_size=min_batch_size, randomizer=randomizer, start=start, duration=duration, epoch=epoch,
            slot=slot, attributes=tuple(attribute), missing_label=missing_label,
        )
    )  # fmt: skip
    write_recipe(form, parties, state_dir, out, as_json=as_json)
