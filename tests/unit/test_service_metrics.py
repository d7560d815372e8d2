"""What a service shows of its counts, and that nothing about one device is in it."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.tools.documents.metrics import METRICS
from infra.tools.documents.writing import metrics_page
from tacit.service import metrics as module
from tacit.service.metrics import GRANULARITY, LEVEL_WINDOWS, WINDOW_SECONDS, Coarse, Metrics, Reading

ROOT = Path(__file__).resolve().parents[2]
GRAIN = 4
"""The granularity of the enumerations; the code does not care which it is."""
ONE = ("tacit_reports_counted_total", (), 0)


class Offsets:
    """Entropy whose draws, taken modulo the granularity, are these."""

    def __init__(self, offsets: Sequence[int]) -> None:
        self._left = iter(offsets)

    def __call__(self, length: int, /) -> bytes:
        return next(self._left).to_bytes(length, "big")


@pytest.fixture
def fine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRANULARITY", GRAIN)


Strategy = Callable[[tuple[int, ...]], int]
"""Of an adversary: what was shown so far -> how many events of its own it adds in the next window."""


class ManualClock:
    """A clock whose time the test sets."""

    def __init__(self) -> None:
        period = WINDOW_SECONDS * LEVEL_WINDOWS
        self.time = 1_700_000_000 // period * period + 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


def shown_by(strategy: Strategy, device_in: int | None, windows: int, offsets: Sequence[int]) -> tuple[int, ...]:
    """What an adversary who scrapes in every window sees of the real counts. ``device_in``: the window in which the one
    device reports, or none."""
    clock = ManualClock()
    coarse = Coarse(clock, Offsets(offsets))
    seen: tuple[int, ...] = ()
    for window in range(windows):
        for _ in range(strategy(seen) + (window == device_in)):
            coarse.add(ONE)
            clock.time += 0.01
            assert coarse.shown().get(ONE, 0) == (seen[-1] if seen else 0), "a window is shown when it is over"
        clock.time = (clock.time // WINDOW_SECONDS + 1) * WINDOW_SECONDS
        seen += (coarse.shown().get(ONE, 0),)
    return seen


def distribution(strategy: Strategy, device_in: int | None, windows: int) -> Counter[tuple[int, ...]]:
    """How many of all offsets lead to each exposition."""
    every = itertools.product(range(GRAIN), repeat=windows)
    return Counter(shown_by(strategy, device_in, windows, offsets) for offsets in every)


def distance(one: Mapping[tuple[int, ...], int], other: Mapping[tuple[int, ...], int], total: int) -> Fraction:
    """Total variation: by how much any test of an adversary tells one world from the other at best."""
    keys = {*one, *other}
    return sum((Fraction(abs(one.get(key, 0) - other.get(key, 0)), 2 * total) for key in keys), Fraction(0))


def below_the_crossing(seen: tuple[int, ...]) -> int:
    """Finds, with events of its own, where an offset that stays would cross, then waits one below."""
    crossed = bool(seen) and seen[-1] > 0
    return GRAIN - 1 if crossed else 1


STRATEGIES: list[Strategy] = [
    *(lambda _seen, own=own: own for own in range(GRAIN + 1)),
    below_the_crossing,
    lambda seen: (7 * sum(seen) + len(seen)) % (2 * GRAIN),
]


@pytest.mark.usefixtures("fine")
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_one_report_changes_what_is_ever_seen_with_one_chance_in_the_granularity(strategy: Strategy) -> None:
    """All offsets are enumerated; the adversary sees every window and chooses its own events by what it saw."""
    windows, total = 4, GRAIN**4
    without = distribution(strategy, None, windows)
    for device_in in range(windows):
        with_it = distribution(strategy, device_in, windows)
        assert distance(without, with_it, total) <= Fraction(1, GRAIN)
        # in which window it reports is no better to be seen than whether
        other = distribution(strategy, (device_in + 1) % windows, windows)
        assert distance(with_it, other, total) <= Fraction(2, GRAIN)


@pytest.mark.usefixtures("fine")
def test_the_bound_is_met_and_an_offset_that_stays_would_not_keep_it() -> None:
    assert distance(distribution(lambda _: 0, None, 1), distribution(lambda _: 0, 0, 1), GRAIN) == Fraction(1, GRAIN)

    def fixed(device: bool, offset: int) -> bool:
        """Whether the report is seen by who adds one event after another until the first crossing, and then waits."""
        to_first = GRAIN - offset
        before_next = to_first + GRAIN - 1
        return (before_next + device + offset) // GRAIN > (before_next + offset) // GRAIN

    assert all(fixed(True, offset) and not fixed(False, offset) for offset in range(GRAIN))


@pytest.mark.usefixtures("fine")
@given(counts=st.lists(st.integers(0, 12), min_size=1, max_size=4), device_in=st.integers(0, 3), data=st.data())
def test_two_histories_that_differ_in_one_report_look_alike_unless_its_window_crosses(
    counts: list[int], device_in: int, data: st.DataObject
) -> None:
    offsets = data.draw(st.lists(st.integers(0, GRAIN - 1), min_size=4, max_size=4))
    place = device_in % len(counts)
    drawn: Iterator[int] = iter(offsets)
    used = [next(drawn) if count or at == place else 0 for at, count in enumerate(counts)]

    def history(device: bool) -> tuple[int, ...]:
        clock, seen = ManualClock(), []
        coarse = Coarse(clock, lambda length: b"")
        for at, count in enumerate(counts):
            coarse._entropy = Offsets([used[at]])
            for _ in range(count + (device and at == place)):
                coarse.add(ONE)
            clock.time += WINDOW_SECONDS
            seen.append(coarse.shown().get(ONE, 0))
        return tuple(seen)

    crosses = (counts[place] + used[place] + 1) % GRAIN == 0
    assert (history(True) == history(False)) is not crosses
    if crosses:
        assert [b - a for a, b in zip(history(False), history(True), strict=True)] == [
            GRAIN if at >= place else 0 for at in range(len(counts))
        ]


@pytest.mark.usefixtures("fine")
@pytest.mark.parametrize("events", range(10))
def test_what_is_shown_is_right_on_average(events: int) -> None:
    shown = [shown_by(lambda _: events, None, 1, [offset])[0] for offset in range(GRAIN)]
    assert sum(shown) == GRAIN * events
    assert all(number % GRAIN == 0 for number in shown)


def numbers(page: bytes, name: str) -> dict[str, float]:
    found = re.findall(rf"^{name}(\{{.*\}})? (\S+)$", page.decode(), re.MULTILINE)
    return {labels: float(number) for labels, number in found}


async def test_a_page_of_many_requests_and_one_without_one_of_them_are_the_same_bytes() -> None:
    async def page(requests: int) -> bytes:
        clock = SimClock()
        metrics = Metrics(clock, SeededEntropy(7))
        metrics.declare(*METRICS.values())
        metrics._sources.clear()  # of the process: they are of no request
        for number in range(requests):
            metrics.answered("/tasks/{task_id}/reports", 200, 0.02)
            metrics.answered("/hpke_config", 404, 3.0 if number % 2 else 0.001)
        assert await metrics.page() == b"", "nothing is seen of a window that runs, not even that a route was asked"
        await clock.advance(WINDOW_SECONDS)
        return await metrics.page()

    found = await page(1234)
    alike = [await page(1234 + more) == found for more in (1, -1)]
    assert any(alike)  # of the two at most one crosses, for one of three series
    route = 'route="/tasks/{task_id}/reports",status="2xx"'
    counts = numbers(found, "tacit_http_request_duration_seconds_count")
    assert counts[f"{{{route}}}"] in {1200.0, 1300.0}
    buckets = numbers(found, "tacit_http_request_duration_seconds_bucket")
    assert buckets[f'{{le="0.01",{route}}}'] == 0.0
    assert buckets[f'{{le="0.1",{route}}}'] == buckets[f'{{le="+Inf",{route}}}'] == counts[f"{{{route}}}"]
    assert "_sum" not in found.decode()
    assert all(number % GRANULARITY == 0 for number in (*counts.values(), *buckets.values()))


async def test_stored_counts_are_read_once_in_a_window_and_shown_as_growth() -> None:
    clock, reads = SimClock(), Counter[str]()
    stored: dict[tuple[str, ...], float] = {("token-spent",): 5000.0}
    metrics = Metrics(clock, SeededEntropy(3))
    metrics.declare(*METRICS.values())

    async def read() -> Reading:
        reads["causes"] += 1
        return dict(stored)

    metrics.add("tacit_reports_rejected_total", read)
    name = "tacit_reports_rejected_total"
    assert numbers(await metrics.page(), name) == {}, "what was there before the start is not of this process"
    stored[("token-spent",)] += 1010
    stored[("report-malformed",)] = 2000
    pages = await asyncio.gather(*(metrics.page() for _ in range(5)))
    assert reads["causes"] == 1
    assert not any(numbers(page, name) for page in pages)
    await clock.advance(WINDOW_SECONDS)
    found = numbers(await metrics.page(), name)
    assert found['{cause="token-spent"}'] in {1000.0, 1100.0}
    assert found['{cause="report-malformed"}'] == 2000.0
    del stored[("token-spent",)]
    await clock.advance(WINDOW_SECONDS)
    assert list(numbers(await metrics.page(), name)) == ['{cause="report-malformed"}']
    assert reads["causes"] == 3


async def test_a_level_is_looked_at_once_in_ten_windows_and_a_failing_source_is_left_out() -> None:
    clock = ManualClock()
    jobs: dict[tuple[str, ...], float] = {("formed",): 250.0, ("done",): 0.0}
    metrics = Metrics(clock, SeededEntropy(4))
    metrics.declare(*METRICS.values())

    async def level() -> Reading:
        return dict(jobs)

    async def broken() -> Reading:
        raise OSError("no disk")

    metrics.add("tacit_jobs", level)
    metrics.add("tacit_store_well", broken)
    first = await metrics.page()
    assert numbers(first, "tacit_jobs")['{state="formed"}'] in {200.0, 300.0}
    assert numbers(first, "tacit_jobs")['{state="done"}'] == 0.0
    assert b"tacit_store_well" not in first
    jobs[("formed",)] = 7000.0
    clock.time += WINDOW_SECONDS * LEVEL_WINDOWS - 1
    assert numbers(await metrics.page(), "tacit_jobs") == numbers(first, "tacit_jobs")
    clock.time += 1
    assert numbers(await metrics.page(), "tacit_jobs")['{state="formed"}'] == 7000.0


async def test_a_restart_is_no_further_look_at_a_level(tmp_path: Path) -> None:
    clock, looks = SimClock(6_000.0), list[int]()

    async def waiting() -> Reading:
        looks.append(1)
        return {(): 250 + len(looks)}

    async def shown(file: Path) -> bytes:
        metrics = Metrics(clock, SeededEntropy(len(looks)))
        metrics.declare(*METRICS.values())
        metrics.keep(file)
        metrics.add("tacit_reports_waiting", waiting)
        return next(line for line in (await metrics.page()).splitlines() if line.startswith(b"tacit_reports_waiting "))

    file = tmp_path / "levels.json"
    first = await shown(file)
    for _ in range(5):
        assert (await shown(file), len(looks)) == (first, 1)
    await clock.advance(600)
    await shown(file)
    assert len(looks) == 2
    for damage in ("", "[[1]]", '[["tacit_reports_waiting", "x", [[[], 7]]]]', "{", '[["none", 1, []]]'):
        before = len(looks)
        file.write_text(damage)
        await shown(file)
        assert len(looks) == before + 1
    away = tmp_path / "none" / "levels.json"
    metrics = Metrics(clock, SeededEntropy(1))
    metrics.declare(*METRICS.values())
    metrics.keep(away)
    metrics.add("tacit_reports_waiting", waiting)
    assert b"tacit_reports_waiting " not in await metrics.page(), "what cannot be kept is not shown"


async def test_what_the_database_holds_is_shown_by_one_process_of_several() -> None:
    async def read() -> Reading:
        return {(): 70_000.0}

    for own_only in (False, True):
        metrics = Metrics(SimClock(0.0), SeededEntropy(1))
        metrics.declare(*METRICS.values())
        metrics.add("tacit_batches_released", read, shared=True)
        if own_only:
            metrics.only_own()
        assert (b"tacit_batches_released 70000" in await metrics.page()) is not own_only


async def test_two_applications_of_one_process_have_registries_of_their_own() -> None:
    clock = SimClock()
    one, other = Metrics(clock, SeededEntropy(1)), Metrics(clock, SeededEntropy(2))
    for _ in range(500):
        one.answered("/only-here", 200, 0.0)
    await clock.advance(WINDOW_SECONDS)
    assert b"/only-here" in await one.page()
    assert b"/only-here" not in await other.page()


def test_the_document_lists_every_metric_as_it_is() -> None:
    page = metrics_page()
    for name, one in METRICS.items():
        (row,) = (line for line in page.splitlines() if line.startswith(f"| `{name}` | "))
        cells = row.removesuffix(" |").split(" | ")
        assert (cells[1], cells[3], cells[5]) == (one.type, one.rule.value, one.about)
