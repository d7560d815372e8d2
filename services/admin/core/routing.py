"""A route of the admin API as data, and what happens to every request before and after its handler.

In this order: who is it and may it; the size and form of the body; has this request been answered before; the handler,
for most in one transaction with its row of the audit log and its stored answer; the answer. A refusal of somebody who
is known is an act too, and stands in the audit log after nothing else was kept.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel

from services.admin.core import audit
from services.admin.core.access_documents import ActBody
from services.admin.core.config import AdminConfig
from services.admin.core.documents import Nothing
from services.admin.core.events import Event, Events
from services.admin.core.log import Log
from services.admin.core.openid import OpenIdClient
from services.admin.core.passkeys import Passkeys
from services.admin.core.passwords import Passwords
from services.admin.core.people import PERMISSIONS, People, Permission, Principal, forbidden
from services.admin.core.planning import Planner
from services.admin.core.ports import AdminTx
from services.admin.core.problems import Problem, not_found, refuse
from services.admin.core.publishing import Publishing
from services.admin.core.questions import Questions, field_problem
from services.admin.core.records import Act, Answer
from services.admin.core.sign_in import SignIn
from services.admin.core.turns import Turns
from services.admin.core.whole import Whole
from tacit import media_types
from tacit.adapters.origins import is_loopback
from tacit.errors import Abort, DecodeError, UsageError
from tacit.operations.results import CollectorAccess
from tacit.recipe.fields import filled
from tacit.recipe.survey import Survey
from tacit.service.app import Deps, read_body
from tacit.service.openapi import IDEMPOTENCY, KEY_PATTERN, MOST_KEY, page_of
from tacit.service.store import Transactions
from tacit.tlog.canonical import parse_json

EMPTY: Final = (Nothing, ActBody)
"""Bodies that may be left out."""
UNSAFE: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Storing(Enum):
    """What a handler gets of the store."""

    NOTHING = "nothing"
    """It opens transactions itself, for it waits for others in between."""
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Admin:
    """Everything that handlers use."""

    config: AdminConfig
    deps: Deps
    store: Transactions[AdminTx]
    sign_in: SignIn
    openid: OpenIdClient | None
    passkeys: Passkeys
    passwords: Passwords
    computing: Turns
    """Of what takes long to compute."""
    people: People
    questions: Questions
    publishing: Publishing
    log: Log
    whole: Whole
    collector: CollectorAccess | None
    events: Events
    planner: Planner

    @property
    def own_collector(self) -> CollectorAccess:
        """Raises ``Abort`` (404) where the organisation has none."""
        if self.collector is None:
            raise refuse(Problem.NOT_FOUND, "this service is configured without a collector")
        return self.collector

    @property
    def now(self) -> int:
        """POSIX seconds."""
        return int(self.deps.clock.now())


ADMIN = web.AppKey("admin", Admin)


@dataclass(frozen=True)
class Call:
    """One request at its handler."""

    admin: Admin
    request: web.Request
    principal: Principal | None
    body: Any
    tx: AdminTx | None = field(repr=False)
    prepared: Any = field(default=None, repr=False)
    """What the route's ``prepare`` returned."""

    @property
    def who(self) -> Principal:
        """Whoever sent it, on a route that is not for everybody."""
        if self.principal is None:
            raise RuntimeError("this route is for everybody")
        return self.principal

    @property
    def stored(self) -> AdminTx:
        """The transaction, on a route that has one."""
        if self.tx is None:
            raise RuntimeError("this route has no transaction")
        return self.tx

    def part(self, name: str) -> str:
        """A part of the path. Raises ``Abort`` (404) for text that no database holds."""
        return part_of(self.request, name)

    @property
    def tag(self) -> str | None:
        """``If-Match``, where it was sent."""
        return self.request.headers.get("If-Match")

    def page(self) -> tuple[int, int]:
        """The number behind which a page begins, and how much it holds at most. Raises ``DecodeError``."""
        return page_of(self.request)


