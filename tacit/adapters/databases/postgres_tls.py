"""How a connection to PostgreSQL is protected: by the options in its URL, named as in libpq, and by defaults.

A URL may carry ``sslmode``, ``sslrootcert`` (a PEM file of authorities; without it the system's), ``sslcert`` and
``sslkey`` (0600), and nothing else but ``host`` with the folder of a Unix socket. They apply to every connection made
with the URL: sessions, migrations, advisory locks, and the cancellation of a statement. The files are read again when
they change. Environment variables (PGSSLMODE, PGHOST, ...) and files in home directories are ignored.

* To another machine ``verify-full`` is the default: the certificate must be signed by a trusted authority and name the
  host. A weaker mode checks less, or falls back to plain text, so it is refused there unless the URL also says
  ``insecure_tls=true``.
* On loopback the default is ``prefer``, or ``verify-full`` with ``sslrootcert``; a Unix socket is never encrypted.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy.engine import URL

from tacit.adapters.network.origins import is_loopback
from tacit.adapters.network.tls import LiveContext, private_context
from tacit.errors import UsageError

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
INSECURE = "insecure_tls"
_FILES = ("sslrootcert", "sslcert", "sslkey")
_KNOWN = frozenset({"sslmode", "host", INSECURE, *_FILES})
_NO_TLS = "rejected SSL upgrade"

Argument = ssl.SSLContext | str | Literal[False]


@dataclass(frozen=True)
class Protection:
    """The arguments for each new asyncpg connection: the ``host`` where it is a socket's folder, and ``ssl``."""

    mode: str
    socket: str | None = None
    context: LiveContext | None = None

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of ``asyncpg.connect``."""
        found: dict[str, Any] = {"ssl": self._ssl()}
        return found if self.socket is None else {**found, "host": self.socket}

    def _ssl(self) -> Argument:
        if self.context is not None:
            return self.context.current()
        return False if self.mode == "disable" else self.mode


def protection_of(url: URL) -> tuple[URL, Protection]:
    """Return ``url`` without its TLS options, and the protection of its connections. Raises ``UsageError`` for an
    unknown option, a mode that is not safe for that host, and files that cannot be used."""
    query = {name: value if isinstance(value, str) else ",".join(value) for name, value in url.query.items()}
    unknown = sorted(set(query) - _KNOWN)
    if unknown:
        raise UsageError(
            f"the database's URL: {unknown[0]} is not a known option; it may have {', '.join(sorted(_KNOWN))}"
        )
    socket, files = query.get("host"), {name: query.get(name) for name in _FILES}
    if (url.host is None) == (socket is None) or (socket is not None and not socket.startswith("/")):
        raise UsageError("the database's URL must name one host, or the folder of a Unix socket: ?host=/FOLDER")
    away = socket is None and not is_loopback(url.host or "")
    mode = query.get("sslmode") or ("verify-full" if away or files["sslrootcert"] else "prefer")
    if mode not in MODES or query.get(INSECURE, "false") not in {"true", "false"}:
        raise UsageError(f"the database's URL: sslmode must be one of {', '.join(MODES)}, and {INSECURE} true or false")
    if away and mode != "verify-full" and query.get(INSECURE) != "true":
        raise UsageError(
            f"the database is on another machine, and sslmode={mode} does not make sure who answers there; use "
            f"verify-full (sslrootcert=FILE names an authority of your own), or add {INSECURE}=true"
        )
    bare = url.set(query={})
    if socket is not None:
        return bare, Protection("disable", socket)
    return bare, Protection(mode, context=_context(mode, files))


def _context(mode: str, files: dict[str, str | None]) -> LiveContext | None:
    if mode not in {"require", "verify-ca", "verify-full"}:
        return None
    ca, certificate, key = (None if files[name] is None else Path(files[name] or "") for name in _FILES)

    def make() -> ssl.SSLContext:
        context = private_context(ca, certificate, key)
        if mode != "verify-full":
            # first: `ssl` refuses CERT_NONE while the host's name is checked
            context.check_hostname = False
        if mode == "require":
            context.verify_mode = ssl.CERT_NONE
        return context

    live = LiveContext("TLS of the database", (ca, certificate, key), make)
    # made at once, so that a file that cannot be used is refused at the start
    live.current()
    return live


def speaks_no_tls(error: BaseException | None) -> bool:
    """Whether a server answered that it does not support encryption."""
    while error is not None:
        if isinstance(error, ConnectionError) and _NO_TLS in str(error):
            return True
        error = error.__cause__
    return False
