"""Traffic counters: one line per bucket, none per request."""

from __future__ import annotations

import json

import pytest

from infra.lab.kit.clock import SimClock
from tacit.service.base.counters import TrafficCounters


async def test_finished_buckets_are_logged_once_and_forgotten(capfd: pytest.CaptureFixture[str]) -> None:
    clock = SimClock(1000.0)
    counters = TrafficCounters("relay", clock, 60)
    counters.add("forwarded")
    counters.add("forwarded", 2)
    assert await counters.step() == 0
    await clock.advance(60)
    counters.add("refused")
    assert counters.totals() == {"forwarded": 3, "refused": 1}
    assert await counters.step() == 1
    assert await counters.step() == 0
    line = json.loads(capfd.readouterr().err)
    assert (line["event"], line["service"], line["bucket_start"]) == ("traffic", "relay", 960)
    assert line["counts"] == {"forwarded": 3}
    counters.flush()
    assert json.loads(capfd.readouterr().err)["counts"] == {"refused": 1}
    assert counters.totals() == {}


def test_a_bucket_lasts_at_least_a_second() -> None:
    with pytest.raises(ValueError, match="bucket"):
        TrafficCounters("relay", SimClock(), 0)
