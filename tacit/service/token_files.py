"""Files of bearer tokens (P7): one a line, of which whoever is called accepts each, and the caller shows the first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tacit.errors import UsageError
from tacit.service.config import read_secret

MOST_TOKENS = 4
"""Tokens of one file: the one in force, and those that are on their way in or out."""
MOST_BYTES = 1 << 13
"""Of one file: a header with more is refused by most servers."""
_TOKEN = re.compile(r"[!-~]+")


def read_tokens(path: Path) -> tuple[str, ...]:
    """The tokens in a secret file, one a line, 1 to ``MOST_TOKENS``; empty lines do not count. Raises ``UsageError``,
    which quotes nothing of them."""
    lines = read_secret(path, max_size=MOST_BYTES).splitlines()
    return checked_tokens(path, [line.decode("ascii", "replace") for line in lines])


def checked_tokens(path: Path, lines: Sequence[str]) -> tuple[str, ...]:
    """The tokens among ``lines`` of ``path``. Raises ``UsageError``."""
    found = tuple(stripped for line in lines if (stripped := line.strip()))
    if not found:
        raise UsageError(f"{path}: holds no bearer token")
    if len(found) > MOST_TOKENS:
        raise UsageError(f"{path}: holds more than {MOST_TOKENS} bearer tokens")
    if not all(map(_TOKEN.fullmatch, found)):
        raise UsageError(f"{path}: a bearer token must be ASCII text without spaces, one a line")
    return found


def first_token(path: Path) -> str:
    """The token that a caller shows, read once, for a command. Raises ``UsageError``."""
    return read_tokens(path)[0]
