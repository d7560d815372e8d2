"""What happens to every request of the admin API before and after its handler.

In this order: check who sent it and whether they may; read and check the body; look for a stored answer to the same
request; call the handler, usually in one transaction with its audit row and its stored answer; answer. A refusal of a
known person is an act, too: it is written to the audit log after everything else was rolled back.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiohttp import web

from services.admin.api.calls import ADMIN, Admin, Call, Reply, Route, Storing
from services.admin.api.documents import Nothing
from services.admin.base.problems import Problem, refuse
from services.admin.people.access_documents import ActBody
from services.admin.people.people import Principal, forbidden
from services.admin.questions.questions import field_problem
from services.admin.storage import audit
from services.admin.storage.records import Act, Answer
from services.admin.storage.store import AdminTx
from tacit import media_types
from tacit.adapters.network.origins import is_loopback
from tacit.errors import Abort, DecodeError, UsageError
from tacit.recipe.fields import parse_fields
from tacit.service.app import read_body
from tacit.service.documents.openapi import IDEMPOTENCY, KEY_PATTERN, MOST_KEY, require_known_query
from tacit.tlog.canonical import parse_json

EMPTY: Final = (Nothing, ActBody)
"""The models of request bodies that may be left out."""


def endpoint(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Make the aiohttp handler of a route."""

    async def handle(request: web.Request) -> web.StreamResponse:
        require_known_query(route, request)
        return await respond(route, request)

    return handle


async def respond(route: Route, request: web.Request, raw: bytes | None = None) -> web.StreamResponse:
    """Answer ``request`` by ``route``. ``raw``: the body, if it has already been read."""
    admin = request.app[ADMIN]
    if route.looks and admin.sign_in.shows_key(request):
        async with admin.store.read() as tx:
            principal = await admin.sign_in.principal(request, seen=route.seen, tx=tx)
            return await _try_to_answer(admin, route, request, principal, b"", tx)
    found = None if route.permission is None else await admin.sign_in.principal(request, seen=route.seen)
    return await _try_to_answer(admin, route, request, found, raw)


async def _try_to_answer(
    admin: Admin,
    route: Route,
    request: web.Request,
    principal: Principal | None,
    raw: bytes | None,
    tx: AdminTx | None = None,
) -> web.StreamResponse:
    """Answer the request of ``principal``, and record a refusal. ``tx``: the read transaction in which they were looked
    up, if it is still open."""
    try:
        _require(route, principal)
        if raw is None:
            raw = await read_body(request, admin.config.max_body) if route.takes else b""
        return await _answer(admin, route, request, principal, raw, tx)
    except UsageError as error:
        await _record_refusal(admin, route, request, principal, abort := field_problem(error))
        raise abort from error
    except Abort as abort:
        await _record_refusal(admin, route, request, principal, abort)
        raise


def _require(route: Route, principal: Principal | None) -> None:
    if principal is not None and route.permission is not None and not principal.may(route.permission):
        raise forbidden(route.permission)


async def _again(admin: Admin, tx: AdminTx, route: Route, before: Principal | None) -> Principal | None:
    """Look the sender up again: while the body arrived, a key may have been revoked or a role changed. Raises
    ``Abort``: 401 and 403."""
    if before is None or not route.takes:
        return before
    principal = await admin.sign_in.again(tx, before)
    _require(route, principal)
    return principal


async def _answer(
    admin: Admin, route: Route, request: web.Request, principal: Principal | None, raw: bytes, view: AdminTx | None
) -> web.StreamResponse:
    key = _idempotency(route, request, principal, raw)
    body = _body(route, request, raw)
    if view is not None:
        return _respond_and_notify(admin, await route.handler(Call(admin, request, principal, body, view)))
    prepared = None if route.prepare is None else await route.prepare(admin, body)
    if route.storing is Storing.WRITE:
        async with admin.store.transaction() as tx:
            principal = await _again(admin, tx, route, principal)
            if key is not None and (before := await tx.answer(key[0])) is not None:
                return _replay(before, key[1])
            reply = await route.handler(Call(admin, request, principal, body, tx, prepared))
            await _keep(admin, tx, route, request, principal, reply, key)
        return _respond_and_notify(admin, reply)
    if route.takes:
        async with admin.store.read() as reading:
            principal = await _again(admin, reading, route, principal)
            if key is not None and (before := await reading.answer(key[0])) is not None:
                return _replay(before, key[1])
    if route.storing is Storing.READ:
        async with admin.store.read() as reading:
            reply = await route.handler(Call(admin, request, principal, body, reading, prepared))
    else:
        reply = await route.handler(Call(admin, request, principal, body, None, prepared))
    if route.acts:
        async with admin.store.transaction() as tx:
            kept = (
                key is not None and await tx.answer(key[0]) is not None
            )  # by the same request, sent twice concurrently
            await _keep(admin, tx, route, request, principal, reply, None if kept else key)
    return _respond_and_notify(admin, reply) if reply.stream is None else await reply.stream(request)


