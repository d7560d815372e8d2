"""OpenAPI 3.1 documents, and the same as pages for people, from the table of routes with which a service answers."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol

from aiohttp import web
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import models_json_schema

from tacit import __version__
from tacit.errors import DecodeError
from tacit.media_types import JSON, OCTET_STREAM, PROBLEM_JSON
from tacit.service.documents.examples import Examples
from tacit.service.http.paging import DEFAULT_LIMIT, MOST_LIMIT

IDEMPOTENCY: Final = "Idempotency-Key"
MOST_KEY: Final = 255
KEY_PATTERN: Final = rf"[!-~]{{1,{MOST_KEY}}}"
_REF: Final = "#/components/schemas/{model}"
_ALWAYS: Final = (400, 408, 429, 503)
"""Problems with which every route may answer: the request cannot be read, it arrived too slowly, or the service is busy
or its store is unreachable."""


class Problem(BaseModel):
    """A refusal (RFC 9457). ``field``: the member of the body that is wrong, where it is one; ``fields``: every such
    member with what is wrong with it."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="allow")

    type: str
    title: str
    status: int
    detail: str | None = None
    field: str | None = None
    fields: list[dict[str, str]] | None = None


class Operation(Protocol):
    """A row of a table of routes, as far as it is described. ``answers``: status and model; ``problems``: further
    statuses of problem documents."""

    @property
    def method(self) -> str:
        """The operation's HTTP method."""
        ...

    @property
    def path(self) -> str:
        """The path, with the names of its parameters in braces."""
        ...

    @property
    def name(self) -> str:
        """The operation's ``operationId``."""
        ...

    @property
    def summary(self) -> str:
        """What it does, in one sentence."""
        ...

    @property
    def answers(self) -> Mapping[int, type[BaseModel] | None]:
        """The model of the body by status; ``None`` without a body."""
        ...

    @property
    def body(self) -> type[BaseModel] | None:
        """The model of the request's body; ``None`` without a body."""
        ...

    @property
    def problems(self) -> tuple[int, ...]:
        """Further statuses with which it refuses."""
        ...

    @property
    def takes(self) -> bool:
        """Whether its requests may have a body."""
        ...

    @property
    def paged(self) -> bool:
        """Whether it takes ``cursor`` and ``limit``."""
        ...

    @property
    def tagged(self) -> bool:
        """Whether it honours ``If-Match``."""
        ...

    @property
    def once(self) -> bool:
        """Whether it honours an ``Idempotency-Key``."""
        ...

    @property
    def query(self) -> tuple[str, ...]:
        """The operation's own query parameters, those of pages left out."""
        ...

    @property
    def media(self) -> str:
        """The media type of its answers."""
        ...

    @property
    def formats(self) -> Mapping[str, str]:
        """Further media types of its answers, by the value of the query parameter ``format`` that selects one."""
        ...

    @property
    def needs(self) -> str | None:
        """Who may call it, in words; ``None``: everybody."""
        ...


@dataclass(frozen=True)
class About:
    """The name and purpose of an interface; its ``schemes`` of credentials by name, and which of them open it, each
    row of ``opening`` being enough; ``query``: schemas of members of the query; ``roles``: what each may; ``examples``:
    by the name of a model, of a member or of a media type, where one is better given than made."""

    title: str
    description: str
    schemes: Mapping[str, Mapping[str, Any]]
    opening: Sequence[Mapping[str, Sequence[str]]]
    query: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    examples: Mapping[str, Any] = field(default_factory=dict)


def document(operations: Sequence[Operation], about: About) -> dict[str, Any]:
    """The OpenAPI document. Its schemas are those of the models that validate the bodies."""
    models: set[type[BaseModel]] = {Problem}
    for one in operations:
        models |= {model for model in (one.body, *one.answers.values()) if model is not None}
    named = sorted(models, key=lambda model: model.__name__)
    places, schemas = models_json_schema([(model, "validation") for model in named], ref_template=_REF)
    refs = {model: places[model, "validation"] for model in named}
    paths: dict[str, dict[str, Any]] = {}
    examples = Examples(schemas["$defs"], about.examples)
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, refs, about, examples)
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


def _operation(one: Operation, refs: Mapping[type[BaseModel], Any], about: About, examples: Examples) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": one.name,
        "summary": one.summary,
        "tags": [one.path.split("/")[2]],
        "parameters": list(_parameters(one, about)),
        "responses": {
            **{str(status): _answer(status, model, refs, one, examples) for status, model in one.answers.items()},
            **{str(status): _problem(status, refs, examples) for status in problems_of(one)},
        },
    }
    if one.needs is None:
        operation["security"] = []
    else:
        operation["description"] = one.needs
    if one.body is not None:
        required = bool(one.body.model_fields) and not getattr(one.body, "may_be_left_out", False)
        content = {"schema": refs[one.body], "example": examples.of_model(one.body.__name__, request=True)}
        operation["requestBody"] = {"required": required, "content": {JSON: content}}
    return operation


