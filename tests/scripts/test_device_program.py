"""The program of a device, which needs no part of a stack: what ends it is one line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_a_kernel_level_that_does_not_exist_ends_the_program_before_a_device_decides(tmp_path: Path) -> None:
    """Kernels are first used where a coin has said "send": an error there would show the coin."""
    command = [sys.executable, "-m", "client_agent", "--config", str(tmp_path / "agent.json")]
    ended = subprocess.run(
        command, check=False, env={"TACIT_NATIVE": "avx"}, capture_output=True, text=True, encoding="utf-8", timeout=60
    )
    assert ended.returncode != 0
    assert ended.stderr.count("\n") == 1
    assert "TACIT_NATIVE" in ended.stderr
