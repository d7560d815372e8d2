"""Who sent a request: by API key, or by the session that a browser was given for a key or a password.

A session's cookie is 256 random bits of which a digest is kept. A request by session that changes anything also shows
the session's CSRF token, which is derived from the cookie, so that no page of another origin can know it. What was
shown is looked at once more in the transaction of an act, so that no request goes on with a key that was taken since.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import web

from services.admin.core.config import SignInConfig
from services.admin.core.lockout import Lockout
from services.admin.core.passwords import Passwords
from services.admin.core.people import Principal
from services.admin.core.ports import PeopleTx
from services.admin.core.problems import Problem, refuse
from services.admin.core.records import ApiKey, Person, Session
from tacit.codec import b64url
from tacit.ports import Clock, Entropy
from tacit.service.auth import token_digest, unauthorized
from tacit.service.connection import vouch
from tacit.service.store import Transactions

COOKIE: Final = "tacit_session"
SECURE_PREFIX: Final = "__Host-"
"""Of the cookie where browsers come by https: they keep it only if it is ``Secure`` and comes from this very host."""
CSRF_HEADER: Final = "X-CSRF-Token"
BY_ITSELF: Final = "X-Tacit-By-Itself"
"""Of requests that a page sends without its person: they do not keep a session from being idle."""
SAFE: Final = frozenset({"GET", "HEAD"})
BY_KEY, BY_SESSION = "key", "session"
MOST_TOLD: Final = 30
"""Failed attempts to sign in that the audit log is told of in a minute, so that nobody from outside can fill it."""
_SEEN_SECONDS = 60
"""How old the time that a session was seen last may become before it is written again."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What somebody showed to be given a session: ``key``, a digest, or the password whose hash ``person`` has;
    ``until``: when it opens no more (POSIX seconds, None: never)."""

    person: Person
    until: int | None = None
    key: bytes = field(default=b"", repr=False)


def csrf_token(cookie: str) -> str:
    """The CSRF token that pages of the session with this cookie send."""
    return b64url(hashlib.sha256(b"tacit csrf v1\0" + cookie.encode("utf-8", "surrogateescape")).digest())


def _digest(key: str) -> bytes:
    return token_digest(key.encode("utf-8", "surrogateescape"))


class SignIn:
    """Sessions and keys over a store. ``secure``: whether browsers come by https. ``open`` before use."""

    def __init__(
        self,
        store: Transactions[PeopleTx],
        config: SignInConfig,
        clock: Clock,
        entropy: Entropy,
        passwords: Passwords,
        *,
        secure: bool = False,
    ) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._entropy = entropy
        self._passwords = passwords
        self._lockout = Lockout(store, config, clock, entropy)
        self._minute, self._told = 0, 0
        self.secure = secure
        self.cookie = SECURE_PREFIX + COOKIE if secure else COOKIE

    async def open(self) -> None:
        """Prepare for sign-ins."""
        await self._lockout.open()
        await self._passwords.open()

    async def principal(self, request: web.Request, *, seen: bool = True, tx: PeopleTx | None = None) -> Principal:
        """Whoever sent ``request``. ``seen``: whether their session is in use now; ``tx``: what a key is looked up in
        (default: a view of its own). Raises ``Abort``: 401, and 403 where a session shows no CSRF token."""
        values = request.headers.getall("Authorization", [])
        seen = seen and BY_ITSELF not in request.headers
        found = await (self._by_key(values, tx) if values else self._by_session(request, seen=seen))
        vouch(request)
        return found

    async def again(self, tx: PeopleTx, before: Principal) -> Principal:
        """Whoever ``before`` is by now, in the transaction of what they do. Raises ``Abort`` (401) where what they
        showed opens nothing any more."""
        if before.by == BY_KEY:
            person = self._holder(await tx.key_holder(before.proof))
        else:
            person, _ = await self._session(tx, before.proof)
        return replace(before, person=person)

    @staticmethod
    def shows_key(request: web.Request) -> bool:
        """Whether ``request`` comes by key, if by anything."""
        return "Authorization" in request.headers

    async def _by_key(self, values: list[str], tx: PeopleTx | None) -> Principal:
        scheme, _, presented = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not presented:
            raise unauthorized()
        if tx is None:
            found = await self.by_key(presented)
            return Principal(found.person, BY_KEY, found.key)
        digest = _digest(presented)
        return Principal(self._holder(await tx.key_holder(digest)), BY_KEY, digest)

    async def by_key(self, presented: str) -> Shown:
        """The owner of the key. Raises ``Abort`` (401)."""
        digest = _digest(presented)
        async with self._store.read() as tx:
            found = await tx.key_holder(digest)
        return Shown(self._holder(found), None if found is None else found[0].expires, digest)

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
        found = await tx.session_holder(digest)
        if found is None or found[1].disabled:
            raise unauthorized()
        session, person = found
        if now >= session.began + config.session_seconds or now >= session.seen + config.idle_seconds:
            raise unauthorized()
        return person, session

    async def by_password(self, name: str, password: str, source: str) -> Shown:
        """Whose account it is; it came from the address ``source``. Raises ``Abort``: 401, 429 during a pause, and 503
        where too many wait."""
        await self._lockout.begin(name)
        async with self._store.read() as tx:
            person = None if "\0" in name else await tx.person_named(name)  # which no database takes
        kept = "" if person is None or person.disabled else person.password
        if not await self._passwords.fits(source, password, kept) or person is None:
            raise unauthorized()
        await self._lockout.forget(name)
        return Shown(person)

    def tells(self) -> bool:
        """Whether one more failure goes into the audit log."""
        minute = int(self._clock.now() // 60)
        self._minute, self._told = minute, self._told + 1 if minute == self._minute else 1
        return self._told <= MOST_TOLD

    async def begin(self, tx: PeopleTx, shown: Shown) -> str:
        """The cookie of a new session, which lasts no longer than what was shown for it. Raises ``Abort`` (401) where
        that opens nothing any more."""
        if shown.key:
            person: Person | None = self._holder(await tx.key_holder(shown.key))
        else:
            person = await tx.person(shown.person.id)
        if person is None or person.disabled or person.password != shown.person.password:
            raise unauthorized()
        cookie, now, length = b64url(self._entropy(32)), int(self._clock.now()), self._config.session_seconds
        began = (
            now if shown.until is None else min(now, shown.until - length)
        )  # what a key was exchanged for ends with it
        await tx.drop_sessions(began_before=now - length)
        await tx.put_session(Session(person.id, began, now, token_digest(cookie)))
        return cookie

    async def end(self, tx: PeopleTx, cookie: str) -> None:
        """End the session of this cookie, if there is one."""
        await tx.drop_sessions(digest=token_digest(cookie))
