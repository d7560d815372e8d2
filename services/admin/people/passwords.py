"""Passwords of local accounts, stored as argon2id hashes. Hashing is slow, so it has its own threads and turns
(``services.admin.base.fair_threads``), which no other work can occupy."""

from __future__ import annotations

from base64 import b64encode

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from argon2.low_level import ARGON2_VERSION

from services.admin.base.fair_threads import FairThreads
from services.admin.people.people import LEAST_PASSWORD, MOST_PASSWORD
from tacit.errors import FieldError
from tacit.ports import Entropy

HASHED_AT_A_TIME, HASHED_OF_ONE, HASHED_TOGETHER = 2, 16, 64
"""How many passwords are hashed at a time, how many may wait from one source, and how many from all sources."""
HASHER = PasswordHasher()
"""argon2id with the parameters of RFC 9106's second recommendation, which are the package's default."""


class Passwords:
    """Hashes and compares passwords. ``entropy``: the source of salts."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._turns = FairThreads(
            "passwords", entropy, at_a_time=HASHED_AT_A_TIME, each=HASHED_OF_ONE, together=HASHED_TOGETHER
        )
        self._nobody = hash_of_nobody(entropy)

    def close(self) -> None:
        """Stop the threads that hash passwords."""
        self._turns.close()

    async def hashed(self, password: str) -> str:
        """The hash of a password. Raises ``FieldError`` for a wrong length, and ``Abort`` (503) if too many wait."""
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise FieldError("password", f"must have {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
        return await self._hash("", password)

    async def fits(self, source: str, password: str, kept: str) -> bool:
        """Whether ``password``, which came from the address ``source``, has the hash ``kept``. An empty ``kept`` fits
        no password, and the check takes equally long. Raises ``Abort`` (503) if too many wait."""

        def verified() -> bool:
            try:
                return HASHER.verify(kept or self._nobody, password) and bool(kept)
            except (VerificationError, InvalidHashError):
                return False

        return await self._turns.do(source, verified)

    async def _hash(self, source: str, password: str) -> str:
        salt = self._entropy(16)
        return await self._turns.do(source, lambda: HASHER.hash(password, salt=salt))


def hash_of_nobody(entropy: Entropy) -> str:
    """The hash that stands in for the password of an unknown name: drawn, not computed, so no password has it, and
    comparing with it takes as long as with a real one."""
    salt, digest = (b64encode(entropy(size)).decode().rstrip("=") for size in (HASHER.salt_len, HASHER.hash_len))
    work = f"m={HASHER.memory_cost},t={HASHER.time_cost},p={HASHER.parallelism}"
    return f"$argon2id$v={ARGON2_VERSION}${work}${salt}${digest}"
