"""Every benchmark that its page prints."""

from __future__ import annotations

import pytest

from tests.printed import Printed, Walk
from tests.printed_in_full import BENCHES, given_in, require_printed

pytestmark = pytest.mark.slow
PLACES = [BENCHES]


@pytest.mark.parametrize(("place", "printed"), given_in(PLACES), ids=str)
def test_it_does_what_it_says(walks: dict[str, Walk], place: str, printed: Printed) -> None:
    require_printed(walks, place, printed)
