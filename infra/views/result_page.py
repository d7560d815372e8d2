"""Writes released results as one self-contained HTML page, without scripts or external pictures."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infra.views.page_style import STYLE
from infra.views.result_view import HEADINGS, columns, facts, price_caption, price_rows
from tacit.methods.figures import has_population, interval_of
from tacit.methods.result import answers
from tacit.operations.results import in_order
from tacit.recipe.cautions import cautions

BARS = """
.bar{position:relative;height:14px;min-width:140px}.bar i{position:absolute;top:3px;height:8px;background:var(--hue);
border-radius:2px}.bar u{position:absolute;top:6px;height:2px;background:var(--ink)}
.bar s{position:absolute;top:0;height:14px;background:var(--soft);opacity:.28;border-radius:2px}
.answers td:first-child{min-width:6em;overflow-wrap:anywhere}td.n,th.n{white-space:nowrap}
.warning{overflow-wrap:anywhere}main>h1:not(:first-child){margin-top:48px}
@media (max-width:600px){main{padding:20px 12px 40px}section{padding:14px 12px}h1{font-size:22px}
th,td{padding:5px 6px}th.n{white-space:normal}td:last-child{min-width:0}
table.answers,.answers tbody,.answers tr,.answers td{display:block}.answers thead{display:none}
.answers tr{border-bottom:1px solid var(--line);padding:8px 0}.answers td{border:0;padding:1px 0;max-width:none}
.answers td.n{text-align:left;white-space:normal}.answers td.n::before{content:attr(data-name) ": ";color:var(--soft)}
.answers .bar{margin:4px 0}}
"""


def result_page(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: for each result its answers with 95 % intervals, how they were sampled, and what they cost."""
    names = ", ".join(sorted({str(document["name"]) for document in documents}))
    parts = [_result(document) for document in in_order(documents)] or ["<p>Nothing was released yet.</p>"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>Tacit: {_text(names or 'results')}</title><style>{STYLE}{BARS}</style></head>"
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _result(document: Mapping[str, Any]) -> str:
    lines = "".join(f'<div class="soft">{_text(line)}</div>' for line in facts(document))
    warned = "".join(f'<p class="warning"><b>Warning:</b> {_text(remark)}.</p>' for remark in cautions(document))
    return (
        f"<h1>{_text(document['name'])}, batch {_text(document['batch'])}</h1>{lines}"
        f'<div class="soft">recipe <code>{_text(document["recipe_hash"])}</code></div>{warned}'
        f"<section><h2>Answers</h2>{_answers(document)}</section>"
        f"<section><h2>What it costs in privacy</h2>{_table(HEADINGS, price_rows(document))}"
        f'<p class="soft">{_text(price_caption(document))}.</p></section>'
    )


def _answers(document: Mapping[str, Any]) -> str:
    listed, (headings, numbers) = answers(document), columns(document)
    ends = [end for bucket in listed for end in (*interval_of(bucket, document), *_whole(bucket))]
    low, high = min([0.0, *ends]), max([0.0, *ends])

    def row(bucket: Mapping[str, Any], texts: Sequence[str]) -> str:
        cells = "".join(
            f'<td class="n" data-name="{_text(heading)}">{_text(text)}</td>'
            for heading, text in zip(headings, texts, strict=True)
        )
        bar = _bar(bucket, interval_of(bucket, document), (low, high))
        return f"<tr><td><b>{_text(bucket['label'])}</b></td><td>{bar}</td>{cells}</tr>"

    drawn = "estimate, 95 % interval" + (", and (pale) that of all asked" if has_population(document) else "")
    heads = "".join(f'<th class="n">{_text(heading)}</th>' for heading in headings)
    body = "".join(row(bucket, texts) for bucket, texts in zip(listed, numbers, strict=True))
    return (
        f'<table class="answers"><thead><tr><th>answer</th><th>{drawn}</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )


def _whole(bucket: Mapping[str, Any]) -> tuple[float, ...]:
    """The interval for all devices that were asked, if there is one."""
    return (bucket["population_low"], bucket["population_high"]) if "population_low" in bucket else ()


def _bar(bucket: Mapping[str, Any], interval: tuple[float, float], scale: tuple[float, float]) -> str:
    """A bar from 0 to the estimate, with its interval as a line and that for all asked as a pale band, on this
    scale."""
    low, high = scale
    width = (high - low) or 1.0

    def piece(tag: str, begin: float, end: float) -> str:
        left, right = (100 * (at - low) / width for at in sorted((begin, end)))
        return f'<{tag} style="left:{left:.2f}%;width:{right - left:.2f}%"></{tag}>'

    whole = _whole(bucket)
    pale = piece("s", *whole) if whole else ""
    return f'<div class="bar">{pale}{piece("i", 0.0, bucket["estimate"])}{piece("u", *interval)}</div>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    heads = "".join(f"<th{' class=n' if at else ''}>{_text(cell)}</th>" for at, cell in enumerate(head))
    body = "".join(
        "<tr>" + "".join(f"<td{' class=n' if at else ''}>{_text(cell)}</td>" for at, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: object) -> str:
    return html.escape(str(value))
