"""The backing servers that ``--with`` adds to a stack: parses the option, and runs them together with the stack."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from infra.backing.backing_servers import BROKER, REDIS, broker, redis
from infra.backing.databases import databases
from infra.backing.mosquitto import require_mosquitto
from infra.backing.postgres import Say, require_binaries
from infra.backing.redis import require_redis
from infra.stacks.layout import Layout
from tacit.adapters.databases.postgres import require_driver
from tacit.errors import UsageError
from tacit.ports import Entropy

POSTGRES = "postgres"
BACKENDS = (POSTGRES, REDIS, BROKER)
_OPTIONS = {POSTGRES: "--postgres-url-file", REDIS: "--redis-url-file", BROKER: "--mqtt-url-file"}
_PROGRAMS = {POSTGRES: require_binaries, REDIS: require_redis, BROKER: require_mosquitto}


@dataclass(frozen=True)
class Wanted:
    """The backing servers requested at a start, with the URL files of those that an operator runs."""

    names: frozenset[str] = frozenset()
    url_files: dict[str, Path | None] = field(default_factory=dict)

    def of(self, name: str) -> tuple[bool, Path | None]:
        """Return whether ``name`` is wanted, and its URL file."""
        return name in self.names, self.url_files.get(name)


def parse_backends(texts: Sequence[str], url_files: dict[str, Path | None]) -> Wanted:
    """Parse the values of ``--with``, each one name or several with commas; ``url_files`` has the same names as keys.
    Raises ``UsageError`` for servers that are unknown or not installed, before anything is created."""
    names = frozenset(name.strip() for text in texts for name in text.split(",") if name.strip())
    unknown = sorted(names.difference(BACKENDS))
    if unknown:
        raise UsageError(f"--with {unknown[0]} is not known; choose: {', '.join(BACKENDS)}")
    for name, path in url_files.items():
        if path is not None and name not in names:
            raise UsageError(f"{_OPTIONS[name]} needs --with {name}")
    if POSTGRES in names:
        require_driver()
    for name in BACKENDS:
        if name in names and url_files.get(name) is None:
            _PROGRAMS[name]()
    return Wanted(names, url_files)


@contextlib.contextmanager
def backends(layout: Layout, wanted: Wanted, entropy: Entropy, say: Say = lambda _words: None) -> Iterator[None]:
    """Provide the backing servers of ``layout`` while the block runs; ``say`` is told how far a long start is. Raises
    ``UsageError``."""
    with contextlib.ExitStack() as stack:
        for name, provide in ((POSTGRES, partial(databases, say=say)), (REDIS, redis), (BROKER, broker)):
            asked, url_file = wanted.of(name)
            stack.enter_context(provide(layout, wanted=asked, url_file=url_file, entropy=entropy))
        yield
