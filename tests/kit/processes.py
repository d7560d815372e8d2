"""Commands run as real processes: wait for their ready line, signal them, never leave one behind."""

from __future__ import annotations

import contextlib
import json
import selectors
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

START_SECONDS = 480.0
"""For a command that hangs. One that cannot start ends by itself, and on a busy machine takes as long as it may: of a
staging deployment, 120 s for its services, 60 for token keys, and then for devices as long as more of them come."""
STOP_SECONDS = 30.0


@contextlib.contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that is killed where the block fails, so that nobody waits for it without end."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


class ReadyProcess:
    """A command that says on stdout, in one line of JSON, that it is ready. Its stderr goes to a file.

    With ``piped_stdin`` its standard input is a pipe that ``close_stdin`` closes; otherwise it is empty.
    ``environment`` replaces this process's own.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        piped_stdin: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log = log
        with log.open("ab") as sink:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE if piped_stdin else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=sink,
                env=environment,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Kill the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    @property
    def stderr(self) -> str:
        """What it wrote to stderr so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def ready(self, seconds: float = START_SECONDS) -> dict[str, Any]:
        """The line, once it is there. Raises ``RuntimeError`` with its stderr where the process ends or closes stdout
        without one, or says nothing for so long."""
        output = self._process.stdout
        assert output is not None
        with selectors.DefaultSelector() as waiting:  # takes any number of open files, as select() does not
            waiting.register(output, selectors.EVENT_READ)
            came = waiting.select(seconds)
        line = output.readline() if came else b""
        if not line:
            until = "before it ended" if came else f"within {seconds:g} s"
            raise RuntimeError(f"no ready line {until}; stderr: {self.stderr[-2000:]}")
        document: dict[str, Any] = json.loads(line)
        return document

    def signal(self, number: int) -> None:
        """Send a signal to the process."""
        self._process.send_signal(number)

    def close_stdin(self) -> None:
        """Close its standard input, as happens when the process that started it dies."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        """Its exit status (negative: the signal). Raises ``subprocess.TimeoutExpired`` after a while."""
        return self._process.wait(seconds)
