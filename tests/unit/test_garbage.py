"""Which objects a process searches for garbage. In processes of their own, which are then not searched as they were."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

MADE = """
import gc, weakref
from infra.base.garbage import YOUNGEST, no_collection, spare_what_is_here

class Circle:  # only a search finds out that it is garbage
    def __init__(self):
        self.itself = self

kept = Circle()
early, lost = weakref.ref(kept), weakref.ref(Circle())
"""
CASES = {
    "garbage from before a start is freed at it": """
        assert lost() is not None
        spare_what_is_here()
        assert lost() is None and early() is not None
    """,
    "what a process has at its start is never searched again, and what comes later is": """
        spare_what_is_here()
        del kept
        late = weakref.ref(Circle())
        gc.collect()
        assert early() is not None and late() is None
    """,
    "the youngest objects are searched after a bounded number of them": """
        spare_what_is_here()
        late = weakref.ref(Circle())
        more = [[number] for number in range(2 * YOUNGEST)]
        assert late() is None
    """,
    "imports are not searched, and later objects are": """
        with no_collection():
            assert not gc.isenabled()
        assert gc.isenabled()
    """,
}


@pytest.mark.parametrize("case", CASES)
def test_of_objects_and_searches_for_garbage(case: str) -> None:
    command = [sys.executable, "-c", MADE + textwrap.dedent(CASES[case])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
