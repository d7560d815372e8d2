"""Times as people and headers write them."""

from __future__ import annotations

import time

import pytest

from tacit.time_format import date_field, read_date_field

SECOND = 784_111_777


@pytest.mark.parametrize(
    "text",
    ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"],
)
def test_all_three_forms_of_a_date_field_are_read_wherever_the_machine_stands(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for zone in ("UTC", "America/New_York", "Pacific/Kiritimati"):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        assert read_date_field(text) == SECOND
    monkeypatch.undo()
    time.tzset()
    assert read_date_field(date_field(SECOND)) == SECOND


@pytest.mark.parametrize("text", ["", "yesterday", "Sun, 99 Nov 1994 08:49:37 GMT", "0"])
def test_what_is_no_date_is_none(text: str) -> None:
    assert read_date_field(text) is None
