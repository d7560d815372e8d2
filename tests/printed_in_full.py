"""The commands that documents and ``--help`` print, given in full: each document in an empty folder, with the stacks
that it starts itself, up to released results."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from infra.backing.databases import databases
from infra.backing.mosquitto import find_mosquitto
from infra.backing.redis import find_redis
from infra.base.postgres_programs import find_binaries
from infra.stacks.layout import load_layout
from tacit.adapters.system import OsEntropy
from tests.conftest import skip_or_fail
from tests.examples import NOT_GIVEN, REFUSED, everything, put_given
from tests.printed import Printed, Walk

HELP, BENCHES = "--help", "benchmarks/README.md"
PRINTED = everything()
SERVERS = {"postgres": find_binaries, "redis": find_redis, "mosquitto": find_mosquitto}


def given_in(places: Collection[str]) -> list[tuple[str, Printed]]:
    """What is given of these documents, in their order."""
    return [(place, one) for place in places for one in PRINTED[place] if one.key not in NOT_GIVEN]


@contextmanager
def walking(places: Collection[str]) -> Iterator[dict[str, Walk]]:
    """The walk through the document at hand; the one before it is over. PostgreSQL's own user, under whom it runs where
    root starts it, can pass through their folder, as it cannot through pytest's."""
    folder, found = Path(tempfile.mkdtemp(prefix="tacit-in-full-")), dict[str, Walk]()
    folder.chmod(0o711)
    try:
        for number, place in enumerate(places):
            found[place] = Walk(folder / str(number))
            put_given(folder / str(number))
        yield found
    finally:
        for walk in found.values():
            walk.end()
        shutil.rmtree(folder, ignore_errors=True)


def require_printed(walks: dict[str, Walk], place: str, printed: Printed) -> None:
    """Give one command in its document's walk. Raises ``AssertionError`` where it does not end as it should."""
    for name, find in SERVERS.items():
        if "--with" in printed.key and find() is None:
            skip_or_fail(name, f"{name} is not installed, which {printed.key!r} needs")
    for other, walk in walks.items():
        if other != place:
            walk.end()
    if printed.key.startswith("tacit serve "):
        walks[place].end()
    if place == HELP and printed.key.startswith("tacit recipe publish "):
        walks[place].stop("agent")  # the fleet's oracle knows nothing of its answer
    with _servers_beside(printed, walks[place].folder / ".tacit"):
        walks[place].require(printed.text, status=int(printed.key in REFUSED))


def _servers_beside(printed: Printed, state_dir: Path) -> AbstractContextManager[None]:
    """A service that is restored is stopped; its database server is not, though a stack's own stops with the stack."""
    if not printed.key.startswith("tacit restore "):
        return nullcontext()
    return databases(load_layout(state_dir), wanted=False, url_file=None, entropy=OsEntropy())
