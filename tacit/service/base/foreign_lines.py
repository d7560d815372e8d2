"""What others write to stderr, as lines of the log: libraries, warnings, and what finds an error that nobody handles.

Their words may quote rows, addresses or keys: an unread database error has its row, a broken connection its peer. A
line has the kind of the error and the places in the code instead. Tacit's own words stay, by the rule of
``tacit.errors``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from tacit.errors import parts_of
from tacit.service.base.log import get_logger, places_of

_WORDS = re.compile(r"[A-Za-z ]*")
"""How messages of an event loop begin; what was called, with its arguments, follows."""


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        log, error = get_logger(record.name), record.exc_info[1] if record.exc_info else None
        fields: dict[str, object] = {"where": places_of(error) or [f"{record.module}:{record.lineno}"]}
        if record.name.startswith("tacit."):
            with contextlib.suppress(Exception):  # a message that does not fit its arguments
                fields["what"] = record.getMessage()
        (log.error if record.levelno >= logging.ERROR else log.warning)("library", error=error, **fields)


def log_unhandled(_loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
    """A loop's exception handler: one line for what the loop complains of."""
    begun = _WORDS.match(str(context.get("message", "")))
    _write("asyncio", context.get("exception"), "" if begun is None else begun[0].strip())


def log_end(error: Exception) -> None:
    """One line for an error that ends the process, instead of a traceback. A file that it is about is named."""
    what = "the process ends"
    if isinstance(error, OSError) and isinstance(error.filename, str | bytes | os.PathLike):
        what = f"{os.fsdecode(error.filename)}: {error.strerror}"
    for one in parts_of(error):
        get_logger("process").critical("unhandled", what=what, error=one, where=places_of(one))


def _write(found_by: str, error: BaseException | None, what: str) -> None:
    for one in [None] if error is None else parts_of(error):
        get_logger(found_by).error("unhandled", what=what, error=one, where=places_of(one))


def _of_thread(found: threading.ExceptHookArgs) -> None:
    if found.exc_type is not SystemExit:
        _write("threading", found.exc_value, "a thread ended")


def _of_finalizer(found: sys.UnraisableHookArgs) -> None:
    _write("finalizer", found.exc_value, "a finalizer failed")


def _of_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: object = None,
    line: object = None,
) -> None:
    where = [f"{'/'.join(filename.split('/')[-2:])}:{lineno}"]
    get_logger("python").warning("library", what=category.__name__, where=where)


@contextlib.contextmanager
def foreign_lines() -> Iterator[None]:
    """While the block runs, warnings of libraries and of Python, and errors that threads and finalizers leave
    unhandled, are lines of the log. Event loops need ``log_unhandled``."""
    root, lines = logging.getLogger(), _Lines(logging.WARNING)
    before = threading.excepthook, sys.unraisablehook, warnings.showwarning
    root.addHandler(lines)
    threading.excepthook, sys.unraisablehook, warnings.showwarning = _of_thread, _of_finalizer, _of_warning
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook, warnings.showwarning = before
        root.removeHandler(lines)