@dataclass(frozen=True)
class Reply:
    """What a handler answers. ``target``: the id of what it was about; ``detail``: further words for the audit log;
    ``secret``: the body is shown this once, so it is kept nowhere."""

    document: BaseModel | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    detail: str = ""
    secret: bool = field(default=False, repr=False)
    who: str = ""
    """Who acted, where that is not known before the handler says so."""
    cookie: Callable[[web.Response], None] | None = field(default=None, repr=False)
    event: Event | None = None
    """What whoever listens is told of it, once it is stored."""
    content: bytes | None = field(default=None, repr=False)
    """The body, where it is no document; its type stands in ``headers``."""
    stream: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = field(default=None, repr=False)
    """An answer that goes on."""


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True)
class Route:
    """One row of the table. ``name`` is the operation's, and of its acts; ``answers``: status and model;
    ``problems``: further statuses that this route answers with problem documents. Without a ``permission`` it is for
    everybody."""

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    permission: Permission | None
    answers: Mapping[int, type[BaseModel] | None]
    body: type[BaseModel] | None = None
    problems: tuple[int, ...] = ()
    storing: Storing = Storing.READ
    paged: bool = False
    tagged: bool = False
    """Whether ``If-Match`` is heeded."""
    query: tuple[str, ...] = ()
    media: str = media_types.JSON
    """The type of what it answers."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """Further types of what it answers, by the word that asks for one in the query's ``format``."""

    prepare: Callable[[Admin, Any], Awaitable[Any]] | None = None
    """Work on the body that takes a while, done before the handler's transaction begins."""
    seen: bool = True
    """Whether a request of it shows that a person is there, whose session is in use."""
    computes: bool = False
    """Whether it only computes, although it is a POST: then it is no act, and done again where it is asked again."""

    @property
    def takes(self) -> bool:
        """Whether requests of it may have a body."""
        return self.method in UNSAFE

    @property
    def acts(self) -> bool:
        """Whether requests of it are acts."""
        return self.takes and not self.computes

    @property
    def once(self) -> bool:
        """Whether an ``Idempotency-Key`` is heeded."""
        return self.method == "POST" and self.acts and self.permission is not None

    @property
    def needs(self) -> str | None:
        """The permission, and who has it, in words."""
        if self.permission is None:
            return None
        roles = ", ".join(role.value for role, granted in PERMISSIONS.items() if self.permission in granted)
        return f"Permission `{self.permission}`: {roles}."


def part_of(request: web.Request, name: str) -> str:
    """A part of the path. Raises ``Abort`` (404) for text that no database holds."""
    found = request.match_info[name]
    if "\0" in found:
        raise not_found(name)
    return found


