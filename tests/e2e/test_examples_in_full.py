"""Everything that README and the other documents print, benchmarks apart."""

from __future__ import annotations

import pytest

from tests.printed import Printed, Walk
from tests.printed_in_full import BENCHES, HELP, PRINTED, given_in, require_printed

pytestmark = pytest.mark.slow
PLACES = [place for place in PRINTED if place not in {BENCHES, HELP}]


@pytest.mark.parametrize(("place", "printed"), given_in(PLACES), ids=str)
def test_it_does_what_it_says(walks: dict[str, Walk], place: str, printed: Printed) -> None:
    require_printed(walks, place, printed)
