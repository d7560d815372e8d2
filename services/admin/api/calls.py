"""A route of the admin API as data, and the input and output of its handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

from aiohttp import web
from pydantic import BaseModel

from services.admin.base.config import AdminConfig
from services.admin.base.fair_threads import FairThreads
from services.admin.base.problems import Problem, not_found, refuse
from services.admin.learning.carrying import Runs
from services.admin.learning.reading import RunReader
from services.admin.learning.spent import Spent
from services.admin.people.consent import Consent
from services.admin.people.empowering import Empowering
from services.admin.people.openid import OpenIdClient
from services.admin.people.passkeys import Passkeys
from services.admin.people.passwords import Passwords
from services.admin.people.people import PERMISSIONS, People, Permission, Principal
from services.admin.people.sign_in import SignIn
from services.admin.questions.events import Event, Events
from services.admin.questions.followed_log import FollowedLog
from services.admin.questions.log import Log
from services.admin.questions.planning import Planner
from services.admin.questions.publishing import Publishing
from services.admin.questions.questions import Questions
from services.admin.questions.releases import Releases
from services.admin.questions.rounds import Rounds
from services.admin.questions.shared import Shared
from services.admin.storage.store import AdminStore, AdminTx
from tacit import media_types
from tacit.operations.results import CollectorAccess
from tacit.service.app import ServiceEnv
from tacit.service.http.paging import page_of

UNSAFE: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class Storing(Enum):
    """The access to the store that a handler gets."""

    NOTHING = "nothing"
    """The handler opens transactions itself, because it waits for other services in between."""
    READ = "read"
    WRITE = "write"


@dataclass(frozen=True)
class Admin:
    """Everything that the handlers use."""

    config: AdminConfig
    deps: ServiceEnv
    store: AdminStore
    sign_in: SignIn
    openid: OpenIdClient | None
    passkeys: Passkeys
    passwords: Passwords
    computing: FairThreads
    """The turns for long computations."""
    people: People
    consent: Consent
    empowering: Empowering
    questions: Questions
    publishing: Publishing
    rounds: Rounds
    log: Log
    followed_log: FollowedLog
    shared: Shared
    """Answers of the recipe server, used while the log is slow."""
    collector: CollectorAccess | None
    releases: Releases | None
    """The releases of the collector, if there is one."""
    events: Events
    planner: Planner
    runs: Runs
    """The training runs that this service carries."""
    run_reader: RunReader
    spent: Spent

    @property
    def own_collector(self) -> CollectorAccess:
        """The collector's access. Raises ``Abort`` (404) if the organisation has no collector."""
        if self.collector is None:
            raise refuse(Problem.NOT_FOUND, "this service is configured without a collector")
        return self.collector

    @property
    def own_releases(self) -> Releases:
        """The releases of the collector. Raises ``Abort`` (404) if the organisation has no collector."""
        if self.releases is None:
            raise refuse(Problem.NOT_FOUND, "this service is configured without a collector")
        return self.releases

    @property
    def now(self) -> int:
        """The current time in POSIX seconds."""
        return int(self.deps.clock.now())


ADMIN = web.AppKey("admin", Admin)


@dataclass(frozen=True)
class Call:
    """One request, as its handler sees it."""

    admin: Admin
    request: web.Request
    principal: Principal | None
    body: Any
    tx: AdminTx | None = field(repr=False)
    prepared: Any = field(default=None, repr=False)
    """What the route's ``prepare`` returned."""

    @property
    def who(self) -> Principal:
        """The person who sent the request, on a route that needs one."""
        if self.principal is None:
            raise RuntimeError("this route is open to everybody")
        return self.principal

    @property
    def stored(self) -> AdminTx:
        """The transaction of the request, on a route that has one."""
        if self.tx is None:
            raise RuntimeError("this route has no transaction")
        return self.tx

    def part(self, name: str) -> str:
        """A part of the path. Raises ``Abort`` (404) if it holds a NUL, which no database can store."""
        return part_of(self.request, name)

    @property
    def tag(self) -> str | None:
        """The entity tag in ``If-Match``, if it was sent."""
        return self.request.headers.get("If-Match")

    def page(self) -> tuple[int, int]:
        """The number after which the requested page begins, and how many rows it may hold. Raises ``DecodeError``."""
        return page_of(self.request)


@dataclass(frozen=True)
class Reply:
    """A handler's answer. ``target``: the id of the thing that was acted on; ``detail``: further words for the audit
    log; ``secret``: whether the body is shown only once, and so is stored nowhere."""

    document: BaseModel | None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    target: str = ""
    detail: str = ""
    secret: bool = field(default=False, repr=False)
    who: str = ""
    """The person who acted, if only the handler knows who it is."""
    cookie: Callable[[web.Response], None] | None = field(default=None, repr=False)
    event: Event | None = None
    """The events that listeners get once the act is stored."""
    content: bytes | None = field(default=None, repr=False)
    """The body, if it is not a document; its type is in ``headers``."""
    stream: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = field(default=None, repr=False)
    """An answer that is a stream."""


Handler = Callable[[Call], Awaitable[Reply]]


@dataclass(frozen=True)
class Route:
    """One row of the table of routes. ``name``: the name of the operation and of its acts in the audit log;
    ``answers``: the model of each status; ``problems``: further statuses that the route answers with problem documents.
    A route without a ``permission`` is open to everybody."""

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
    """Whether the route uses ``If-Match``."""
    query: tuple[str, ...] = ()
    media: str = media_types.JSON
    """The media type of its answers."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """Further media types of its answers, by the value of the query's ``format`` that selects them."""

    prepare: Callable[[Admin, Any], Awaitable[Any]] | None = None
    """Slow work on the body, done before the handler's transaction begins."""
    seen: bool = True
    """Whether a request to it shows that the person is present, so that the session counts as in use."""
    computes: bool = False
    """Whether it only computes, although it is a POST. Then it is not an act, and a repeated request computes again."""

    @property
    def takes(self) -> bool:
        """Whether its requests may have a body."""
        return self.method in UNSAFE

    @property
    def acts(self) -> bool:
        """Whether a request to it may change something, so that it is written to the audit log."""
        return self.takes and not self.computes

    @property
    def looks(self) -> bool:
        """Whether its requests only read what is stored. Then the sender is looked up in the same read transaction."""
        return self.storing is Storing.READ and not self.takes and self.permission is not None

    @property
    def once(self) -> bool:
        """Whether the route uses an ``Idempotency-Key``."""
        return self.method == "POST" and self.acts and self.permission is not None

    @property
    def needs(self) -> str | None:
        """The permission, and who has it, in words."""
        if self.permission is None:
            return None
        roles = ", ".join(role.value for role, granted in PERMISSIONS.items() if self.permission in granted)
        return f"Permission `{self.permission}`: {roles}."


def part_of(request: web.Request, name: str) -> str:
    """A part of the path. Raises ``Abort`` (404) if it holds a NUL, which no database can store."""
    text = request.match_info[name]
    if "\0" in text:
        raise not_found(name)
    return text
