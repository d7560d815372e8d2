"""Which objects a process searches for garbage."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from infra.base.garbage import YOUNGEST, no_collection, spare_what_is_here


class Circle:
    """Refers to itself, so that only a search finds out that it is garbage."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


def made() -> weakref.ref[Circle]:
    return weakref.ref(Circle())


def test_garbage_from_before_a_start_is_freed_at_it() -> None:
    early = made()
    spare_what_is_here()
    assert early() is None


def test_what_a_process_has_at_its_start_is_never_searched_again_and_what_comes_later_is() -> None:
    kept = Circle()
    early = weakref.ref(kept)
    spare_what_is_here()
    del kept
    late = made()
    gc.collect()
    assert early() is not None
    assert late() is None


def test_the_youngest_objects_are_searched_after_a_bounded_number_of_them() -> None:
    spare_what_is_here()
    late = made()
    grown = [[number] for number in range(2 * YOUNGEST)]
    assert late() is None, f"{len(grown)} more objects were made"


def test_imports_are_not_searched_and_later_objects_are() -> None:
    with no_collection():
        assert not gc.isenabled()
    assert gc.isenabled()
