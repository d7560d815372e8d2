"""Released results as one HTML page that opens offline: no script, no picture from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infra.lab.demo.report import STYLE
from infra.result_view import HEADINGS, NORMAL_95, facts, form_of, number, price_caption, price_rows

BARS = """
.bar{position:relative;height:14px;min-width:240px}.bar i{position:absolute;top:3px;height:8px;background:var(--hue);
border-radius:2px}.bar u{position:absolute;top:6px;height:2px;background:var(--ink)}
"""


def result_page(documents: Sequence[Mapping[str, Any]]) -> str:
    """The whole page: per result its answers with 95 % intervals, how they were sampled, and what they cost."""
    names = ", ".join(sorted({str(document["name"]) for document in documents}))
    parts = [_result(document) for document in documents] or ["<p>Nothing was released yet.</p>"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Tacit: {_text(names or 'results')}</title><style>{STYLE}{BARS}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _result(document: Mapping[str, Any]) -> str:
    lines = "".join(f'<div class="soft">{_text(line)}</div>' for line in facts(document))
    return (
        f"<h1>{_text(document['name'])}, batch {_text(document['batch'])}</h1>{lines}"
        f'<div class="soft">recipe <code>{_text(document["recipe_hash"])}</code></div>'
        f"<section><h2>Answers</h2>{_answers(document)}</section>"
        f"<section><h2>What it costs in privacy</h2>{_table(HEADINGS, price_rows(document))}"
        f'<p class="soft">{_text(price_caption(document))}.</p></section>'
    )


def _answers(document: Mapping[str, Any]) -> str:
    buckets, form = document["buckets"], form_of(document)
    ends = [bucket["estimate"] + side * NORMAL_95 * bucket["stderr"] for bucket in buckets for side in (-1, 1)]
    low, high = min(0.0, *ends), max(0.0, *ends)

    def row(bucket: Mapping[str, Any]) -> str:
        estimate, error = bucket["estimate"], NORMAL_95 * bucket["stderr"]
        numbers = "".join(f'<td class="n">{_text(number(one, form))}</td>' for one in (estimate, error))
        return f"<tr><td><b>{_text(bucket['label'])}</b></td><td>{_bar(estimate, error, low, high)}</td>{numbers}</tr>"

    heads = '<th>answer</th><th>estimate, 95 % interval</th><th class="n">estimate</th><th class="n">± 1.96 s.e.</th>'
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(map(row, buckets))}</tbody></table>"


def _bar(estimate: float, error: float, low: float, high: float) -> str:
    """From nothing to the estimate, with its interval as a line; all between ``low`` and ``high``."""
    width = (high - low) or 1.0

    def piece(tag: str, begin: float, end: float) -> str:
        left, right = (100 * (at - low) / width for at in sorted((begin, end)))
        return f'<{tag} style="left:{left:.2f}%;width:{right - left:.2f}%"></{tag}>'

    return f'<div class="bar">{piece("i", 0.0, estimate)}{piece("u", estimate - error, estimate + error)}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th{' class=n' if at else ''}>{_text(cell)}</th>" for at, cell in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if at else ''}>{_text(cell)}</td>" for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return html.escape(str(value))