def _idempotency(
    route: Route, request: web.Request, principal: Principal | None, raw: bytes
) -> tuple[bytes, bytes] | None:
    """The digests of a request's ``Idempotency-Key`` and of the request itself; None without a key. Raises
    ``DecodeError``."""
    given = request.headers.getall(IDEMPOTENCY, [])
    if route.method != "POST" or not route.acts or not given or principal is None:
        return None
    if len(given) != 1 or not re.fullmatch(KEY_PATTERN, given[0]):
        raise DecodeError(f"{IDEMPOTENCY} must be one value of 1 to {MOST_KEY} visible ASCII characters")
    owned = f"{principal.person.id}\0{given[0]}".encode("utf-8", "surrogateescape")
    tag = request.headers.get("If-Match", "") if route.tagged else ""
    asked = f"{route.method}\0{request.path}\0{tag}\0".encode("utf-8", "surrogateescape") + raw
    return hashlib.sha256(owned).digest(), hashlib.sha256(asked).digest()


def _replay(before: Answer, asked: bytes) -> web.Response:
    """The stored answer to an earlier request with this key. Raises ``Abort``: 422 if that was a different request, 409
    if its answer is shown only once."""
    if before.request != asked:
        raise refuse(Problem.IDEMPOTENCY_KEY, "use a new key for a new request")
    if before.body is None:
        raise refuse(Problem.SHOWN_ONCE, "the key or invitation exists; revoke it if its text is lost")
    headers = {**json.loads(before.headers), "Idempotency-Replayed": "true"}
    return web.Response(status=before.status, body=before.body, headers=headers)


async def _keep(
    admin: Admin,
    tx: AdminTx,
    route: Route,
    request: web.Request,
    principal: Principal | None,
    reply: Reply,
    key: tuple[bytes, bytes] | None,
) -> None:
    """Write the act to the audit log, and store the answer for a repetition of the same request."""
    who = reply.who or ("" if principal is None else principal.person.id)
    await audit.record(
        tx, Act(who, route.name, reply.target, admin.now, source_of(admin, request), "done", reply.detail)
    )
    if key is not None:
        body = None if reply.secret else _response(reply).body
        kept = body if isinstance(body, bytes) else None
        past = int(max(admin.deps.vouched.past(), 0.0))
        await tx.drop_answers(past - admin.config.answer_days * 86400)
        await tx.add_answer(Answer(*key, admin.now, reply.status, json.dumps(_headers(reply)), kept))


async def _record_refusal(
    admin: Admin, route: Route, request: web.Request, principal: Principal | None, abort: Abort
) -> None:
    """Write the refusal of a known person, or of an attempt to sign in, to the audit log."""
    if not route.acts or (principal is None and (route.permission is not None or not admin.sign_in.tells())):
        return
    who = "" if principal is None else principal.person.id
    target = next(iter(request.match_info.values()), "").replace("\0", "")[:64]
    outcome = abort.type.rpartition(":")[2] if ":" in abort.type and abort.type != "about:blank" else str(abort.status)
    async with admin.store.transaction() as tx:
        await audit.record(tx, Act(who, route.name, target, admin.now, source_of(admin, request), outcome[:64]))


def source_of(admin: Admin, request: web.Request) -> str:
    """Where a request came from, as the audit log records it: an address, or only "loopback" or "remote"."""
    address = request.remote or ""
    if admin.config.audit_addresses:
        return address[:64]
    return "loopback" if is_loopback(address) else "remote"


def _body(route: Route, request: web.Request, raw: bytes) -> Any:
    """Parse the body as the route's model. Raises ``Abort``, ``DecodeError`` and ``FieldError``."""
    if route.body is None:
        return None
    if not raw and route.body in EMPTY:
        return route.body()
    if not media_types.is_a(request.headers.get("Content-Type", ""), media_types.JSON):
        raise Abort("about:blank", f"the body must be {media_types.JSON}", status=415, title="Unsupported Media Type")
    value = parse_json(raw, "body")
    if not isinstance(value, dict):
        raise DecodeError("the body is not a JSON object")
    from_body = getattr(route.body, "from_body", None)
    return parse_fields(route.body, value) if from_body is None else from_body(value)


def _respond_and_notify(admin: Admin, reply: Reply) -> web.Response:
    """Make the response, and send the reply's event to all listeners."""
    if reply.event is not None:
        admin.events.tell(reply.event)
    return _response(reply)


def _headers(reply: Reply) -> dict[str, str]:
    content = {} if reply.document is None else {"Content-Type": media_types.JSON}
    return {**content, **reply.headers}


def _response(reply: Reply) -> web.Response:
    body = reply.content if reply.document is None else reply.document.model_dump_json(by_alias=True).encode()
    response = web.Response(status=reply.status, body=body, headers=_headers(reply))
    if reply.cookie is not None:
        reply.cookie(response)
    return response
