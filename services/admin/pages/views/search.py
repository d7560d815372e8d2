"""What the page of a series shows of a search for frequent texts: prefixes that each round kept, and the ranking."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.errors import UsageError
from tacit.logview.live import LiveLog
from tacit.methods.figures import rest_words, with_margin
from tacit.methods.result import rows
from tacit.operations.prefix_rounds import Asked, Progress, progress, rounds_of

SHOWN = 24
"""How many prefixes of a round have a place in the table."""


def search_of(live: LiveLog, series_hash: str, documents: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Where the search is, for the template, given the ``documents`` of the rounds' releases; None for a series that
    searches for nothing, or whose releases are not those of its rounds."""
    released: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for document in documents:
        released[document["recipe_hash"]].append(document)
    try:
        series, recipes = rounds_of(live, series_hash)
        rounds: list[Asked] = [(recipe, released[recipe.hash_text]) for recipe in recipes]
        found = progress(series, rounds)
    except UsageError:
        return None
    return {"rounds": _rounds(found), "next": _next(found, series.rounds), **_ranking(found)}


def _rounds(found: Progress) -> list[dict[str, Any]]:
    return [
        {
            "round": index + 1,
            "bits": level.candidates.bits,
            "candidates": len(level.counts),
            "kept": kept[:SHOWN],
            "more": len(kept[SHOWN:]),
        }
        for index, (level, kept) in enumerate(zip(found.levels, found.kept, strict=True))
    ]


def _next(found: Progress, rounds: int) -> dict[str, int] | None:
    """The round that can be published now, if there is one."""
    if found.following is None:
        return None
    return {"round": found.published + 1, "of": rounds, "candidates": len(found.following.prefixes)}


def _ranking(found: Progress) -> dict[str, Any]:
    if found.ranked is None:
        return {"ranked": None, "rest": None}
    document = found.ranked.members()
    told = [(row["label"], with_margin(row["estimate"], row["stderr"], ",.0f")) for row in rows(document)]
    return {"ranked": told, "rest": rest_words(document)}
