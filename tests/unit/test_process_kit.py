"""A command's ready line is waited for as long as the command may still say it, and no longer."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.kit.processes import ReadyProcess


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_the_line_is_read_and_an_end_without_one_is_told_at_once_with_what_was_said(tmp_path: Path) -> None:
    with ReadyProcess(python("print('{\"url\": 1}')"), tmp_path / "log") as process:
        assert process.ready() == {"url": 1}
    with ReadyProcess(python("raise SystemExit('no such port')"), tmp_path / "log") as process:
        with pytest.raises(RuntimeError, match=r"no ready line before it ended; stderr: no such port"):
            process.ready()
        assert process.wait() == 1


def test_a_process_that_hangs_is_given_up(tmp_path: Path) -> None:
    with (
        ReadyProcess(python("input()"), tmp_path / "log", piped_stdin=True) as process,
        pytest.raises(RuntimeError, match=r"no ready line within 0.1 s"),
    ):
        process.ready(0.1)
