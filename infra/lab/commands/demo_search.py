"""``tacit demo --heavy-hitters``: which texts are frequent, in rounds over secure aggregation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from infra.lab.commands.demo_local import DEFAULT_TOP, epsilon_of
from infra.lab.commands.demo_played import played
from infra.views.terminal import notes

if TYPE_CHECKING:
    from infra.lab.demo.words import Texts

DEFAULT_EPSILON, MOST_EPSILON = "2", "4"
"""What a release may tell an aggregator that works with the relay."""
DEFAULT_DEVICES, WORD_LENGTH = 50_000, 4
"""Of built-in words; the most frequent ones are short, and four letters take three rounds."""
ALPHABETS, FITTING = (31, 63), 0.95
"""Characters of which an alphabet may consist, and the share of texts that it must spell to be proposed: 5 or 6 bits
for a character are fewer rounds than 8."""


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
        lambda folder, stages: SearchRun(texts, wanted, top or DEFAULT_TOP, folder, stages).run(),
        out,
        json_output=json_output,
    )


def in_few_bits(texts: Texts) -> Texts:
    """The texts in a domain that needs few rounds: with the alphabet of their most frequent characters, if that spells
    most of them, and no longer than they are. A real recipe states both before any device is asked."""
    given = [value for value in texts.values if value.strip()]
    frequent = [character for character, _ in Counter("".join(given)).most_common(max(ALPHABETS))]
    for size in ALPHABETS:
        alphabet = "".join(sorted(frequent[:size]))
        if sum(set(value) <= set(alphabet) for value in given) >= FITTING * len(given):
            longest = max(map(len, given))
            length = min(longest, int(texts.encoder["length"]))
            words = f"proposed from the file: texts of up to {length} of the {len(alphabet)} characters {alphabet!r}"
            notes().print(words, style="yellow", highlight=False, markup=False, soft_wrap=True)
            return replace(texts, encoder={**texts.encoder, "length": length, "alphabet": alphabet})
    return texts
