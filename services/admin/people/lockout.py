"""Pauses after failed sign-ins. They are the same for existing and unknown names, and so do not reveal who exists.

Failures are counted in one of ``PLACES`` places; a keyed hash, with a secret from this service's database, chooses the
place of each name. So unknown names cannot fill a table, and nobody outside can tell which names share a place. The
secret is as old as the database, so that no pause is forgotten at a restart.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Final

from services.admin.base.config import SignInConfig
from services.admin.base.problems import Problem, refuse
from services.admin.storage.records import Failures
from services.admin.storage.store import AdminStore
from tacit.ports import Clock, Entropy

PLACES: Final = 1 << 16
OF_NAMES: Final = "sign-in names"
"""The name of the secret in the database."""


class Lockout:
    """Counts failed sign-ins by name, in a store. Pauses are those of ``clock``; what is over by ``past`` is deleted.
    Call ``open`` before use."""

    def __init__(self, store: AdminStore, config: SignInConfig, clock: Clock, past: Clock, entropy: Entropy) -> None:
        self._store = store
        self._config = config
        self._clock = clock
        self._past = past
        self._entropy = entropy
        self._secret = b""

    async def open(self) -> None:
        """Read the secret from the store, or make and store it."""
        async with self._store.transaction() as tx:
            kept = await tx.secret(OF_NAMES)
            if kept is None:
                kept = self._entropy(32)
                await tx.add_secret(OF_NAMES, kept)
        self._secret = kept

    async def begin(self, name: str) -> None:
        """Count an attempt as failed before it is checked, so that concurrent attempts cannot avoid the pauses. Raises
        ``Abort`` (429) during a pause."""
        config, account, now = self._config, self._place(name), int(self._clock.now())
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

    async def forget(self, name: str) -> None:
        """Forget the failures of a name that has signed in, and all failures that are too old."""
        late = int(self._past.now()) - self._config.forget_seconds
        async with self._store.transaction() as tx:
            await tx.drop_failures(account=self._place(name), last_before=late)

    def _place(self, name: str) -> bytes:
        raw = hmac.digest(self._secret, name.encode("utf-8", "surrogateescape"), "sha256")
        place = int.from_bytes(raw[:8], "big") % PLACES
        return hashlib.sha256(b"tacit sign-in v2\0%d" % place).digest()
