"""The commands that the documents and ``--help`` print, and a folder in which they are given as printed."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from infra.cli import COMMANDS, build, run
from tests.conftest import ROOT
from tests.kit.processes import START_SECONDS

DOCUMENTS = (
    "README.md",
    "docs/configuration.md",
    "docs/demo.md",
    "docs/device.md",
    "docs/embedding.md",
    "docs/first-deployment.md",
    "docs/interop.md",
    "docs/learning.md",
    "docs/pan-privacy.md",
    "docs/performance.md",
    "docs/privacy.md",
    "docs/restoring.md",
    "docs/ways-to-ask.md",
    "benchmarks/README.md",
    "examples/node/README.md",
    "CONTRIBUTING.md",
)
PROGRAM = re.compile(r"(?:\$ )?(tacit|make|python3|node|\.ci/run|\S+/bin/\S+)(?: |$)")
FENCE = "```"
BASH = "/bin/bash"
STAYS = re.compile(r"^tacit (up(?! restart)|serve (?!.*--print-config)|agent run|agent host|log monitor .*--follow)\b")
"""What goes on until it is told to stop."""
HOST = re.compile(r"tacit agent host ")
DEVICE = re.compile(r"tacit agent run --config (\S+)/agent\.json\b")
SHELL = frozenset("$|&;<>*`")
READY = {"up": "Ctrl-C stops everything", "serve": '"url"', "agent": "started", "log": "watching"}
"""What it says once it does its work."""
HOSTING = '"changing": 0, "devices": [1-9]'
"""The same of a host of many devices, each of which has its journal by then."""
STOP_SECONDS = 60.0
LIMIT_SECONDS = 900.0


@dataclass(frozen=True)
class Printed:
    """One command, and the document, or the command's ``--help``, that prints it."""

    place: str
    text: str

    @property
    def key(self) -> str:
        """Its words, without the comment behind it."""
        return " ".join(re.sub(r"\s#.*", "", self.text.replace("\\\n", " ")).split())

    def __str__(self) -> str:
        return f"{self.place}: {self.key}"


def in_document(place: str) -> list[Printed]:
    """The commands in the fenced blocks of a document below the project's root. A block with a prompt prints the
    answer, too; a block in which no line begins with a program is none of commands."""
    found: list[Printed] = []
    for block in (ROOT / place).read_text().split(FENCE)[1::2]:
        lines = block.partition("\n")[2].splitlines()
        if any(line.startswith("$ ") for line in lines):
            lines = [line[2:] for line in lines if line.startswith("$ ")]
        if any(map(PROGRAM.match, lines)):
            joined = "\n".join(lines).replace("\\\n", "\\\0").splitlines()
            found += [Printed(place, line.replace("\0", "\n")) for line in joined if line.strip()]
    return found


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command below ``group`` that does something."""
    for name, command in group.commands.items():
        below = (*path, name)
        if getattr(command, "invoke_without_command", False):
            yield below, command
        yield from leaves(command, below) if hasattr(command, "commands") else [(below, command)]


@functools.cache
def commands() -> list[tuple[tuple[str, ...], Any]]:
    """Every command of ``tacit``, in the order of its list of commands."""
    return [leaf for name in COMMANDS for leaf in leaves(typer.main.get_command(build(name))) if leaf[0][0] == name]


def in_help() -> list[Printed]:
    """The example of every command's ``--help``."""
    return [
        Printed(f"{' '.join(path)} --help", " ".join(command.help.partition("Example:")[2].split()))
        for path, command in commands()
    ]


class Walk:
    """Commands given one after the other in one folder, as a person would: what stays goes on beside the others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._bin = folder / "bin"
        self._bin.mkdir(parents=True)
        program = self._bin / "tacit"
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -P -m infra.cli "$@"\n')
        program.chmod(0o755)
        self._staying: list[tuple[str, subprocess.Popen[bytes], Path]] = []

    def require(self, command: str, status: int = 0) -> None:
        """Give a command. Raises ``AssertionError`` where it does not end with ``status``, or what stays is over before
        it is ready."""
        stays = STAYS.match(command)
        if stays:
            kind = stays[1].split()[0]
            if kind == "agent" and any(of == kind for of, _, _ in self._staying):
                self.stop(kind)  # a device has one process
            self._start(kind, command)
        elif command.startswith("tacit ") and not SHELL & set(command):
            with contextlib.chdir(self.folder):
                assert run(shlex.split(command.replace("\\\n", " "), comments=True)[1:]) == status
        else:
            done = subprocess.run(
                [BASH, "-c", command],
                cwd=self.folder,
                env=self.environment,
                check=False,
                timeout=LIMIT_SECONDS,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == status

    def stop(self, kind: str) -> None:
        """End the last one of its kind (``up``, ``serve``, ``agent``, ``log``) as Ctrl-C does. Raises
        ``AssertionError`` where it was over or fails."""
        last = max(place for place, (of, _, _) in enumerate(self._staying) if of == kind)
        _, process, log = self._staying.pop(last)
        assert process.poll() is None, log.read_text()
        os.killpg(process.pid, signal.SIGINT)
        status = process.wait(STOP_SECONDS)
        assert status in {0, 130} or (kind == "agent" and status == -signal.SIGINT), log.read_text()

    def end(self) -> None:
        """End everything that was started, and leave no process behind."""
        for _, process, _ in reversed(self._staying):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for _, process, _ in self._staying:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._staying.clear()

    @property
    def environment(self) -> dict[str, str]:
        """Of what is given: `tacit` is this checkout's."""
        return {
            **os.environ,
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }

    def _start(self, kind: str, command: str) -> None:
        log = self.folder / f"{kind}-{len(self._staying)}.out"
        with log.open("wb") as sink:
            process = subprocess.Popen(
                [BASH, "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._staying.append((kind, process, log))
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready(kind, command, log):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        if kind == "up":
            self._await_keys(command, deadline)

    def _await_keys(self, command: str, deadline: float) -> None:
        """Wait until a recipe can be written, which a person who types it need not."""
        named = re.search(r"--state-dir (\S+)", command)
        question = ["--name", "probe", "--metric", "m", "--boolean", "--population", "1000", "--json"]
        with contextlib.chdir(self.folder):
            while run(["recipe", "new", "--state-dir", named[1] if named else ".tacit", *question]) != 0:
                assert time.monotonic() < deadline
                time.sleep(0.5)

    def _is_ready(self, kind: str, command: str, log: Path) -> bool:
        """It has said so; an agent of one device takes events, too."""
        device = DEVICE.match(command)
        listens = device is None or (self.folder / device[1] / "watch.sock").exists()
        ready = HOSTING if HOST.match(command) else READY[kind]
        return listens and re.search(ready, log.read_text(errors="replace")) is not None
