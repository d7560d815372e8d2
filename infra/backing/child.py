"""A server program as a child process that stops when this process ends, however it ends.

A small shell starts the program and waits for the end of its standard input. When this process is gone, the pipe closes
and the shell interrupts the program, which shuts down.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.base.certificate_files import CA_FILE, is_certified
from infra.base.disk_space import disk_space_problem
from tacit.adapters.network.tls import private_context
from tacit.errors import UsageError
from tacit.lines import lines_of

LOG_NAME = "server.log"
READY_SECONDS = 60.0
STOP_SECONDS = 20.0
PAUSE_SECONDS = 0.02
_UNTIL_STDIN_CLOSES = (
    'exec 3<&0; "$@" </dev/null & pid=$!; (cat <&3 >/dev/null; kill -INT "$pid" 2>/dev/null) & wait "$pid"'
)


class Child:
    """One running program in a process group of its own; its output goes to ``log``."""

    def __init__(self, command: Sequence[str], log: Path, **user: Any) -> None:
        """Start ``command``; ``user`` are arguments of ``Popen`` that set the user it runs as."""
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as sink:
            self._process = subprocess.Popen(  # noqa: S603 - a program of the system and our own arguments
                ["/bin/sh", "-c", _UNTIL_STDIN_CLOSES, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                cwd="/",
                start_new_session=True,
                **user,
            )

    @property
    def group(self) -> int:
        """Id of the process group, which holds the shell that was started and everything that the program starts."""
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether the program is still running."""
        return self._process.poll() is None

    def until(
        self,
        is_ready: Callable[[], bool],
        seconds: float = READY_SECONDS,
        waiting: Callable[[float], None] = lambda _seconds: None,
    ) -> bool:
        """Wait until ``is_ready``, at most ``seconds``. If the program ends first or takes too long, stop it and return
        False. ``waiting`` is called all the while, with the seconds that have passed."""
        begun = time.monotonic()
        while not is_ready():
            passed = time.monotonic() - begun
            if self._process.poll() is not None or passed > seconds:
                self.stop()
                return False
            waiting(passed)
            time.sleep(PAUSE_SECONDS)
        return True

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask the program to shut down, and kill what is left after ``seconds``."""
        self._close_input()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()  # a program that did not stop, or the waiting shell of one that ended by itself

    def kill(self) -> None:
        """Send SIGKILL to the whole group, like a power cut."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.group, signal.SIGKILL)
        self._process.wait()
        self._close_input()

    def wait(self) -> None:
        """Wait until the program has ended by itself, at most ``STOP_SECONDS``."""
        self._process.wait(STOP_SECONDS)

    def _close_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()


@dataclass
class PrivateServer(ABC):
    """A server program on a local port, with its files in ``folder``. It can be started and stopped repeatedly."""

    folder: Path
    port: int
    _child: Child | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """Return the program and its arguments. Raises ``UsageError`` if the program is missing."""

    @abstractmethod
    def answers(self) -> bool:
        """Whether the server accepts requests at this moment."""

    @property
    def certified(self) -> bool:
        """Whether the server speaks TLS only."""
        return is_certified(self.folder)

    def connect(self, seconds: float) -> socket.socket:
        """Open a connection to the server, over TLS if it has a certificate. Raises ``OSError``."""
        link = socket.create_connection(("127.0.0.1", self.port), seconds)
        if not self.certified:
            return link
        try:
            return private_context(self.folder / CA_FILE).wrap_socket(link, server_hostname="127.0.0.1")
        except BaseException:
            link.close()
            raise

    def start(self) -> None:
        """Start the server, and return once it answers. Raises ``UsageError`` with the last line of its log."""
        self._child = Child(self.command(), self.folder / LOG_NAME)
        if not self._child.until(self.answers):
            self._child = None
            name = type(self).__name__.removesuffix("Server")
            raise UsageError(f"{name} did not start: {last_words(self.folder / LOG_NAME)}")

    def stop(self) -> None:
        """Shut the server down in order, with everything written to disk."""
        child, self._child = self._child, None
        if child is not None:
            child.stop()

    def crash(self) -> None:
        """Kill the server with SIGKILL, so that what is not on disk is lost."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()


def last_words(log: Path) -> str:
    """Return the last line of a program's log, or ``no message``; of a full file system that it is full."""
    if words := disk_space_problem(log.parent):
        return words
    try:
        lines = lines_of(log.read_bytes()[-4096:].decode("utf-8", "replace").strip())
    except OSError:
        lines = []
    return lines[-1].strip() if lines else "no message"


def require_program(found: str | None, name: str, package: str, option: str) -> str:
    """Return the path ``found``, or raise ``UsageError`` that says how to install the program if it is None."""
    if found is None:
        raise UsageError(f"no {name} here: install it (apt-get install {package}), or give {option}")
    return found
