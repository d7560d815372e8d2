"""One thing is one thing."""

from __future__ import annotations

from tacit.counting_words import plural


def test_a_number_agrees_with_its_noun() -> None:
    assert [plural(number, "host") for number in (0, 1, 2, 3000)] == ["0 hosts", "1 host", "2 hosts", "3,000 hosts"]
