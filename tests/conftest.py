"""Fixtures that every test may use, and the rule for what may be skipped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


def _required() -> set[str]:
    return {name.strip() for name in os.environ.get("TACIT_REQUIRE", "").split(",") if name.strip()}


def skip_or_fail(need: str, reason: str) -> None:
    """Skip with ``reason``, or fail where TACIT_REQUIRE names ``need``."""
    if need in _required():
        pytest.fail(f"TACIT_REQUIRE names {need}: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def vectors() -> Path:
    """The folder of the official test vectors."""
    folder = Path(os.environ.get("TACIT_VECTORS", ROOT.parent / "shared" / "vectors"))
    if not folder.is_dir():
        skip_or_fail("vectors", f"official test vectors absent ({folder}); set TACIT_VECTORS")
    return folder


@pytest.fixture(scope="session")
def load_vector(vectors: Path) -> Callable[[str], Any]:
    """``load_vector("hpke/rfc9180_base_x25519.json")`` -> the parsed JSON."""

    def load(name: str) -> Any:
        return json.loads((vectors / name).read_text())

    return load
