"""``tacit demo --heavy-hitters``: which texts are frequent, in rounds over secure aggregation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from infra.lab.commands.demo_local import DEFAULT_TOP, FITTING, begun, epsilon_of
from infra.lab.commands.demo_played import played
from infra.views.terminal import notes

if TYPE_CHECKING:
    from infra.lab.demo.words import Texts

DEFAULT_EPSILON, MOST_EPSILON = "2", "4"
"""What a release may tell an aggregator that works with the relay."""
DEFAULT_DEVICES, WORD_LENGTH = 50_000, 4
"""Of built-in words; the most frequent ones are short, and four letters take three rounds."""
ALPHABETS = (31, 63)
"""Characters of which an alphabet may consist: 5 or 6 bits for a character are fewer rounds than 8."""


def heavy_hitters(
    input_file: Path | None,
    column: str | None,
    devices: int | None,
    epsilon: str | None,
    top: int | None,
    out: Path,
    no_value: Collection[str] = (),
    *,
    json_output: bool,
) -> None:
    """Run the search; print its result as JSON, or show it and write a report to ``out``."""
    from infra.lab.demo.search_run import AGENTS_OF_A_CROWD, MOST_CONTRIBUTIONS, SearchRun
    from infra.lab.demo.words import load_texts, load_wordfreq

    wanted = epsilon_of(epsilon, DEFAULT_EPSILON, MOST_EPSILON)
    if input_file is None:
        if column is not None:
            raise typer.BadParameter("--column goes with --input")
        drawn = load_wordfreq(DEFAULT_DEVICES if devices is None else devices)
        texts = replace(drawn, encoder={**drawn.encoder, "length": WORD_LENGTH})
    else:
        texts = in_few_bits(load_texts(input_file, column, devices, no_value))
    words = (
        f"{len(texts.values):,} devices, at most about {MOST_CONTRIBUTIONS:,} of which take part, each in one round: "
        f"{AGENTS_OF_A_CROWD} run as agents of their own, the others in batches, as in tacit fleet"
    )
    notes().print(words, highlight=False, style="dim", soft_wrap=True)
    played(
        lambda folder, stages: begun(SearchRun(texts, wanted, top or DEFAULT_TOP, folder, stages)),
        out,
        json_output=json_output,
    )


def in_few_bits(texts: Texts) -> Texts:
    """The texts in a domain that needs few rounds: with the alphabet of their most frequent characters, if that spells
    most of them, and no longer than most of them are, or than fits into the rounds of a demo. A real recipe states both
    before any device is asked."""
    from infra.lab.demo.search_run import MOST_ROUNDS

    def within(encoder: dict[str, Any], sizes: list[int]) -> dict[str, Any]:
        length = max(1, sizes[math.ceil(FITTING * len(sizes)) - 1])
        while length > 1 and len(levels_of({**encoder, "length": length})) > MOST_ROUNDS:
            length -= 1
        return {**encoder, "length": length}

    given = [value for value in texts.values if value.strip()]
    frequent = [character for character, _ in Counter("".join(given)).most_common(max(ALPHABETS))]
    for size in ALPHABETS:
        alphabet = "".join(sorted(frequent[:size]))
        if sum(set(value) <= set(alphabet) for value in given) >= FITTING * len(given):
            encoder = within({**texts.encoder, "alphabet": alphabet}, sorted(map(len, given)))
            words = f"texts of up to {encoder['length']} of the {len(alphabet)} characters {alphabet!r}"
            break
    else:
        encoder = within(texts.encoder, sorted(len(value.encode()) for value in given))
        words = f"texts of up to {encoder['length']} bytes"
    notes().print(f"proposed from the file: {words}", style="yellow", highlight=False, markup=False, soft_wrap=True)
    return replace(texts, encoder=encoder)


def levels_of(encoder: dict[str, Any]) -> tuple[int, ...]:
    """The bits of prefixes in the rounds that a search of this domain takes."""
    from tacit.recipe.candidates import asked_prefixes
    from tacit.recipe.encoder_specs import PrefixSearch

    return asked_prefixes(PrefixSearch.model_validate({**encoder, "kind": "prefixes"}), None).levels
