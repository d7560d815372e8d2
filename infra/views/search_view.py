"""Prints where a search for frequent texts is: what each round kept, what is asked next, and the ranking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from infra.views.answer_table import AnswerRow, answers_table
from infra.views.terminal import span
from tacit.counting_words import plural
from tacit.methods.figures import MARGIN, form_of, margin, number, rest_words
from tacit.methods.result import rows
from tacit.operations.prefix_rounds import Progress
from tacit.recipe.series import Series

MOST_SHOWN = 12


def search_document(series: Series, found: Progress, published: Mapping[str, Any] | None) -> dict[str, Any]:
    """The state of a search as JSON: per released round its ``reports``, the number of ``candidates``, the
    ``threshold`` in counts and the labels ``kept``; the round that was ``published`` now; and at the end ``ranked``, as
    in a release."""
    levels = [
        {
            "round": index,
            "bits": level.candidates.bits,
            "reports": level.reports,
            "candidates": len(level.counts),
            "threshold": level.least,
            "kept": list(kept),
        }
        for index, (level, kept) in enumerate(zip(found.levels, found.kept, strict=True))
    ]
    return {
        "series": {"name": series.name, "hash": series.hash_text, "rounds": series.rounds},
        "released": levels,
        "published": None if published is None else dict(published),
        **({} if found.ranked is None else found.ranked.members()),
    }


def show_search(series: Series, found: Progress, published: Mapping[str, Any] | None, console: Console) -> None:
    """Print the last released round and what was published after it, or the ranking."""
    document = search_document(series, found, published)
    for level in document["released"] if found.ranked is not None else document["released"][-1:]:
        shown = ", ".join(level["kept"][:MOST_SHOWN]) or "nothing stands out"
        more = f" and {len(level['kept']) - MOST_SHOWN} more" if len(level["kept"]) > MOST_SHOWN else ""
        line = f"round {level['round']}: {plural(level['reports'], 'contribution')}, {len(level['kept'])} of "
        console.print(Text(f"{line}{level['candidates']} prefixes kept: {shown}{more}"), soft_wrap=True)
    if published is not None and found.following is not None:
        window = series.window(published["round"])
        words = f"published {published['name']} as entry {published['index']} of the log: "
        words += (
            f"{plural(len(found.following.prefixes), 'candidate')} of {plural(found.following.bits, 'bit')}, reports "
        )
        console.print(Text(words + span(window.start, window.end)), soft_wrap=True)
    if found.ranked is not None:
        form = form_of({**document, "statistic": series.probe.question.statistic})
        listed = []
        for one in rows(document):
            numbers = (number(one["estimate"], form), margin(one["stderr"], form))
            listed.append(AnswerRow(one["label"], one["estimate"], one["stderr"], numbers))
        listed = listed or [AnswerRow("none stands out", 0.0, 0.0, ("", ""))]
        console.print(answers_table(listed, "estimate ━ with 95 % interval ╌", ("estimate", MARGIN), console.width))
        rest = f"{rest_words(document)}; of all devices, if all were eligible from the first round"
        console.print(Text(rest), style="dim")
