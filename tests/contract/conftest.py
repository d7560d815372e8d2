"""Stores work here as they do in the product."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit import databases


@pytest.fixture(autouse=True)
def statements_run_in_their_thread() -> Iterator[None]:
    """The tests' shorter way to SQLite is not taken."""
    with databases.threads():
        yield
