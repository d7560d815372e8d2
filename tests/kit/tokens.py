"""Bearer tokens for tests: read from a file, or given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest


class GivenTokens:
    """Tokens that open a service, for good."""

    def __init__(self, *tokens: str) -> None:
        self._digests = tuple(token_digest(token) for token in tokens)

    def digests(self) -> Sequence[bytes]:
        """The digests of all tokens."""
        return self._digests

    def trouble(self) -> str:
        """There is never any trouble."""
        return ""


def put_tokens(path: Path, *tokens: str) -> None:
    """Have ``path`` hold ``tokens``, one a line, as an operator replaces them."""
    write_secret(path, "".join(f"{token}\n" for token in tokens).encode())
