"""Every command that README, the other documents and ``--help`` print, given as printed in a folder that holds nothing
else, beside one stack that all of them share. What takes long has its turn in ``test_examples_*.py``."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.examples import AFTER, FOLLOWED, LONG, NOT_GIVEN, REFUSED, SHORTER, everything, put_given
from tests.printed import PROGRAM, STAYS, Printed, Walk

STACK = (
    "tacit up --agents 2 --epoch-seconds 7200 --slots 16 --allow-unbounded-local",
    "tacit up --agents 2 --epoch-seconds 7300 --slots 16 --allow-unbounded-local",
)
"""One of them has more than ten minutes left of its epoch."""
PRINTED = everything()
ALONE = re.compile(r"tacit (bench|agent host) ")
"""What reads nothing of its folder but the stack, and leaves nothing there: printed in two places, it is given once."""


def given_now() -> Iterator[Printed]:
    """What has its turn here, in the order of the documents."""
    given = set[str]()
    for one in (one for group in PRINTED.values() for one in group):
        if one.key not in {*NOT_GIVEN, *LONG} and not (ALONE.match(one.key) and one.key in given):
            given.add(one.key)
            yield one


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Walk]]:
    """A folder for each document, in which every stack that it names is the one that runs."""
    folder = tmp_path_factory.mktemp("examples")
    stack = Walk(folder / "stack")
    try:
        stack.require(long_epoch())
        found = {}
        for number, place in enumerate(PRINTED):
            found[place] = Walk(folder / str(number))
            for name in (".tacit", ".tacit-load"):
                (folder / str(number) / name).symlink_to(folder / "stack" / ".tacit")
            put_given(folder / str(number))
        try:
            yield found
        finally:
            for walk in found.values():
                walk.end()
        stack.stop("up")
    finally:
        stack.end()


def long_epoch() -> str:
    """The stack's command, chosen by the time of day."""
    return next(one for one in STACK if (length := int(one.split()[5])) - time.time() % length > 600)


@pytest.mark.slow
@pytest.mark.parametrize("printed", list(given_now()), ids=str)
def test_it_does_what_it_says(walks: dict[str, Walk], printed: Printed) -> None:
    walk = walks[printed.place if printed.place in PRINTED else "--help"]
    command = SHORTER.get(printed.key, printed.text)
    walk.require(command, status=int(printed.key in REFUSED))
    stays = STAYS.match(command)
    if stays:
        walk.stop(stays[1].split()[0])


def test_every_example_is_known_by_what_it_is() -> None:
    """What is said of a command that nobody prints any more, or of a test that is gone, is not kept."""
    keys = {one.key for group in PRINTED.values() for one in group}
    for table in (NOT_GIVEN, LONG, SHORTER, REFUSED):
        assert set(table) <= keys
    assert not set(NOT_GIVEN) & set(LONG)
    tests = {*LONG.values(), *(name for why in NOT_GIVEN.values() for name in re.findall(r"tests/\S+\.py", why))}
    assert [name for name in tests if not (ROOT / name).is_file()] == []
    assert all(any(key.startswith(start) for key in keys) for start in (*AFTER, *AFTER.values()))


def test_every_command_line_in_a_block_is_found() -> None:
    """Nothing is lost between the documents and this test: no block mixes commands with what is none."""
    for place, group in PRINTED.items():
        for one in group:
            assert PROGRAM.match(one.key), f"{place}: {one.key!r} begins with no program that is known"
            assert "..." not in one.key, f"{place}: {one.key!r} cannot be given as printed"
    assert {path for path, group in PRINTED.items() if not group} <= {
        "docs/performance.md",
        "docs/privacy.md",
        "docs/restoring.md",
    }


def test_every_document_that_prints_commands_is_read() -> None:
    documents = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("benchmarks/*.md"),
        *ROOT.glob("examples/*/*.md"),
    ]
    printing = {
        str(path.relative_to(ROOT))
        for path in documents
        if any(re.search(r"^(\$ )?(tacit|make) ", block, re.MULTILINE) for block in path.read_text().split("```")[1::2])
    }
    assert printing <= {*PRINTED, *FOLLOWED}
    assert all((ROOT / test).is_file() for test in FOLLOWED.values())


def test_a_failing_example_is_told(tmp_path: Path) -> None:
    walk = Walk(tmp_path / "folder")
    try:
        for wrong in ("tacit status --state-dir nowhere", "exit 1 # in a shell", "tacit serve no --config x"):
            with pytest.raises(AssertionError):
                walk.require(wrong)
    finally:
        walk.end()
