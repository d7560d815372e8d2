"""Every benchmark that its page prints."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.printed import Printed, Walk
from tests.printed_in_full import BENCHES, given_in, require_printed, walking

pytestmark = pytest.mark.slow
PLACES = [BENCHES]


@pytest.fixture(scope="module")
def walks() -> Iterator[dict[str, Walk]]:
    with walking(PLACES) as found:
        yield found


@pytest.mark.parametrize(("place", "printed"), given_in(PLACES), ids=str)
def test_it_does_what_it_says(walks: dict[str, Walk], place: str, printed: Printed) -> None:
    require_printed(walks, place, printed)
