"""OpenAPI 3.1 documents, and pages of the same for a person, from the table of routes by which a service answers."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol

from aiohttp import web
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from tacit import __version__
from tacit.errors import DecodeError
from tacit.media_types import JSON, PROBLEM_JSON

IDEMPOTENCY: Final = "Idempotency-Key"
MOST_KEY: Final = 255
KEY_PATTERN: Final = rf"[!-~]{{1,{MOST_KEY}}}"
DEFAULT_LIMIT, MOST_LIMIT = 50, 200
_REF: Final = "#/components/schemas/{model}"
_ALWAYS: Final = (400, 408, 429, 503)
"""Problems that every route may answer with: a request that cannot be read, one that came too slowly, or while the
service is busy or its store away."""


class Problem(BaseModel):
    """A refusal (RFC 9457). ``field``: the member of the body that is wrong, where it is one."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str | None = None
    field: str | None = None


class Operation(Protocol):
    """A row of a table of routes, as far as it is described. ``answers``: status and model; ``problems``: further
    statuses of problem documents."""

    @property
    def method(self) -> str:
        """Of HTTP."""
        ...

    @property
    def path(self) -> str:
        """With the names of its parts in braces."""
        ...

    @property
    def name(self) -> str:
        """The operation's id."""
        ...

    @property
    def summary(self) -> str:
        """What it does, in a sentence."""
        ...

    @property
    def answers(self) -> Mapping[int, type[BaseModel] | None]:
        """By status, the model of the body; ``None`` without one."""
        ...

    @property
    def body(self) -> type[BaseModel] | None:
        """The model of the request's body."""
        ...

    @property
    def problems(self) -> tuple[int, ...]:
        """Further statuses with which it refuses."""
        ...

    @property
    def takes(self) -> bool:
        """Whether requests of it may have a body."""
        ...

    @property
    def paged(self) -> bool:
        """Whether it takes ``cursor`` and ``limit``."""
        ...

    @property
    def tagged(self) -> bool:
        """Whether ``If-Match`` is heeded."""
        ...

    @property
    def once(self) -> bool:
        """Whether an ``Idempotency-Key`` is heeded."""
        ...

    @property
    def query(self) -> tuple[str, ...]:
        """Members of the query that are its own."""
        ...

    @property
    def media(self) -> str:
        """The type of what it answers."""
        ...

    @property
    def formats(self) -> Mapping[str, str]:
        """Further types of what it answers, by the word that asks for one in the query's ``format``."""
        ...

    @property
    def needs(self) -> str | None:
        """Whom it answers, in words; ``None``: everybody."""
        ...


@dataclass(frozen=True)
class About:
    """What an interface is called and is for; its ``schemes`` of credentials by name, and which of them open it, each
    row of ``opening`` being enough; ``query``: schemas of members of the query; ``roles``: what each may."""

    title: str
    description: str
    schemes: Mapping[str, Mapping[str, Any]]
    opening: Sequence[Mapping[str, Sequence[str]]]
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)


def document(operations: Sequence[Operation], about: About) -> dict[str, Any]:
    """The document. Its schemas are those of the models that check the bodies."""
    models: set[type[BaseModel]] = {Problem}
    for one in operations:
        models |= {model for model in (one.body, *one.answers.values()) if model is not None}
    named = sorted(models, key=lambda model: model.__name__)
    places, schemas = models_json_schema([(model, "validation") for model in named], ref_template=_REF)
    refs = {model: places[model, "validation"] for model in named}
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, refs, about)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": about.title,
            "version": __version__,
            "description": about.description,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [dict(one) for one in about.opening],
        "paths": paths,
        "components": {"schemas": schemas["$defs"], "securitySchemes": dict(about.schemes)},
    }


def _operation(one: Operation, refs: Mapping[type[BaseModel], Any], about: About) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "tags": [one.path.split("/")[2]],
        "parameters": list(_parameters(one, about)),
        "responses": {
            **{str(status): _answer(status, model, refs, one) for status, model in one.answers.items()},
            **{str(status): _problem(status, refs) for status in problems_of(one)},
        },
    }
    if one.needs is None:
        found["security"] = []
    else:
        found["description"] = one.needs
    if one.body is not None:
        required = bool(one.body.model_fields) and not getattr(one.body, "may_be_left_out", False)
        found["requestBody"] = {"required": required, "content": {JSON: {"schema": refs[one.body]}}}
    return found


def problems_of(one: Operation) -> list[int]:
    """Every status with which the route may refuse, in order."""
    found = {*_ALWAYS, *one.problems}
    if one.needs is not None:
        found |= {401, 403}
    if one.takes:
        found |= {413, 422}
    if one.body is not None:
        found.add(415)
    return sorted(found)


