"""Who sent a request: by API key, or by the session that a browser was given for a key or a password.

A session's cookie is 256 random bits of which a digest is kept. A request by session that changes anything also shows
the session's CSRF token, which is derived from the cookie, so that no page of another origin can know it. After some
failures an account hears nothing for a pause that doubles, whether there is such an account or not.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from dataclasses import replace
from typing import Final

from aiohttp import web

from services.admin.core.config import SignInConfig
from services.admin.core.people import HASHER, Principal, fits
from services.admin.core.ports import PeopleTx
from services.admin.core.problems import Problem, refuse
from services.admin.core.records import Failures, Person, Session
from tacit.codec import b64url
from tacit.ports import Clock, Entropy
from tacit.service.auth import token_digest, unauthorized
from tacit.service.connection import vouch
from tacit.service.store import Transactions

COOKIE: Final = "tacit_session"
CSRF_HEADER: Final = "X-CSRF-Token"
SAFE: Final = frozenset({"GET", "HEAD"})
BY_KEY, BY_SESSION = "key", "session"
MOST_TOLD: Final = 30
"""Failed attempts to sign in that the audit log is told of in a minute, so that nobody from outside can fill it."""
HASHED_AT_A_TIME: Final = 2
_STRANGERS = 1 << 16
"""Accounts that are not there share so many rows, so that names that nobody has fill no table."""
_SEEN_SECONDS = 60
"""How old the time that a session was seen last may become before it is written again."""


def csrf_token(cookie: str) -> str:
    """What pages of the session with this cookie send along."""
    return b64url(hashlib.sha256(b"tacit csrf v1\0" + cookie.encode("utf-8", "surrogateescape")).digest())


class SignIn:
    """Sessions and keys over a store."""

    def __init__(self, store: Transactions[PeopleTx], config: SignInConfig, clock: Clock, entropy: Entropy) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._entropy = entropy
        self._nobody = ""
        self._secret = entropy(16)
        self._hashing = asyncio.Semaphore(HASHED_AT_A_TIME)
        self._minute, self._told = 0, 0

    async def principal(self, request: web.Request) -> Principal:
        """Whoever sent ``request``. Raises ``Abort``: 401, and 403 where a session shows no CSRF token."""
        values = request.headers.getall("Authorization", [])
        found = await (self._by_key(values) if values else self._by_session(request))
        vouch(request)
        return found

    async def _by_key(self, values: list[str]) -> Principal:
        scheme, _, presented = values[0].partition(" ") if len(values) == 1 else ("", "", "")
        if scheme.lower() != "bearer" or not presented:
            raise unauthorized()
        return Principal((await self.by_key(presented))[0], BY_KEY)

    async def by_key(self, presented: str) -> tuple[Person, int | None]:
        """Whose key it is, and when it opens no more (POSIX seconds). Raises ``Abort`` (401)."""
        digest = token_digest(presented.encode("utf-8", "surrogateescape"))
        async with self._store.read() as tx:
            key = await tx.key_of(digest)
            person = None if key is None else await tx.person(key.person)
        late = key is not None and key.expires is not None and key.expires <= self._clock.now()
        if key is None or person is None or person.disabled or late:
            raise unauthorized()
        return person, key.expires

    async def _by_session(self, request: web.Request) -> Principal:
        cookie = request.cookies.get(COOKIE, "")
        if not cookie:
            raise unauthorized()
        now, config, digest = int(self._clock.now()), self._config, token_digest(cookie)
        async with self._store.read() as tx:
            session = await tx.session(digest)
            person = None if session is None else await tx.person(session.person)
        if session is None or person is None or person.disabled:
            raise unauthorized()
        if now >= session.began + config.session_seconds or now >= session.seen + config.idle_seconds:
            raise unauthorized()
        shown = request.headers.get(CSRF_HEADER, "").encode("utf-8", "surrogateescape")
        if request.method not in SAFE and not hmac.compare_digest(shown, csrf_token(cookie).encode()):
            raise refuse(Problem.CSRF, f"send the session's token in {CSRF_HEADER}")
        if now >= session.seen + _SEEN_SECONDS:
            async with self._store.transaction() as writing:
                if await writing.session(digest) is not None:
                    await writing.put_session(replace(session, seen=now))
        return Principal(person, BY_SESSION)

    async def by_password(self, name: str, password: str) -> Person:
        """Whose account it is. Raises ``Abort``: 401, and 429 during a pause."""
        now = int(self._clock.now())
        async with self._store.read() as tx:
            person = None if "\0" in name else await tx.person_named(name)  # which no database takes
        account = self._account(name, stranger=person is None)
        await self._begin(account, now)
        usable = person is not None and not person.disabled and bool(person.password)
        async with self._hashing:
            right = await fits(password, person.password if person is not None and usable else await self._of_nobody())
        if person is None or not usable or not right:
            raise unauthorized()
        async with self._store.transaction() as writing:
            await writing.drop_failures(account=account, last_before=now - self._config.forget_seconds)
        return person

    def tells(self) -> bool:
        """Whether the audit log is told of one more failure."""
        minute = int(self._clock.now() // 60)
        self._minute, self._told = minute, self._told + 1 if minute == self._minute else 1
        return self._told <= MOST_TOLD

    def _account(self, name: str, *, stranger: bool) -> bytes:
        """Under which failures are remembered."""
        raw = name.encode("utf-8", "surrogateescape")
        if not stranger:
            return hashlib.sha256(b"tacit account v1\0" + raw).digest()
        place = int.from_bytes(hashlib.sha256(self._secret + raw).digest()[:8], "big") % _STRANGERS
        return hashlib.sha256(b"tacit stranger v1\0%d" % place).digest()

    async def _of_nobody(self) -> str:
        """A hash that no password fits, compared with where there is no account, so that an answer takes as long."""
        if not self._nobody:
            secret, salt = b64url(self._entropy(32)), self._entropy(16)
            self._nobody = await asyncio.to_thread(lambda: HASHER.hash(secret, salt=salt))
        return self._nobody

    async def _begin(self, account: bytes, now: int) -> None:
        """Count an attempt as failed before it is looked at, so that many at a time are no way around the pauses."""
        config = self._config
        async with self._store.transaction() as tx:
            before = await tx.failures(account)
            if before is None or before.last < now - config.forget_seconds:
                before = Failures(account, 0, now, 0)
            if now < before.until:
                abort = refuse(Problem.LOCKED_OUT, "too many failures; try again later")
                abort.headers["Retry-After"] = str(before.until - now)
                raise abort
            beyond = before.count + 1 - config.free_failures
            pause = 0
            if beyond >= 0:
                pause = min(config.longest_pause_seconds, config.first_pause_seconds << min(beyond, 20))
            await tx.put_failures(Failures(account, before.count + 1, now, now + pause))

    async def begin(self, tx: PeopleTx, person: Person, until: int | None) -> str:
        """The cookie of a new session, which lasts no longer than ``until`` (POSIX seconds; None: as any)."""
        cookie, now, length = b64url(self._entropy(32)), int(self._clock.now()), self._config.session_seconds
        began = now if until is None else min(now, until - length)  # what is exchanged for a key ends with it
        await tx.drop_sessions(began_before=now - length)
        await tx.put_session(Session(person.id, began, now, token_digest(cookie)))
        return cookie

    async def end(self, tx: PeopleTx, cookie: str) -> None:
        """End the session of this cookie, if there is one."""
        await tx.drop_sessions(digest=token_digest(cookie))
