"""Bearer tokens of a running party, from files that are read again when they change (P7): a token is replaced without a
restart.

A file holds one token per line (``tacit.service.http.token_files``). The called service accepts each of them; the
caller shows the first. So no call is refused while a token is replaced: first add the new token below the old one at
the called service, then give it to the caller, then remove the old one at the called service.

There is no timer: each use of a token, and the health check, tests whether its file is still the same, by inode, size
and times. A new file takes effect as a whole. A file that cannot be used, or is gone, leaves the previous tokens in
force; the log reports this once, and the health check until it is repaired. To revoke a token, replace it by another
one: a file that is emptied or removed changes nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tacit.errors import UsageError
from tacit.service.base.log import get_logger
from tacit.service.http.auth import token_digest
from tacit.service.http.token_files import read_tokens

_SETTLED_NS = 2_000_000_000
"""Nanoseconds after which a file system's clock has certainly advanced, so that a later change shows in a file's
times."""

Held = TypeVar("Held")
Read = Callable[[Path], Sequence[str]]


class Accepted(Protocol):
    """The tokens that open a service."""

    def digests(self) -> Sequence[bytes]:
        """The digests of the tokens that are accepted at the moment (``tacit.service.http.auth.token_digest``)."""
        ...

    def trouble(self) -> str:
        """What is wrong with the source of the tokens; empty if nothing is."""
        ...


class _LiveFile(Generic[Held]):
    """The result of ``read`` for the present content of ``path``. Raises ``UsageError`` where it cannot be used at
    first."""

    def __init__(self, path: Path, read: Callable[[Path], Held]) -> None:
        self._path = path
        self._read = read
        self._trouble = ""
        # noted before it is read: a change in between shows as another state, and is read again
        self._note(_state_of(path))
        self._held = read(path)

    def current(self) -> Held:
        """The newest value that could be read."""
        state = _state_of(self._path)
        if state != self._seen or not self._settled or self._trouble:
            self._note(state)
            self._look()
        return self._held

    def trouble(self) -> str:
        """What is wrong with the file, after checking it again; empty if nothing is."""
        self.current()
        return self._trouble

    def _note(self, state: tuple[int, ...] | None) -> None:
        """Remember which file is about to be read. A file that has just changed may change again without a visible
        difference, so it is read at every use for a while."""
        self._seen = state
        self._settled = state is None or max(state[2:]) + _SETTLED_NS < time.time_ns()

    def _look(self) -> None:
        log = get_logger("tokens")
        try:
            value = self._read(self._path)
        # a half-written file must not lock out callers whose token is still in force
        except (UsageError, OSError) as error:
            why = error if isinstance(error, UsageError) else f"{self._path}: {error.strerror or 'cannot be read'}"
            trouble = f"bearer tokens: the new content of a file cannot be used, the old one stays in use: {why}"
            if trouble != self._trouble:
                log.warning("files", what=trouble)
            self._trouble = trouble
            return
        if value != self._held or self._trouble:
            log.info("files", what=f"bearer tokens: {self._path}: the new content is in use")
        self._held, self._trouble = value, ""


class AcceptedTokens:
    """The tokens in a file, each of which opens the service; only their digests are in memory. ``read`` parses the
    file. Raises ``UsageError`` where it cannot be used at first."""

    def __init__(self, path: Path, read: Read = read_tokens) -> None:
        self._file = _LiveFile(path, lambda file: tuple(token_digest(token) for token in read(file)))

    def digests(self) -> Sequence[bytes]:
        """The digests of the tokens in the newest usable file."""
        return self._file.current()

    def trouble(self) -> str:
        """What is wrong with the file, after checking it again; empty if nothing is."""
        return self._file.trouble()


class ShownToken:
    """The token that this service shows to another: the first of its file, or none without a file. Raises
    ``UsageError`` where the file cannot be used at first."""

    def __init__(self, path: Path | None, read: Read = read_tokens) -> None:
        self._file = None if path is None else _LiveFile(path, lambda file: read(file)[0])

    def text(self) -> str:
        """The current token; empty without one."""
        return "" if self._file is None else self._file.current()

    def headers(self) -> dict[str, str]:
        """The request header that shows the current token."""
        token = self.text()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def trouble(self) -> str:
        """What is wrong with the file, after checking it again; empty if nothing is."""
        return "" if self._file is None else self._file.trouble()


NO_TOKEN = ShownToken(None)


def _state_of(path: Path) -> tuple[int, ...] | None:
    """Inode, size, and the times at which content and inode changed, in nanoseconds; None for a file that is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