def problems_of(one: Operation) -> list[int]:
    """Every status with which the route may refuse, in order."""
    statuses = {*_ALWAYS, *one.problems}
    if one.needs is not None:
        statuses |= {401, 403}
    if one.takes:
        statuses |= {413, 422}
    if one.body is not None:
        statuses.add(415)
    return sorted(statuses)


def _parameters(one: Operation, about: About) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", one.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name in one.query:
        yield {"name": name, "in": "query", "schema": about.query[name]}
    if one.formats:
        words = "The header Accept is honoured as well."
        schema = {"type": "string", "enum": ["json", *one.formats], "default": "json"}
        yield {"name": "format", "in": "query", "schema": schema, "description": words}
    if one.paged:
        yield _number("cursor", {"type": "integer", "minimum": 0}, "`next` of the previous page.")
        limits = {"type": "integer", "minimum": 1, "maximum": MOST_LIMIT, "default": DEFAULT_LIMIT}
        yield _number("limit", limits, "The largest number of items.")
    if one.tagged:
        words = "The ETag that was read; required to edit and to delete."
        needed = one.method in {"PUT", "DELETE"}
        schema = {"type": "string"}
        yield {"name": "If-Match", "in": "header", "required": needed, "schema": schema, "description": words}
    if one.once:
        words = "A request that is repeated with the same key is done once and answered as the first time."
        schema = {"type": "string", "pattern": f"^{KEY_PATTERN}$"}
        yield {"name": IDEMPOTENCY, "in": "header", "schema": schema, "description": words}


def _number(name: str, schema: dict[str, Any], words: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": words}


def _answer(
    status: int, model: type[BaseModel] | None, refs: Mapping[type[BaseModel], Any], one: Operation, examples: Examples
) -> Any:
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if model is not None:
        shown = {"schema": refs[model], "example": examples.of_model(model.__name__)}
        answer["content"] = {JSON: shown, **{kind: {} for kind in one.formats.values()}}
    elif one.media == OCTET_STREAM:  # raw bytes have no schema in OpenAPI 3.1
        answer["content"] = {one.media: {}}
    elif one.media != JSON:
        answer["content"] = {one.media: {"schema": {"type": "string"}, "example": examples.of_model(one.media)}}
    if status == HTTPStatus.CREATED and one.needs is not None:
        answer["headers"] = {"Location": {"schema": {"type": "string"}, "description": "Its address."}}
    return answer


def _problem(status: int, refs: Mapping[type[BaseModel], Any], examples: Examples) -> Any:
    content = {"schema": refs[Problem], "example": examples.problem(status)}
    return {"description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: content}}


def add_described(
    app: web.Application, operations: Sequence[Operation], about: About, shown: Callable[[dict[str, Any]], str] | None
) -> None:
    """Have ``app`` describe itself to everybody: ``/openapi.json``, and ``/docs`` for a person, which ``shown`` makes
    of the document (None: the application has a page of its own there). Both are made when they are first asked for,
    because few processes are ever asked."""

    @functools.cache
    def described() -> tuple[bytes, bytes]:
        body = document(operations, about)
        page = b"" if shown is None else shown(body).encode()
        return json.dumps(body, separators=(",", ":")).encode(), page

    async def get_openapi(_request: web.Request) -> web.Response:
        return web.Response(body=described()[0], headers={"Content-Type": JSON})

    async def get_docs(_request: web.Request) -> web.Response:
        return web.Response(body=described()[1], headers={"Content-Type": "text/html; charset=utf-8"})

    app.router.add_get("/openapi.json", get_openapi)
    if shown is not None:
        app.router.add_get("/docs", get_docs)


def require_known_query(one: Operation, request: web.Request) -> None:
    """Refuse query parameters that the operation does not have, and repeated ones; otherwise a misspelt filter would
    return everything. Raises ``DecodeError``."""
    known = {*one.query, *(("format",) if one.formats else ()), *(("cursor", "limit") if one.paged else ())}
    given = [name for name, _ in request.query.items()]
    if not known.issuperset(given):
        words = f"takes {', '.join(sorted(known))} and nothing else" if known else "takes nothing"
        raise DecodeError(f"the query of this {words}")
    if len(set(given)) < len(given):
        raise DecodeError("a query parameter occurs twice")
