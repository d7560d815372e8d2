"""The OpenAPI 3.1 document of the table of routes, and a plain page of the same for a person."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from services.admin.core.documents import Problem
from services.admin.core.people import PERMISSIONS, Permission
from services.admin.core.records import QuestionState
from services.admin.core.routing import DEFAULT_LIMIT, IDEMPOTENCY, KEY_PATTERN, MOST_LIMIT, Route
from services.admin.core.sign_in import COOKIE, CSRF_HEADER
from tacit import __version__
from tacit.media_types import JSON, PROBLEM_JSON

_REF: Final = "#/components/schemas/{model}"
_QUERY: Final[Mapping[str, Mapping[str, Any]]] = {
    "state": {"type": "string", "enum": list(QuestionState)},
    "recipe": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
}
_ALWAYS: Final = (400, 408, 429, 503)
"""Problems that every route may answer with: a request that cannot be read, one that came too slowly, or while the
service is busy or its store away."""


def document(routes: Sequence[Route], cookie: str = COOKIE) -> dict[str, Any]:
    """The document. Its schemas are those of the models that check the bodies; ``cookie``: the name of sessions'."""
    models: set[type[BaseModel]] = {Problem}
    for route in routes:
        models |= {model for model in (route.body, *route.answers.values()) if model is not None}
    named = sorted(models, key=lambda model: model.__name__)
    places, schemas = models_json_schema([(model, "validation") for model in named], ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        refs = {model: places[model, "validation"] for model in named}
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, refs)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Tacit admin API",
            "version": __version__,
            "description": "The analyst's organisation: its questions, who approves them, and what came of them.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}, {"session": [], "csrf": []}],
        "paths": paths,
        "components": {"schemas": schemas["$defs"], "securitySchemes": _schemes(cookie)},
    }


def _schemes(cookie: str) -> dict[str, Any]:
    return {
        "key": {"type": "http", "scheme": "bearer", "description": "A personal API key."},
        "session": {"type": "apiKey", "in": "cookie", "name": cookie},
        "csrf": {"type": "apiKey", "in": "header", "name": CSRF_HEADER, "description": "For changing requests."},
    }


def _operation(route: Route, refs: dict[type[BaseModel], Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.path.split("/")[2]],
        "parameters": list(_parameters(route)),
        "responses": {
            **{str(status): _answer(status, model, refs, route) for status, model in route.answers.items()},
            **{str(status): _problem(status, refs) for status in problems_of(route)},
        },
    }
    if route.permission is None:
        found["security"] = []
    else:
        roles = ", ".join(role.value for role, granted in PERMISSIONS.items() if route.permission in granted)
        found["description"] = f"Permission `{route.permission}`: {roles}."
    if route.body is not None:
        required = bool(route.body.model_fields)
        found["requestBody"] = {"required": required, "content": {JSON: {"schema": refs[route.body]}}}
    return found


def problems_of(route: Route) -> list[int]:
    """Every status with which the route may refuse, in order."""
    found = {*_ALWAYS, *route.problems}
    if route.permission is not None:
        found |= {401, 403}
    if route.takes:
        found |= {413, 422}
    if route.body is not None:
        found.add(415)
    return sorted(found)


def _parameters(route: Route) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", route.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
    for name in route.query:
        yield {"name": name, "in": "query", "schema": _QUERY[name]}
    if route.formats:
        words = "Beside it the header Accept is heeded."
        schema = {"type": "string", "enum": ["json", *route.formats], "default": "json"}
        yield {"name": "format", "in": "query", "schema": schema, "description": words}
    if route.paged:
        yield _number("cursor", {"type": "integer", "minimum": 0}, "`next` of the page before.")
        limits = {"type": "integer", "minimum": 1, "maximum": MOST_LIMIT, "default": DEFAULT_LIMIT}
        yield _number("limit", limits, "How many at most.")
    if route.tagged:
        words = "The ETag that was read; needed to edit and to delete."
        needed = route.method in {"PUT", "DELETE"}
        yield {
            "name": "If-Match",
            "in": "header",
            "required": needed,
            "schema": {"type": "string"},
            "description": words,
        }
    if route.method == "POST" and route.acts and route.permission is not None:
        words = "With the same key, the same request is answered as it was the first time, and done once."
        schema = {"type": "string", "pattern": f"^{KEY_PATTERN}$"}
        yield {"name": IDEMPOTENCY, "in": "header", "schema": schema, "description": words}


def _number(name: str, schema: dict[str, Any], words: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": schema, "description": words}


def _answer(status: int, model: type[BaseModel] | None, refs: dict[type[BaseModel], Any], route: Route) -> Any:
    found: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if model is not None:
        found["content"] = {JSON: {"schema": refs[model]}, **{kind: {} for kind in route.formats.values()}}
    elif route.media != JSON:
        found["content"] = {route.media: {"schema": {"type": "string"}}}
    headers = {}
    if status == HTTPStatus.CREATED and route.permission is not None:
        headers["Location"] = {"schema": {"type": "string"}, "description": "Where it is."}
    if headers:
        found["headers"] = headers
    return found


def _problem(status: int, refs: dict[type[BaseModel], Any]) -> Any:
    return {"description": HTTPStatus(status).phrase, "content": {PROBLEM_JSON: {"schema": refs[Problem]}}}


def page(routes: Sequence[Route]) -> str:
    """The table for a person, without any script."""
    rows = "".join(_row(route) for route in routes)
    roles = "".join(
        f"<tr><th>{role.value}</th><td>{', '.join(one.value for one in Permission if one in granted)}</td></tr>"
        for role, granted in PERMISSIONS.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tacit admin API</title>'
        '<meta name="viewport" content="width=device-width"></head><body><main><h1>Tacit admin API</h1>'
        '<p>The whole of it for programs: <a href="/openapi.json">openapi.json</a> (OpenAPI 3.1). Send '
        f"<code>Authorization: Bearer KEY</code>. A POST with an <code>{IDEMPOTENCY}</code> is done once, however "
        "often it is sent. Refusals are problem documents (RFC 9457).</p>"
        f"<h2>Requests</h2><table><thead><tr><th>Request</th><th>What it does</th><th>Permission</th><th>Body</th>"
        f"<th>Answers</th></tr></thead><tbody>{rows}</tbody></table>"
        f"<h2>Roles</h2><table><tbody>{roles}</tbody></table></main></body></html>"
    )


def _row(route: Route) -> str:
    answers = [f"{status} {model.__name__ if model else ''}".strip() for status, model in route.answers.items()]
    cells = (
        f"<code>{route.method} {html.escape(route.path)}</code>",
        html.escape(route.summary),
        route.permission.value if route.permission else "everybody",
        route.body.__name__ if route.body else "",
        "; ".join([*answers, *map(str, problems_of(route))]),
    )
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
