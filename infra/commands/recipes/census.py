"""``tacit recipe census``: asks how many devices have which attributes, so that recipes may target them."""

from __future__ import annotations

from infra.authoring.recipe_options import OutFile, PartiesFile
from infra.authoring.survey_errors import ParsedFlags, completed
from infra.authoring.survey_flags import asking
from infra.stacks.command_options import AsJson, StateDir


@asking(
    "attribute", "population", "name", "text", "missing_label", "rate", "epsilon", "delta", "min_batch_size",
    "randomizer", "start", "duration", "epoch", "slot",
    attribute={"default": ...},
    population={"default": ...},
    name={"default": "census"},
    text={"default": "Which devices are there?"},
    missing_label={
        "default": "none of these",
        "help": "The category of devices with none of the counted conjunctions.",
    },
)  # fmt: skip
def census(
    said: ParsedFlags,
    parties: PartiesFile = None,
    state_dir: StateDir = None,
    out: OutFile = None,
    as_json: AsJson = False,
) -> None:
    """Write a census, which counts devices by attributes; recipes with --target need one in the log.

    Once it is released, leader and helper publish their shares, and everybody can add them up. Example:
    tacit recipe census --attribute os=linux,mac --population 200 --rate 1 --out census.json
    """
    from infra.authoring.recipe_writing import write_recipe

    write_recipe(completed(said), parties, state_dir, out, as_json=as_json)
