"""Prints a released result for a person: the answers, how they were sampled, and what they cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from infra.views.answer_table import AnswerRow, answers_table
from infra.views.claim_words import adversary_text, delta_text, epsilon_text, is_conditional
from infra.views.terminal import plain_table, span
from tacit.methods.base.statistics import STATISTICS
from tacit.methods.figures import (
    MARGIN,
    form_of,
    has_population,
    margin,
    number,
    places_to_draw,
    population_texts,
    rest_words,
    share_texts,
    with_margin,
)
from tacit.methods.result import answers
from tacit.recipe.cautions import cautions, devices, missing_share
from tacit.time_format import format_utc

WHOSE = {"recipe": "as the recipe states", "analyst": "as you state"}

HEADINGS = ("who might look at a contribution", "ε stated", "δ", "ε of this batch")


def show_result(
    document: Mapping[str, Any], console: Console, truth: Sequence[float] | None = None, told: str = ""
) -> None:
    """Print one released result as two panels: answers and privacy cost. ``truth``: what simulated devices hold, by
    answer, and ``told``, why that is known."""
    headings, texts = columns(document)
    found, places = answers(document), places_to_draw(document)
    if truth is not None and len(truth) == len(found):
        headings = [*headings, "truth"]
        texts = [[*row, number(one, form_of(document))] for row, one in zip(texts, truth, strict=True)]
    drawn = [
        AnswerRow(
            found[at]["label"], found[at]["estimate"], found[at]["stderr"], tuple(texts[at]),
            None if truth is None else truth[at],
        )
        for at in places
    ]  # fmt: skip
    if "ranked" in document and not drawn:
        drawn = [AnswerRow("none stands out", 0.0, 0.0, ("",) * len(headings))]
    bar = "estimate ━ with 95 % interval ╌" if truth is None else "━ estimate ╌ 95 % ┃ truth"
    table = answers_table(drawn, bar, headings, console.width)
    title = Text(f"{document['name']}, batch {document['batch']}", style="bold")
    lines = [Text(line, style="dim") for line in facts(document)]
    lines = [Text(told, style="yellow"), *lines] if told else lines
    warned = [Text(f"warning: {remark}", style="bold yellow") for remark in cautions(document)]
    if len(places) < len(found):
        more = f"the {len(places)} largest of {len(found):,} answers; --format csv and --html have all"
        lines.insert(0, Text(more, style="dim"))
    console.print(Panel(Group(table, *warned, *lines), title=title, title_align="left"))
    console.print(Panel(_price(document), title="[bold]What it costs in privacy", title_align="left"))


def columns(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Return the headings of the number columns, and the numbers of each row: estimate and error for those who answered
    and, where the document has them, their share and the interval for all that were asked."""
    form, listed = form_of(document), answers(document)
    found = {
        "estimate": [number(one["estimate"], form) for one in listed],
        MARGIN: [margin(one["stderr"], form) for one in listed],
        "share": share_texts(document),
    }
    whole = population_texts(document, form)
    if whole:
        found[f"of all {exact_text(document)}asked"] = whole
    shown = {heading: cells for heading, cells in found.items() if cells}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def facts(document: Mapping[str, Any]) -> list[str]:
    """Return lines on the question, how many were asked and answered, what is estimated, when contributions were made
    and released, and how they were sampled."""
    interval = document["interval"]
    return [
        *([str(document["question"])] if document.get("question") else []),
        *response_lines(document),
        *_rest(document),
        f"reported {span(interval['start'], interval['start'] + interval['duration'])}",
        f"released {format_utc(document['released_at'])}",
        *sampling_lines(document.get("sampling", {})),
        *missing_lines(document),
        *spread_lines(document),
        *_series(document),
    ]


def _rest(document: Mapping[str, Any]) -> list[str]:
    words = rest_words(document)
    return [] if words is None else [words]


def _series(document: Mapping[str, Any]) -> list[str]:
    series = document.get("series")
    if series is None:
        return []
    words = f"round {series['index']} of series {series['hash'][:8]}, charged once for all rounds"
    return [words, "with donation time, an estimate covers the devices that took part in no earlier round"]


def sampling_lines(sampling: Mapping[str, Any]) -> list[str]:
    """Return the ``sampling`` member of a result as sentences; none if it is empty."""
    if not sampling:
        return []
    importance, dummies = sampling.get("importance"), sampling.get("dummies")
    if importance is not None:
        usual = importance.get("default_label", f"answer {importance['default']}")
        rates = f"q = {importance['default_rate']:g} for {usual}, {sampling['rate']:g} for any other answer"
    else:
        rates = f"q = {sampling['rate']:g} for every device"
    lines = [f"sampled {rates}"]
    if dummies is not None:
        intensity, population = dummies["intensity"], dummies["population"]
        counted = f", about {dummies['expected']:,.1f} of them counted here" if "expected" in dummies else ""
        lines.append(f"dummies {intensity:g} expected among {population:,} devices{counted}; estimates allow for them")
    return lines


