"""What libraries, threads and finalizers complain of: one line of the log each, without their words."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tacit.service.base.foreign_lines import foreign_lines, log_end, log_unhandled

SECRET = "Key (nullifier)=(0123) of 192.0.2.7"


class Log:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def only_line(self) -> dict[str, Any]:
        """The one line that was written."""
        [found] = self.lines()
        return found

    def lines(self) -> list[dict[str, Any]]:
        """What was written; it holds no word of ``SECRET``."""
        written = self._capsys.readouterr().err
        assert not {"0123", "nullifier", "192.0.2.7"} & set(written.replace("(", " ").replace(")", " ").split())
        assert SECRET not in written
        return [json.loads(line) for line in written.splitlines()]


@pytest.fixture
def log(capsys: pytest.CaptureFixture[str]) -> Iterator[Log]:
    with foreign_lines():
        yield Log(capsys)


def fail() -> None:
    raise ValueError(SECRET)


async def test_an_error_that_nobody_fetched_is_shown_by_its_kind_and_place(log: Log) -> None:
    async def work() -> None:
        fail()

    asyncio.get_running_loop().set_exception_handler(log_unhandled)
    task = asyncio.create_task(work())
    await asyncio.wait([task])
    del task
    gc.collect()
    line = log.only_line()
    assert (line["event"], line["level"], line["error"]) == ("unhandled", "error", "ValueError")
    assert line["what"] == "Task exception was never retrieved"
    assert line["where"][-1].startswith("unit/test_foreign_lines.py:")


async def test_what_was_called_is_not_shown_with_its_arguments(log: Log) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(log_unhandled)

    def call(_argument: str) -> None:
        fail()

    loop.call_soon(call, SECRET)
    await asyncio.sleep(0)
    line = log.only_line()
    assert line["what"] == "Exception in callback test"
    assert line["error"] == "ValueError"


def test_a_librarys_error_is_shown_by_its_logger_kind_and_place(log: Log) -> None:
    error = OSError(SECRET)
    logging.getLogger("a.library").error("the peer %s is gone", SECRET, exc_info=error)
    logging.getLogger("a.library").info("nobody needs this")
    line = log.only_line()
    assert (line["event"], line["service"], line["error"]) == ("library", "a.library", "OSError")
    assert line["where"][0].startswith("test_foreign_lines:")


def test_our_own_modules_keep_their_words(log: Log) -> None:
    logging.getLogger("tacit.vdaf.native.library").warning("the kernels are not available (%s)", "no C compiler")
    line = log.only_line()
    assert line["what"] == "the kernels are not available (no C compiler)"
    assert line["level"] == "warning"


def test_a_message_that_does_not_fit_its_arguments_is_a_line_without_words(log: Log) -> None:
    record = logging.LogRecord("tacit.some", logging.WARNING, "some.py", 1, "%(a)s", ({"b": SECRET},), None)
    for handler in logging.getLogger().handlers:
        if type(handler).__module__ == foreign_lines.__module__:  # those of pytest raise
            handler.handle(record)
    assert "what" not in log.only_line()


def test_of_a_group_of_errors_each_is_a_line(log: Log) -> None:
    log_end(ExceptionGroup(SECRET, [ValueError(SECRET), ExceptionGroup(SECRET, [KeyError(SECRET)])]))
    assert [line["error"] for line in log.lines()] == ["ValueError", "KeyError"]


def test_a_warning_of_python_is_a_line(log: Log) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn(SECRET, UserWarning, stacklevel=1)
    line = log.only_line()
    assert (line["event"], line["service"], line["what"]) == ("library", "python", "UserWarning")
    assert line["where"][0].startswith("unit/test_foreign_lines.py:")


def test_an_error_that_ends_a_thread_is_a_line(log: Log) -> None:
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    line = log.only_line()
    assert (line["event"], line["service"], line["error"]) == ("unhandled", "threading", "ValueError")


def test_an_error_of_a_finalizer_is_a_line(log: Log) -> None:
    class Failing:
        def __del__(self) -> None:
            fail()

    Failing()
    gc.collect()
    line = log.only_line()
    assert (line["event"], line["service"], line["error"]) == ("unhandled", "finalizer", "ValueError")


def test_an_error_that_ends_a_process_is_a_line(log: Log) -> None:
    try:
        fail()
    except ValueError as error:
        log_end(error)
    line = log.only_line()
    assert (line["event"], line["service"], line["error"]) == ("unhandled", "process", "ValueError")
    assert line["where"][-1].startswith("unit/test_foreign_lines.py:")


def test_an_error_of_a_file_that_ends_a_process_names_the_file(log: Log, tmp_path: Path) -> None:
    try:
        (tmp_path / "missing").read_bytes()
    except OSError as error:
        log_end(error)
    assert log.only_line()["what"] == f"{tmp_path}/missing: No such file or directory"


def test_afterwards_everything_is_as_it_was() -> None:
    def now() -> tuple[object, ...]:
        handlers = tuple(logging.getLogger().handlers)
        return handlers, threading.excepthook, sys.unraisablehook, warnings.showwarning

    before = now()
    with foreign_lines():
        assert not set(before) & set(now())
    assert now() == before
