"""Everything that ``--help`` prints, in the order in which the examples go on from each other."""

from __future__ import annotations

import pytest

from tests.printed import Printed, Walk
from tests.printed_in_full import HELP, given_in, require_printed

pytestmark = pytest.mark.slow
PLACES = [HELP]


@pytest.mark.parametrize(("place", "printed"), given_in(PLACES), ids=str)
def test_it_does_what_it_says(walks: dict[str, Walk], place: str, printed: Printed) -> None:
    require_printed(walks, place, printed)


def test_the_report_of_a_released_result_lies_where_it_was_asked_for(walks: dict[str, Walk]) -> None:
    names = ("visits.html", "fleet-out", "log-copy", "docs/vectors", "demo-out")
    assert [name for name in names if not (walks[HELP].folder / name).exists()] == []