def missing_lines(document: Mapping[str, Any]) -> list[str]:
    """Return a sentence on how a result counts devices without a value; nothing if the document does not say."""
    missing = document.get("missing")
    if missing is None:
        return []
    if "label" in missing:
        return [f"devices without a value are counted as {missing['label']!r}"]
    if missing.get("biases"):
        return []  # shown as a warning
    if STATISTICS[document["statistic"]].is_ratio or any(missing["adds"]):
        return [f"devices without a value take part: each adds {missing_share(document)} to an estimate"]
    return ["devices without a value take part, and add nothing"]


def spread_lines(document: Mapping[str, Any]) -> list[str]:
    """Return a sentence on which error is shown, if a result has two."""
    ratios = [one["stderr_typical"] / one["stderr"] for one in answers(document) if one.get("stderr_typical")]
    if not ratios:
        return []
    share = sum(ratios) / len(ratios)
    return [
        f"intervals hold for any values in the range; for evenly spread values about {share:.0%} as wide (no bound)"
    ]


def price_rows(document: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return a row per adversary: who it is, epsilon as the recipe states it, delta, and epsilon for the contributions
    that came. The last is empty where it depends on how many of these were honest, which is not known."""
    privacy, ran = document["privacy"], document.get("privacy_of_batch", {}).get("by_adversary", {})
    return [
        (
            adversary_text(name, privacy["n"]),
            epsilon_text(value),
            delta_text(name, value, privacy["delta"]),
            epsilon_text(ran[name]) if name in ran and not is_conditional(name) else "",
        )
        for name, value in privacy["by_adversary"].items()
    ]


def price_caption(document: Mapping[str, Any]) -> str:
    """Return the mechanism, neighbour relation and number of contributions behind the numbers of ``price_rows``."""
    privacy = document["privacy"]
    stated = f"{privacy['mechanism']}, {privacy['relation']} neighbours, stated at n = {privacy['n']:,} contributions"
    ran = document.get("privacy_of_batch")
    return stated if ran is None else f"{stated}; this batch has {ran['n']:,}"


def _price(document: Mapping[str, Any]) -> Group:
    table = plain_table(*HEADINGS)
    for row in price_rows(document):
        table.add_row(*row)
    return Group(table, Text(price_caption(document), style="dim"))


def response_lines(document: Mapping[str, Any]) -> list[str]:
    """Return sentences on asked, expected and counted contributions, on the number of devices behind them, and on what
    each interval covers."""
    response = document.get("response", {})
    mean = STATISTICS[document["statistic"]].is_ratio
    lines = [
        *_question_lines(document),
        *_response_lines(response),
        f"an estimate is the {'mean' if mean else 'total'} of the devices that answered, and its interval is for these",
    ]
    if has_population(document):
        lines.append("the interval for all devices asked holds whatever the silent ones would have answered")
    elif response.get("asked") is None:
        lines.append("nothing is said about devices that stayed silent, which may have other answers")
    return lines


def _question_lines(document: Mapping[str, Any]) -> list[str]:
    response, counted = document.get("response", {}), f"{document['report_count']:,} contributions counted"
    asked, expected = response.get("asked"), response.get("expected", {})
    if asked is None:
        hint = "; how many devices were asked is not known (--asked N states it)" if response else ""
        return [f"{counted}{hint}"]
    words = f"asked {devices(asked)} devices, {WHOSE.get(asked['by'], asked['by'])}"
    if "contributions" not in expected:
        return [f"{words} · {counted}"]
    return [f"{words} · {expected['contributions']:,.0f} contributions expected · {counted}, {expected['share']:.1%}"]


def exact_text(document: Mapping[str, Any]) -> str:
    """Return the number of asked devices and a space if it is known exactly, otherwise an empty text."""
    asked = document["response"]["asked"]
    return f"{asked['most']:,} " if asked["least"] == asked["most"] else ""


def _response_lines(response: Mapping[str, Any]) -> list[str]:
    answered = response.get("answered")
    if answered is None:
        return []
    estimate, error = answered["estimate"], answered["stderr"]
    estimated = with_margin(estimate, error, ",.0f") if error else number(estimate, ",.0f")
    return [f"sent by a sample of {estimated} devices that answered"]