def endpoint(route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The aiohttp handler of a route."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await acted(route, request)

    return handle


async def acted(route: Route, request: web.Request, raw: bytes | None = None) -> web.StreamResponse:
    """The answer of a route to ``request``, whose body is ``raw`` where that is given."""
    admin = request.app[ADMIN]
    principal = None if route.permission is None else await admin.sign_in.principal(request, seen=route.seen)
    try:
        _require(route, principal)
        if raw is None:
            raw = await read_body(request, admin.config.max_body) if route.takes else b""
        return await _answered(admin, route, request, principal, raw)
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
    """Whoever sends it by now: before its body was there, a key may have been taken, or a role been changed. Raises
    ``Abort``: 401 and 403."""
    if before is None or not route.takes:
        return before
    principal = await admin.sign_in.again(tx, before)
    _require(route, principal)
    return principal


async def _answered(
    admin: Admin, route: Route, request: web.Request, principal: Principal | None, raw: bytes
) -> web.StreamResponse:
    key = _idempotency(route, request, principal, raw)
    body = _body(route, request, raw)
    prepared = None if route.prepare is None else await route.prepare(admin, body)
    if route.storing is Storing.WRITE:
        async with admin.store.transaction() as tx:
            principal = await _again(admin, tx, route, principal)
            if key is not None and (before := await tx.answer(key[0])) is not None:
                return _replayed(before, key[1])
            reply = await route.handler(Call(admin, request, principal, body, tx, prepared))
            await _keep(admin, tx, route, request, principal, reply, key)
        return _told(admin, reply)
    if route.takes:
        async with admin.store.read() as reading:
            principal = await _again(admin, reading, route, principal)
            if key is not None and (before := await reading.answer(key[0])) is not None:
                return _replayed(before, key[1])
    if route.storing is Storing.READ:
        async with admin.store.read() as reading:
            reply = await route.handler(Call(admin, request, principal, body, reading, prepared))
    else:
        reply = await route.handler(Call(admin, request, principal, body, None, prepared))
    if route.acts:
        async with admin.store.transaction() as tx:
            kept = key is not None and await tx.answer(key[0]) is not None  # by the same request, sent twice at a time
            await _keep(admin, tx, route, request, principal, reply, None if kept else key)
    return _told(admin, reply) if reply.stream is None else await reply.stream(request)


def _idempotency(
    route: Route, request: web.Request, principal: Principal | None, raw: bytes
) -> tuple[bytes, bytes] | None:
    """The digests of a request's key and of what it asks; None without a key. Raises ``Abort`` (400)."""
    given = request.headers.getall(IDEMPOTENCY, [])
    if route.method != "POST" or not route.acts or not given or principal is None:
        return None
    if len(given) != 1 or not re.fullmatch(KEY_PATTERN, given[0]):
        raise DecodeError(f"{IDEMPOTENCY} takes one value of 1 to {MOST_KEY} visible ASCII characters")
    owned = f"{principal.person.id}\0{given[0]}".encode("utf-8", "surrogateescape")
    tag = request.headers.get("If-Match", "") if route.tagged else ""
    asked = f"{route.method}\0{request.path}\0{tag}\0".encode("utf-8", "surrogateescape") + raw
    return hashlib.sha256(owned).digest(), hashlib.sha256(asked).digest()


def _replayed(before: Answer, asked: bytes) -> web.Response:
    """The answer that was given before. Raises ``Abort``: 422 for another request, 409 where it was shown once."""
    if before.request != asked:
        raise refuse(Problem.IDEMPOTENCY_KEY, "use a new key for a new request")
    if before.body is None:
        raise refuse(Problem.SHOWN_ONCE, "what was made is there; take it back if its text is lost")
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
    """The act in the audit log, and the answer for whoever asks the same again."""
    who = reply.who or ("" if principal is None else principal.person.id)
    await audit.record(
        tx, Act(who, route.name, reply.target, admin.now, source_of(admin, request), "done", reply.detail)
    )
    if key is not None:
        body = None if reply.secret else _response(reply).body
        kept = body if isinstance(body, bytes) else None
        await tx.drop_answers(admin.now - admin.config.answer_days * 86400)
        await tx.add_answer(Answer(*key, admin.now, reply.status, json.dumps(_headers(reply)), kept))


async def _record_refusal(
    admin: Admin, route: Route, request: web.Request, principal: Principal | None, abort: Abort
) -> None:
    """A refusal of somebody who is known; and of an attempt to sign in, by nobody."""
    if not route.acts or (principal is None and (route.permission is not None or not admin.sign_in.tells())):
        return
    who = "" if principal is None else principal.person.id
    target = next(iter(request.match_info.values()), "").replace("\0", "")[:64]
    outcome = abort.type.rpartition(":")[2] if ":" in abort.type and abort.type != "about:blank" else str(abort.status)
    async with admin.store.transaction() as tx:
        await audit.record(tx, Act(who, route.name, target, admin.now, source_of(admin, request), outcome[:64]))


def source_of(admin: Admin, request: web.Request) -> str:
    """Where a request came from, as far as the audit log holds it."""
    address = request.remote or ""
    if admin.config.audit_addresses:
        return address[:64]
    return "loopback" if is_loopback(address) else "remote"


def _body(route: Route, request: web.Request, raw: bytes) -> Any:
    """The body as the route's model. Raises ``Abort``, ``DecodeError`` and ``FieldError``."""
    if route.body is None:
        return None
    if not raw and route.body in EMPTY:
        return route.body()
    if not media_types.is_a(request.headers.get("Content-Type", ""), media_types.JSON):
        raise Abort("about:blank", f"the body must be {media_types.JSON}", status=415, title="Unsupported Media Type")
    value = parse_json(raw, "body")
    if not isinstance(value, dict):
        raise DecodeError("the body is not a JSON object")
    return Survey.from_body(value) if route.body is Survey else filled(route.body, value)


def _told(admin: Admin, reply: Reply) -> web.Response:
    """The answer, of which whoever listens is told."""
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
