"""Structured logs: one JSON object per line on stderr, and a guard over what they may contain.

Logs name events, counts, public ids and rules. The guard drops the values of fields whose name says that they hold a
share, token, key, address or device, and never prints bytes, so that a careless call leaks nothing. Errors appear by
type and, for Tacit's own, by message (which contain no secrets by the rule of ``tacit.errors``).
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import MutableMapping
from contextvars import ContextVar
from typing import Any

import structlog
from structlog.typing import FilteringBoundLogger

from tacit.adapters.network.tls import LOGGER
from tacit.adapters.system import OsEntropy
from tacit.errors import TacitError

REDACTED = "[redacted]"
_NAMES = OsEntropy()
"""Randomness for request ids; separate from a service's own, so that an additional log line changes nothing else."""


class RequestId:
    """An id for one request in the log lines that it causes: random, drawn when the first of them is written. It is in
    no answer, and none is taken from a client, so nobody can follow a device by it."""

    __slots__ = ("_text",)

    def __init__(self) -> None:
        self._text = ""

    def text(self) -> str:
        """The request's id: 16 hex digits, drawn on the first use."""
        self._text = self._text or _NAMES(8).hex()
        return self._text


REQUEST: ContextVar[RequestId | None] = ContextVar("request", default=None)
"""The request that is being answered."""
_SENSITIVE = frozenset(
    (
        *(
            "token",
            "tokens",
            "share",
            "shares",
            "secret",
            "secrets",
            "seed",
            "password",
            "authorization",
            "bearer",
        ),
        *(
            "key",
            "keys",
            "private",
            "address",
            "ip",
            "peer",
            "remote",
            "host",
            "device",
            "device_id",
            "evidence",
        ),
        *("body", "payload", "ciphertext", "plaintext", "measurement", "nullifier", "preimage"),
    )
)


class _Stderr:
    """Writes to the current ``sys.stderr`` (it changes under test runners)."""

    def msg(self, message: str) -> None:
        with contextlib.suppress(OSError):  # a log that cannot be written (a full disk) must not stop the service
            print(message, file=sys.stderr, flush=True)  # noqa: T201 - this is the log's sink

    debug = info = warning = error = critical = exception = msg


def _is_sensitive(name: str) -> bool:
    lowered = name.lower()
    return lowered in _SENSITIVE or any(lowered.endswith("_" + word) for word in _SENSITIVE)


def _printable(value: object) -> object:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, TacitError):
        return f"{type(value).__name__}: {value}"
    if isinstance(value, BaseException):
        return type(value).__name__
    if isinstance(value, list | tuple | set | frozenset):
        return [_printable(item) for item in value]
    if isinstance(value, dict):
        return {str(key): REDACTED if _is_sensitive(str(key)) else _printable(item) for key, item in value.items()}
    return REDACTED if isinstance(value, bytes | bytearray | memoryview) else type(value).__name__


def guard(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Structlog processor: replaces values that must not be logged, and those that are not JSON, by a placeholder."""
    return {name: REDACTED if _is_sensitive(name) else _printable(value) for name, value in event.items()}


class _Level:
    """The process-wide threshold; set once at start."""

    value: int = logging.INFO


def set_log_level(level: str) -> None:
    """Set the threshold for every logger: "debug", "info", "warning", "error" or "critical"."""
    _Level.value = logging.getLevelNamesMapping()[level.upper()]


def log_level() -> str:
    """The threshold that ``set_log_level`` set."""
    return logging.getLevelName(_Level.value).lower()


def _name_request(_logger: object, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if (request := REQUEST.get()) is not None:
        event["request_id"] = request.text()
    return event


def _threshold(_logger: object, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if logging.getLevelNamesMapping().get(method.upper(), logging.ERROR) < _Level.value:
        raise structlog.DropEvent
    return event


def get_logger(service: str) -> FilteringBoundLogger:
    """A logger whose lines carry ``service``, whatever structlog and logging are configured to do."""
    logger: FilteringBoundLogger = structlog.wrap_logger(
        _Stderr(),
        processors=[
            _threshold,
            _name_request,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            guard,
            structlog.processors.JSONRenderer(sort_keys=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        service=service,
    )
    return logger


def quiet_http_logger() -> logging.Logger:
    """The logger for aiohttp's server side: its own lines contain peer addresses, so none is written."""
    logger = logging.getLogger("tacit.http")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
    return logger


class _TlsLines(logging.Handler):
    """Forwards the messages of ``tacit.adapters.network.tls`` about its files."""

    def emit(self, record: logging.LogRecord) -> None:
        log = get_logger("tls")
        (log.warning if record.levelno >= logging.WARNING else log.info)("files", what=record.getMessage())


def hear_tls() -> None:
    """Write the messages about TLS files of this process into the log from now on."""
    logger = logging.getLogger(LOGGER)
    if not logger.handlers:
        logger.addHandler(_TlsLines())
        logger.setLevel(logging.INFO)
        logger.propagate = False
