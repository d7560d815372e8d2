"""Finds out who sent a request: by API key, or by the session that a browser got for a key or a password.

A session's cookie is 256 random bits, of which a digest is stored. A request by session that changes anything must also
send the session's CSRF token, which is derived from the cookie, so that no page of another origin can know it. The key
or session is checked again in the transaction of an act, in case it was revoked in between.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from services.admin.base.config import SignInConfig
from services.admin.base.problems import Problem, refuse
from services.admin.people.lockout import Lockout
from services.admin.people.passwords import Passwords
from services.admin.people.people import Principal
from services.admin.storage.records import ApiKey, Person, Session
from services.admin.storage.store import AdminStore, PeopleTx
from tacit.codec import b64url
from tacit.ports import Clock, Entropy
from tacit.service.http.auth import token_digest, unauthorized
from tacit.service.http.server import vouch

COOKIE: Final = "tacit_session"
SECURE_PREFIX: Final = "__Host-"
"""The prefix of the cookie's name if browsers use https: they accept it only if it is ``Secure`` and set by this very
host."""
CSRF_HEADER: Final = "X-CSRF-Token"
BY_ITSELF: Final = "X-Tacit-By-Itself"
"""The header of requests that a page sends without its user: they do not count as use of the session."""
SAFE: Final = frozenset({"GET", "HEAD"})
BY_KEY, BY_SESSION = "key", "session"
MOST_TOLD: Final = 30
"""How many failed sign-ins are written to the audit log in a minute, so that nobody outside can fill it."""
_SEEN_SECONDS = 60
"""How old a session's stored time of last use may become before it is written again."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The credential for which somebody gets a session: a key (``key``: its digest), or the password whose hash
    ``person`` has. ``until``: when the key expires (POSIX seconds, None: never)."""

    person: Person
    until: int | None = None
    key: bytes = field(default=b"", repr=False)


def csrf_token(cookie: str) -> str:
    """The CSRF token that pages in the session with this cookie send."""
    return b64url(hashlib.sha256(b"tacit csrf v1\0" + cookie.encode("utf-8", "surrogateescape")).digest())


def _digest(key: str) -> bytes:
    return token_digest(key.encode("utf-8", "surrogateescape"))


class SignIn:
    """Checks keys and sessions, and begins sessions, over a store. Terms are those of ``clock``; what is over by
    ``past``, the earlier of several, is deleted. ``secure``: whether browsers use https. Call ``open`` before use."""

    def __init__(
        self,
        store: AdminStore,
        config: SignInConfig,
        clock: Clock,
        past: Clock,
        entropy: Entropy,
        passwords: Passwords,
        *,
        secure: bool = False,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._past = past
        self._entropy = entropy
        self._passwords = passwords
        self._lockout = Lockout(store, config, clock, past, entropy)
        self._minute, self._told = 0, 0
        self.secure = secure
        self.cookie = SECURE_PREFIX + COOKIE if secure else COOKIE

    async def open(self) -> None:
        """Read the secret for names."""
        await self._lockout.open()

    async def principal(self, request: web.Request, *, seen: bool = True, tx: PeopleTx | None = None) -> Principal:
        """Find out who sent ``request``. ``seen``: whether the request counts as use of the session; ``tx``: the
        transaction in which a key is looked up (default: one of its own). Raises ``Abort``: 401, and 403 if the CSRF
        token of a session is missing or wrong."""
        values = request.headers.getall("Authorization", [])
        seen = seen and BY_ITSELF not in request.headers
        principal = await (self._by_key(values, tx) if values else self._by_session(request, seen=seen))
        vouch(request)
        return principal

    async def again(self, tx: PeopleTx, before: Principal) -> Principal:
        """Look ``before`` up again, in the transaction of the act. Raises ``Abort`` (401) if their key or session is no
        longer valid."""
        if before.by == BY_KEY:
            person = self._holder(await tx.key_holder(before.proof))
        else:
            person, _ = await self._session(tx, before.proof)
        return replace(before, person=person)

    @staticmethod
    def shows_key(request: web.Request) -> bool:
        """Whether ``request`` presents an API key instead of a session."""
        return "Authorization" in request.headers

    async def _by_key(self, values: list[str], tx: PeopleTx | None) -> Principal:
        scheme, _, presented = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not presented:
            raise unauthorized()
        if tx is None:
            shown = await self.by_key(presented)
            return Principal(shown.person, BY_KEY, shown.key)
        digest = _digest(presented)
        return Principal(self._holder(await tx.key_holder(digest)), BY_KEY, digest)

    async def by_key(self, presented: str) -> Shown:
        """The credential that the API key ``presented`` is, with its owner. Raises ``Abort`` (401)."""
        digest = _digest(presented)
        async with self._store.read() as tx:
            holder = await tx.key_holder(digest)
        return Shown(self._holder(holder), None if holder is None else holder[0].expires, digest)

    def _holder(self, found: tuple[ApiKey, Person] | None) -> Person:
        if found is None:
            raise unauthorized()
        key, person = found
        if person.disabled or (key.expires is not None and key.expires <= self._clock.now()):
            raise unauthorized()
        return person

    async def _by_session(self, request: web.Request, *, seen: bool) -> Principal:
        cookie = request.cookies.get(self.cookie, "")
        if not cookie:
            raise unauthorized()
        now, digest = int(self._clock.now()), token_digest(cookie)
        async with self._store.read() as tx:
            person, session = await self._session(tx, digest)
        shown = request.headers.get(CSRF_HEADER, "").encode("utf-8", "surrogateescape")
        if request.method not in SAFE and not hmac.compare_digest(shown, csrf_token(cookie).encode()):
            raise refuse(Problem.CSRF, f"send the session's token in {CSRF_HEADER}")
        if seen and now >= session.seen + _SEEN_SECONDS:
            async with self._store.transaction() as writing:
                if await writing.session(digest) is not None:
                    await writing.put_session(replace(session, seen=now))
        return Principal(person, BY_SESSION, digest)

    async def _session(self, tx: PeopleTx, digest: bytes) -> tuple[Person, Session]:
        now, config = self._clock.now(), self._config
        holder = await tx.session_holder(digest)
        if holder is None or holder[1].disabled:
            raise unauthorized()
        session, person = holder
        if now >= session.began + config.session_seconds or now >= session.seen + config.idle_seconds:
            raise unauthorized()
        return person, session

    async def by_password(self, name: str, password: str, source: str) -> Shown:
        """Check the name and password of a local account, sent from the address ``source``. Raises ``Abort``: 401, 429
        during a pause, and 503 if too many wait."""
        await self._lockout.begin(name)
        async with self._store.read() as tx:
            person = None if "\0" in name else await tx.person_named(name)  # no database stores a NUL
        kept = "" if person is None or person.disabled else person.password
        if not await self._passwords.fits(source, password, kept) or person is None:
            raise unauthorized()
        await self._lockout.forget(name)
        return Shown(person)

    def tells(self) -> bool:
        """Count one more failed sign-in. Returns whether it is written to the audit log."""
        minute = int(self._clock.now() // 60)
        self._minute, self._told = minute, self._told + 1 if minute == self._minute else 1
        return self._told <= MOST_TOLD

    async def begin(self, tx: PeopleTx, shown: Shown) -> str:
        """Begin a session and return its cookie. The session ends no later than the key that was shown for it. Raises
        ``Abort`` (401) if the credential is no longer valid."""
        if shown.key:
            person: Person | None = self._holder(await tx.key_holder(shown.key))
        else:
            person = await tx.person(shown.person.id)
        if person is None or person.disabled or person.password != shown.person.password:
            raise unauthorized()
        cookie, now, length = b64url(self._entropy(32)), int(self._clock.now()), self._config.session_seconds
        # a session that was begun with a key ends with the key
        began = now if shown.until is None else min(now, shown.until - length)
        await tx.drop_sessions(began_before=min(now, int(self._past.now())) - length)
        await tx.put_session(Session(person.id, began, now, token_digest(cookie)))
        return cookie

    async def end(self, tx: PeopleTx, cookie: str) -> None:
        """End the session of this cookie; does nothing if it has ended."""
        await tx.drop_sessions(digest=token_digest(cookie))
