"""TLS of clients and listeners: contexts made from files, and made again when the files change (P7).

There is no timer: each use of a context (a new connection, a health check) tests whether the files are still the same,
by inode, size and times. New files take effect as a whole: the certificate, its key and the authorities are loaded into
a fresh context, which replaces the old one only when all of it could be loaded. Files that cannot be used leave the old
context in place, are reported once in the log, and show in the health check until they are repaired. Existing
connections continue.

The minimum is TLS 1.2, or 1.3 where a listener asks for certificates; there, no session is resumed, so a certificate is
always checked against the current authorities.
"""

from __future__ import annotations

import logging
import os
import ssl
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tacit.adapters.disk.files import is_private
from tacit.errors import UsageError

LOGGER = "tacit.tls"
"""Logger for a service's log: its lines are about files and never contain what they hold."""
_KEY_SIZE = 1 << 16
_NAME_MISMATCH = (62, 64)
"""OpenSSL's verify codes for a certificate of another host name or address."""

_NO_TLS = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's reasons for a server that answers in plain text, or hangs up."""

Make = Callable[[], ssl.SSLContext]
_State = tuple[tuple[int, ...] | None, ...]

_live: weakref.WeakSet[LiveContext] = weakref.WeakSet()


class LiveContext:
    """The context that ``make`` builds from the present ``files``. ``what`` names it in messages."""

    def __init__(self, what: str, files: Sequence[Path | None], make: Make) -> None:
        self.trouble = ""
        self._what = what
        self._files = tuple(path for path in files if path is not None)
        self._make = make
        self._seen: _State | None = None
        self._context: ssl.SSLContext | None = None
        _live.add(self)

    @property
    def has_files(self) -> bool:
        """Whether anything but the system's authorities goes into the context."""
        return bool(self._files)

    def current(self) -> ssl.SSLContext:
        """The newest context that could be made. Raises ``UsageError`` where none ever could."""
        state = tuple(_state_of(path) for path in self._files)
        if self._context is not None and state == self._seen:
            return self._context
        try:
            fresh = self._make()
        except UsageError as error:
            if self._context is None:
                raise
            self._seen = state
            self.trouble = f"{self._what}: the new files cannot be used, the old ones stay in use: {error}"
            logging.getLogger(LOGGER).warning(self.trouble)
            return self._context
        if self._context is not None:
            logging.getLogger(LOGGER).info("%s: the new files are in use", self._what)
        self._seen, self._context, self.trouble = state, fresh, ""
        return fresh


def troubles() -> list[str]:
    """The problems with the files of this process's TLS contexts, after checking them again."""
    found = []
    for one in [live for live in _live if live.has_files]:
        try:
            one.current()
        except UsageError as error:
            found.append(str(error))
        else:
            found += [one.trouble] if one.trouble else []
    return sorted(set(found))


@dataclass(frozen=True, slots=True)
class ClientTls:
    """Trust and identity of a client: an additional CA file, and a certificate with its key for mutual TLS."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = field(default=None, repr=False)

    def context(self) -> ssl.SSLContext:
        """A verifying TLS 1.2+ context. Raises ``UsageError`` for files that cannot be loaded."""
        context = ssl.create_default_context()
        return _load(context, "client", self.ca, self.certificate, self.key)

    def live(self) -> LiveContext:
        """The same, made again when the files change. Raises ``UsageError`` for files that cannot be loaded now."""
        if self.ca is not None or self.certificate is not None:
            self.context()  # what never was in use is no trouble of this process later
        return LiveContext("TLS of outgoing connections", (self.ca, self.certificate, self.key), self.context)


def private_context(ca: Path | None, certificate: Path | None = None, key: Path | None = None) -> ssl.SSLContext:
    """A verifying client context for a server that the operator runs: it trusts ``ca`` alone, or the system's
    authorities without ``ca``. Raises ``UsageError``."""
    context = ssl.create_default_context() if ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return _load(context, "server's CA", ca, certificate, key)


def listener_context(certificate: Path, key: Path, client_ca: Path | None) -> ssl.SSLContext:
    """A listener's context, which follows its files. With ``client_ca``, clients may show a certificate, which must
    then be valid; which resources need one is decided in ``tacit.service.http.callers``. Raises ``UsageError``."""

    def make() -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if client_ca is not None:
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.num_tickets = 0
            context.verify_mode = ssl.CERT_OPTIONAL
        return _load(context, "listen", client_ca, certificate, key)

    front = make()
    live = LiveContext("TLS of the listener", (certificate, key, client_ca), make)
    live.current()

    def choose(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = live.current()

    front.sni_callback = choose
    return front


def tls_reason(error: BaseException | None) -> str | None:
    """Describe in a few words why TLS failed, from ``error`` or its causes; None where the cause was something else."""
    while error is not None:  # an HTTP library's own errors may be subclasses of these, without their attributes
        if isinstance(error, ssl.SSLCertVerificationError) and hasattr(error, "verify_code"):
            if error.verify_code in _NAME_MISMATCH:
                return "its certificate is for another host"
            return f"its certificate is not trusted ({error.verify_message})"
        if isinstance(error, ssl.SSLError) and hasattr(error, "reason"):
            return "it does not speak TLS" if error.reason in _NO_TLS else f"TLS failed ({error.reason})"
        error = error.__cause__ or error.__context__
    return None


def _load(
    context: ssl.SSLContext, what: str, ca: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext:
    context.minimum_version = max(context.minimum_version, ssl.TLSVersion.TLSv1_2)
    for path in (certificate, key):
        _require_private(path, what)
    for path in (ca, certificate, key):
        if (
            path is not None and path.exists() and not path.is_file()
        ):  # OpenSSL would block on a FIFO until a writer comes
            raise UsageError(f"{what}: {path} is not a regular file")
    try:
        if ca is not None:
            context.load_verify_locations(ca)
        if certificate is not None:
            context.load_cert_chain(certificate, key, password=_no_password)
    except (OSError, ValueError) as error:
        names = ", ".join(str(path) for path in (certificate, key, ca) if path is not None)
        number = None if isinstance(error, ssl.SSLError) else getattr(error, "errno", None)
        why = os.strerror(number) if number else "not PEM files that fit together"
        raise UsageError(f"{what}: certificate, key or CA cannot be loaded ({names}): {why}") from error
    return context


def _no_password() -> str:
    """Fail instead of prompting on a terminal that a service does not have: keys lie unencrypted in 0600 files."""
    raise ValueError("the key is encrypted")


def _require_private(path: Path | None, what: str) -> None:
    """Refuse a file with a private key that others may read."""
    if path is None:
        return
    try:
        with path.open("rb") as file:
            is_key = b"PRIVATE KEY-----" in file.read(_KEY_SIZE)
            private = is_private(os.fstat(file.fileno()))
    except OSError:
        return  # loading it reports the error
    if is_key and not private:
        raise UsageError(f"{what}: {path}: this private key is readable by others; run: chmod 600 {path}")


def _state_of(path: Path) -> tuple[int, ...] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns
