"""How ``tacit operator`` shows the numbers of a service to a person."""

from __future__ import annotations

import pytest

from infra.commands.operator import number_words


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("process_start_time_seconds", 1_795_546_800.5, "1795546800 (2026-11-24 19:00:00 UTC)"),
        ("tacit_step_success_timestamp_seconds", 1_795_546_800.0, "1795546800 (2026-11-24 19:00:00 UTC)"),
        ("tacit_step_success_timestamp_seconds", 0.0, "never"),
        ("tacit_reports_waiting", 1_234_567.0, "1,234,567"),
        ("process_resident_memory_bytes", 124_518_400.0, "124,518,400"),
        ("tacit_ready", 1.0, "1"),
        ("tacit_step_window_seconds", 0.25, "0.25"),
        ("tacit_step_window_seconds", float("inf"), "inf"),
    ],
)
def test_a_moment_is_a_date_and_a_count_keeps_every_digit(name: str, value: float, words: str) -> None:
    assert number_words(name, value) == words
