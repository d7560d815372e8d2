"""Files of bearer tokens (P7): one per line; the called service accepts each, and the caller shows the first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tacit.errors import UsageError
from tacit.lines import lines_of
from tacit.service.base.secret_files import read_secret

MOST_TOKENS = 4
"""Most tokens in one file: the one in force, and those being added or removed."""
MOST_BYTES = 1 << 13
"""Most bytes of one file: most servers refuse a header with more."""
_TOKEN = re.compile(r"[!-~]+")


def read_tokens(path: Path) -> tuple[str, ...]:
    """Read the tokens in a secret file, one per line, 1 to ``MOST_TOKENS``; empty lines are ignored. Raises a
    ``UsageError`` that quotes nothing of them."""
    return checked_tokens(path, lines_of(read_secret(path, max_size=MOST_BYTES).decode("ascii", "replace")))


def checked_tokens(path: Path, lines: Sequence[str]) -> tuple[str, ...]:
    """The tokens among ``lines`` of ``path``. Raises ``UsageError``."""
    tokens = tuple(stripped for line in lines if (stripped := line.strip()))
    if not tokens:
        raise UsageError(f"{path}: holds no bearer token")
    if len(tokens) > MOST_TOKENS:
        raise UsageError(f"{path}: holds more than {MOST_TOKENS} bearer tokens")
    if not all(map(_TOKEN.fullmatch, tokens)):
        raise UsageError(f"{path}: a bearer token must be ASCII text without spaces, one per line")
    return tokens


def first_token(path: Path) -> str:
    """The token that a caller shows, read once, for a command. Raises ``UsageError``."""
    return read_tokens(path)[0]
