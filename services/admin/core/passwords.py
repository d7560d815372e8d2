"""Passwords of local accounts, kept as argon2id hashes; each takes a while, so they have threads and turns of their own
(``services.admin.core.turns``) which nothing else can take up."""

from __future__ import annotations

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from services.admin.core.people import LEAST_PASSWORD, MOST_PASSWORD
from services.admin.core.turns import Turns
from tacit.codec import b64url
from tacit.errors import FieldError
from tacit.ports import Entropy

HASHED_AT_A_TIME, HASHED_OF_ONE, HASHED_TOGETHER = 2, 16, 64
"""Passwords that are looked at, at a time; that may wait from one source; and from all."""
HASHER = PasswordHasher()
"""argon2id with the parameters of RFC 9106's second recommendation, the package's own default."""


class Passwords:
    """Hashes and compares passwords. ``entropy``: the source of salts."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._turns = Turns(
            "passwords", entropy, at_a_time=HASHED_AT_A_TIME, each=HASHED_OF_ONE, together=HASHED_TOGETHER
        )
        self._nobody = ""

    async def open(self) -> None:
        """Make the hash of nobody's password, before anybody may ask for it: an answer must not take longer for the
        first name that nobody has."""
        self._nobody = await self._hash("", b64url(self._entropy(32)))

    def close(self) -> None:
        """End the threads."""
        self._turns.close()

    async def hashed(self, password: str) -> str:
        """The hash of a password. Raises ``FieldError``, and ``Abort`` (503) where too many wait."""
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise FieldError("password", f"takes {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
        return await self._hash("", password)

    async def fits(self, source: str, password: str, kept: str) -> bool:
        """Whether ``password``, which came from the address ``source``, is the one of the hash ``kept``; of an empty
        one it is not, after as long a while. Raises ``Abort`` (503)."""

        def verified() -> bool:
            try:
                return HASHER.verify(kept or self._nobody, password) and bool(kept)
            except (VerificationError, InvalidHashError):
                return False

        return await self._turns.do(source, verified)

    async def _hash(self, source: str, password: str) -> str:
        salt = self._entropy(16)
        return await self._turns.do(source, lambda: HASHER.hash(password, salt=salt))
