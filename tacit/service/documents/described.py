"""An OpenAPI document as a person reads it: every request with its parameters, its body and its answers, each with an
example. Whoever shows it frames it; ``described_page`` is a page without anything around it."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

_STYLE: Final = """
:root{color-scheme:light dark;--ink:#1c2430;--soft:#5b6675;--line:#d9dee6;--card:#fff;--page:#f4f6f9;--hue:#0b7285}
@media (prefers-color-scheme:dark){:root{--ink:#e8ecf2;--soft:#9aa6b6;--line:#2d3644;--card:#171d26;--page:#0f141b;
--hue:#3bc9db}}
body{margin:0;background:var(--page);color:var(--ink);font:15px/1.55 system-ui,sans-serif}
main{max-width:980px;margin:0 auto;padding:32px 20px 64px}a{color:var(--hue)}
section{background:var(--card);border:1px solid var(--line);border-radius:10px;padding:14px 20px;margin-top:14px}
h2{font-size:16px;margin:0 0 4px;overflow-wrap:anywhere}pre{overflow-x:auto;font-size:12.5px;margin:6px 0}
.soft{color:var(--soft)}summary{cursor:pointer}
"""


@dataclass(frozen=True, slots=True)
class Part:
    """A body or an answer: what it is called, of which type it is, and an example of it, empty where it has none."""

    title: str
    media: str
    example: str


@dataclass(frozen=True, slots=True)
class Described:
    """One request. ``parameters``: name, place and words; ``answers``: those of success; ``refusals``: the others."""

    method: str
    path: str
    name: str
    summary: str
    needs: str
    parameters: tuple[tuple[str, str, str], ...]
    body: Part | None
    answers: tuple[Part, ...]
    refusals: tuple[Part, ...]


def describe(document: Mapping[str, Any]) -> list[Described]:
    """Every request of an OpenAPI document, in its order."""
    return [
        _describe(path, method, one) for path, methods in document["paths"].items() for method, one in methods.items()
    ]


def _describe(path: str, method: str, one: Mapping[str, Any]) -> Described:
    answers = {status: list(_parts(status, answer)) for status, answer in one["responses"].items()}
    body = next(iter(_parts("Body", one["requestBody"])), None) if "requestBody" in one else None
    return Described(
        method.upper(),
        path,
        one["operationId"],
        one["summary"],
        one.get("description", "Everybody."),
        tuple(
            (each["name"], f"{each['in']}{', needed' if each.get('required') else ''}", each.get("description", ""))
            for each in one["parameters"]
        ),
        body,
        tuple(part for status, parts in answers.items() if status < "400" for part in parts),
        tuple(part for status, parts in answers.items() if status >= "400" for part in parts),
    )


def _parts(title: str, holder: Mapping[str, Any]) -> Iterable[Part]:
    words = f"{title} {holder.get('description', '')}".strip()
    content = {kind: one for kind, one in holder.get("content", {}).items() if "example" in one}
    for kind, one in content.items():
        example = one["example"]
        text = example if isinstance(example, str) else json.dumps(example, indent=1, ensure_ascii=False)
        model = str(one.get("schema", {}).get("$ref", "")).rpartition("/")[2]
        yield Part(f"{words} {model}".strip(), kind, text)
    if not content:
        yield Part(words, "", "")


def described_page(document: Mapping[str, Any]) -> str:
    """The whole page, without a script."""
    title = html.escape(document["info"]["title"])
    rows = "".join(map(_section, describe(document)))
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta name="viewport" content="width=device-width,initial-scale=1"><style>{_STYLE}</style></head>'
        f"<body><main><h1>{title}</h1><p>{html.escape(document['info']['description'])} For programs: "
        f'<a href="/openapi.json">openapi.json</a> (OpenAPI 3.1). Send <code>Authorization: Bearer KEY</code>. '
        f"Refusals are problem documents (RFC 9457).</p>{rows}</main></body></html>"
    )


def _section(one: Described) -> str:
    parts = [*([] if one.body is None else [one.body]), *one.answers, *one.refusals]
    return (
        f"<section><h2><code>{one.method} {html.escape(one.path)}</code></h2><p>{html.escape(one.summary)} "
        f'<span class="soft">{html.escape(one.needs)}</span></p>{"".join(map(_example, parts))}</section>'
    )


def _example(part: Part) -> str:
    title = html.escape(part.title)
    if not part.example:
        return f"<p>{title}</p>"
    return f"<details><summary>{title}</summary><pre>{html.escape(part.example)}</pre></details>"
