"""When the Leader's coordinator is told to look, by what this process and others have stored."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

import pytest

from infra.lab.kit.entropy import SeededEntropy
from services.leader import arrivals
from services.leader.arrivals import TOPIC, Arrivals
from services.leader.store import LeaderStore
from tacit.adapters.databases.signals import Signals, Wakeup
from tacit.codec import b64url

TASK, OTHER = b"t" * 32, b"o" * 32
LONG = 3600.0


@dataclass
class Process:
    """One Leader process: its signals go to ``sent``; ``looks`` counts how often the coordinator was told to look."""

    coordinates: bool = True
    signals: Signals = field(default_factory=Signals)
    sent: list[str] = field(default_factory=list)
    looks: int = 0

    def __post_init__(self) -> None:
        self.signals.carry(self.sent.append)
        forming = Wakeup(self.signals, "forming")
        forming.handler = self._look
        self.arrivals = Arrivals(cast("LeaderStore", self), forming, SeededEntropy(1), background=True)

    def _look(self) -> None:
        self.looks += 1


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Early looks and signals come at the next turn of the loop, the others never."""
    monkeypatch.setattr(arrivals, "EARLY_SECONDS", 0.0)
    monkeypatch.setattr(arrivals, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(arrivals, "WAKE_SECONDS", LONG)


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0.001)


async def test_the_coordinator_looks_once_as_soon_as_a_full_job_is_there() -> None:
    process = Process()
    process.arrivals.begin({TASK: 9, OTHER: 9})
    process.arrivals.lacks(TASK, 3)
    process.arrivals.stored({TASK: 2, OTHER: 8})
    await turns()
    assert process.looks == 0
    process.arrivals.stored({TASK: 1})
    process.arrivals.stored({TASK: 1})
    await turns()
    assert process.looks == 1
    process.arrivals.begin({TASK: 9})
    process.arrivals.stored({TASK: 2})
    process.arrivals.stored({OTHER: 99})
    await turns()
    assert process.looks == 1, "counted anew, and a task that is over makes no job"
    process.arrivals.close()


async def test_where_more_reports_make_no_job_nobody_is_told_early() -> None:
    process = Process()
    process.arrivals.begin({TASK: 9})
    process.arrivals.lacks(TASK, 0)
    process.arrivals.stored({TASK: 5000})
    await turns()
    assert process.looks == 0
    process.arrivals.close()


async def test_a_look_that_comes_first_sees_what_another_one_was_due_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "WAKE_SECONDS", 0.0)
    process = Process()
    process.arrivals.begin({TASK: 1})
    process.arrivals.stored({TASK: 1})
    process.arrivals.begin({TASK: 1})
    await turns()
    assert process.looks == 0
    process.arrivals.close()


async def test_other_processes_tell_the_coordinator_how_many_they_stored() -> None:
    uploads, coordinator = Process(coordinates=False), Process()
    uploads.arrivals.stored({TASK: 2})
    uploads.arrivals.stored({TASK: 1})
    await turns()
    assert uploads.sent == [f"{TOPIC} {b64url(TASK)}:3"]
    coordinator.arrivals.begin({TASK: 9})
    coordinator.arrivals.lacks(TASK, 4)
    coordinator.signals.arrived(uploads.sent[0])
    await turns()
    assert coordinator.looks == 0
    coordinator.arrivals.stored({TASK: 1})
    await turns()
    assert coordinator.looks == 1
    assert uploads.looks == 0
    for one in (uploads, coordinator):
        one.arrivals.close()


@pytest.mark.parametrize("text", ["", "x", "x:y", f"{b64url(TASK)}:0", f"{b64url(TASK)}:-7", "\u00e4:1"])
async def test_a_signal_without_counts_or_with_odd_ones_only_makes_the_coordinator_look(text: str) -> None:
    process = Process()
    process.signals.arrived(f"{TOPIC} {text}")
    assert process.looks == 1
    process.arrivals.close()


async def test_more_tasks_than_a_signal_can_name_are_told_without_counts() -> None:
    process = Process(coordinates=False)
    process.arrivals.stored({bytes([number]) * 32: 1 for number in range(200)})
    await turns()
    assert process.sent == [f"{TOPIC} "]
    process.arrivals.close()