def _parameters(one: Operation, about: About) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", one.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name in one.query:
        yield {"name": name, "in": "query", "schema": about.query[name]}
    if one.formats:
        words = "Beside it the header Accept is heeded."
        schema = {"type": "string", "enum": ["json", *one.formats], "default": "json"}
        yield {"name": "format", "in": "query", "schema": schema, "description": words}
    if one.paged:
        yield _number("cursor", {"type": "integer", "minimum": 0}, "`next` of the page before.")
        limits = {"type": "integer", "minimum": 1, "maximum": MOST_LIMIT, "default": DEFAULT_LIMIT}
        yield _number("limit", limits, "How many at most.")
    if one.tagged:
        words = "The ETag that was read; needed to edit and to delete."
        needed = one.method in {"PUT", "DELETE"}
        schema = {"type": "string"}
        yield {"name": "If-Match", "in": "header", "required": needed, "schema": schema, "description": words}
    if one.once:
        words = "With the same key, the same request is answered as it was the first time, and done once."
        schema = {"type": "string", "pattern": f"^{KEY_PATTERN}$"}
        yield {"name": IDEMPOTENCY, "in": "header", "schema": schema, "description": words}


def _number(name: str, schema: dict[str, Any], words: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": words}


def _answer(status: int, model: type[BaseModel] | None, refs: Mapping[type[BaseModel], Any], one: Operation) -> Any:
    found: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if model is not None:
        found["content"] = {JSON: {"schema": refs[model]}, **{kind: {} for kind in one.formats.values()}}
    elif one.media != JSON:
        found["content"] = {one.media: {"schema": {"type": "string"}}}
    if status == HTTPStatus.CREATED and one.needs is not None:
        found["headers"] = {"Location": {"schema": {"type": "string"}, "description": "Where it is."}}
    return found


def _problem(status: int, refs: Mapping[type[BaseModel], Any]) -> Any:
    return {"description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: {"schema": refs[Problem]}}}


def page(operations: Sequence[Operation], about: About) -> str:
    """The table for a person, without any script."""
    rows = "".join(_row(one) for one in operations)
    roles = "".join(
        f"<tr><th>{html.escape(role)}</th><td>{html.escape(may)}</td></tr>" for role, may in about.roles.items()
    )
    table = f"<h2>Roles</h2><table><tbody>{roles}</tbody></table>" if roles else ""
    once = f"A POST with an <code>{IDEMPOTENCY}</code> is done once, however often it is sent. "
    heeded = once if any(one.once for one in operations) else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(about.title)}</title>'
        f'<meta name="viewport" content="width=device-width"></head><body><main><h1>{html.escape(about.title)}</h1>'
        f"<p>{html.escape(about.description)} "
        'The whole of it for programs: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1). Send '
        f"<code>Authorization: Bearer KEY</code>. {heeded}Refusals are problem documents (RFC 9457).</p>"
        f"<h2>Requests</h2><table><thead><tr><th>Request</th><th>What it does</th><th>Permission</th><th>Body</th>"
        f"<th>Answers</th></tr></thead><tbody>{rows}</tbody></table>{table}</main></body></html>"
    )


def _row(one: Operation) -> str:
    answers = [f"{status} {model.__name__ if model else ''}".strip() for status, model in one.answers.items()]
    cells = (
        f"<code>{one.method} {html.escape(one.path)}</code>",
        html.escape(one.summary),
        "everybody" if one.needs is None else html.escape(one.needs),
        one.body.__name__ if one.body else "",
        "; ".join([*answers, *map(str, problems_of(one))]),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def add_described(app: web.Application, operations: Sequence[Operation], about: About) -> None:
    """Have ``app`` describe itself to everybody: ``/openapi.json``, and ``/docs`` for a person."""
    described = json.dumps(document(operations, about), separators=(",", ":")).encode()
    shown = page(operations, about).encode()

    async def get_openapi(_request: web.Request) -> web.Response:
        return web.Response(body=described, headers={"Content-Type": JSON})

    async def get_docs(_request: web.Request) -> web.Response:
        return web.Response(body=shown, headers={"Content-Type": "text/html; charset=utf-8"})

    app.router.add_get("/openapi.json", get_openapi)
    app.router.add_get("/docs", get_docs)


def require_known_query(one: Operation, request: web.Request) -> None:
    """What a query has besides the operation's members is a mistake, and each of those stands there once; otherwise a
    misspelt filter would answer with everything. Raises ``DecodeError``."""
    known = {*one.query, *(("format",) if one.formats else ()), *(("cursor", "limit") if one.paged else ())}
    given = [name for name, _ in request.query.items()]
    if not known.issuperset(given):
        words = f"takes {', '.join(sorted(known))} and nothing else" if known else "takes nothing"
        raise DecodeError(f"the query of this {words}")
    if len(set(given)) < len(given):
        raise DecodeError("the query has a member twice")


def page_of(request: web.Request) -> tuple[int, int]:
    """The number behind which a page begins, and how much it holds at most. Raises ``DecodeError``."""
    after = _counted(request.query.get("cursor"), "cursor", 0, 0, 2**53)
    return after, _counted(request.query.get("limit"), "limit", DEFAULT_LIMIT, 1, MOST_LIMIT)


def _counted(text: str | None, name: str, default: int, least: int, most: int) -> int:
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 16 or not least <= int(text) <= most:
        raise DecodeError(f"{name} takes a number from {least} to {most}")
    return int(text)
