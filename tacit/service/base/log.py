"""Structured logs: one JSON object per line on stderr, and a guard over what they may contain.

Logs name events, counts, public ids and rules. The guard drops the values of fields whose name says that they hold a
share, token, key, address or device, and never prints bytes, so that a careless call leaks nothing. Errors appear by
type and, for Tacit's own, by message (which contain no secrets by the rule of ``tacit.errors``).
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

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


def guard(fields: Mapping[str, object]) -> dict[str, object]:
    """Replace the values of ``fields`` that must not be logged, and those that are not JSON, by a placeholder."""
    return {name: REDACTED if _is_sensitive(name) else _printable(value) for name, value in fields.items()}


class _Level:
    """The process-wide threshold; set once at start."""

    value: int = logging.INFO


def set_log_level(level: str) -> None:
    """Set the threshold for every logger: "debug", "info", "warning", "error" or "critical"."""
    _Level.value = logging.getLevelNamesMapping()[level.upper()]


def log_level() -> str:
    """The threshold of this process in lower case; "info" until ``set_log_level`` is called."""
    return logging.getLevelName(_Level.value).lower()


class Log:
    """Writes the lines of one service: an event's name, and its fields."""

    __slots__ = ("_service",)

    def __init__(self, service: str) -> None:
        self._service = service

    def info(self, event: str, **fields: Any) -> None:
        """Something that happens as planned."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Something that went wrong and is dealt with, such as a peer's mistake."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Something that went wrong here."""
        self._write(logging.ERROR, event, fields)

    def critical(self, event: str, **fields: Any) -> None:
        """Something that ends the process."""
        self._write(logging.CRITICAL, event, fields)

    def _write(self, level: int, event: str, fields: Mapping[str, object]) -> None:
        if level < _Level.value:
            return
        line = dict(fields) | {"event": event, "level": logging.getLevelName(level).lower(), "service": self._service}
        line["timestamp"] = f"{datetime.now(UTC).replace(tzinfo=None).isoformat()}Z"
        if (request := REQUEST.get()) is not None:
            line["request_id"] = request.text()
        with contextlib.suppress(OSError):  # a log that cannot be written (a full disk) must not stop the service
            print(json.dumps(guard(line), sort_keys=True), file=sys.stderr, flush=True)  # noqa: T201 - the log's sink


def get_logger(service: str) -> Log:
    """A logger whose lines name ``service``; the threshold is that of the process."""
    return Log(service)


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


def places_of(error: BaseException | None) -> list[str]:
    """File names and lines of the last calls of an error's traceback, without values."""
    places = []
    traceback = None if error is None else error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(f"{'/'.join(code.co_filename.split('/')[-2:])}:{traceback.tb_lineno}")
        traceback = traceback.tb_next
    return places[-6:]
