"""Group commit, drivers, byte budgets and logs."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import itertools
import json
import resource
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.lab.kit.clock import SimClock, settle
from infra.lab.kit.entropy import SeededEntropy
from tacit.backoff import LONGEST_PAUSE
from tacit.errors import Abort, CryptoError
from tacit.service.base.driver import run_driver
from tacit.service.base.group_commit import GroupCommitter
from tacit.service.base.log import REDACTED, get_logger, set_log_level
from tacit.service.base.memory import return_large_blocks
from tacit.service.http.limits import ByteBudget


class _Table:
    """Remembers the groups that were flushed; doubles each item; can be held up."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def flush(self, items: Sequence[int]) -> list[int]:
        await self.gate.wait()
        self.groups.append(list(items))
        if 13 in items:
            raise ValueError("unlucky")
        return [2 * item for item in items]


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_a_service_does_not_keep_what_threads_have_freed() -> None:
    assert return_large_blocks()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def fill_and_free(_number: int) -> int:
        blocks = [bytes([1]) * (15 << 20) for _ in range(4)]
        return len(blocks)

    before = resident()
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(fill_and_free, range(16))) == 64
        assert resident() - before < 32 << 20


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")
def test_large_reports_go_back_to_the_system_though_smaller_blocks_above_them_stay() -> None:
    assert return_large_blocks()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    def fill_and_free(_number: int) -> list[bytes]:
        pairs = [(bytes([1]) * 3_050_000, bytes([2]) * 17_000) for _ in range(40)]
        return [small for _, small in pairs]

    before = resident()
    with ThreadPoolExecutor(1) as pool:
        kept = list(pool.map(fill_and_free, range(2)))
        assert resident() - before < 32 << 20, f"{sum(map(len, kept))} small blocks are kept"


async def test_items_that_wait_together_are_written_together() -> None:
    table = _Table()
    committer = GroupCommitter(table.flush, 100, 0, SimClock())
    assert await asyncio.gather(*(committer.submit(item) for item in range(10))) == [2 * item for item in range(10)]
    assert table.groups == [list(range(10))]


async def test_while_one_group_is_written_the_next_one_gathers() -> None:
    table = _Table()
    table.gate.clear()
    committer = GroupCommitter(table.flush, 3, 0, SimClock())
    tasks = [asyncio.create_task(committer.submit(0))]
    await settle()
    tasks += [asyncio.create_task(committer.submit(item)) for item in range(1, 6)]
    await settle()
    table.gate.set()
    assert await asyncio.gather(*tasks) == [0, 2, 4, 6, 8, 10]
    assert table.groups == [[0], [1, 2, 3], [4, 5]]


async def test_a_group_waits_for_company_until_the_delay_or_the_limit() -> None:
    clock, table = SimClock(), _Table()
    committer = GroupCommitter(table.flush, 3, 0.005, clock)
    first = asyncio.create_task(committer.submit(1))
    await clock.advance(0.004)
    assert not first.done()
    await clock.advance(0.001)
    assert await first == 2
    await asyncio.gather(*(committer.submit(item) for item in (2, 3, 4)))
    assert table.groups == [[1], [2, 3, 4]]


async def test_enough_company_ends_the_wait() -> None:
    clock, table = SimClock(), _Table()
    committer = GroupCommitter(table.flush, 10, 3600, clock, enough=2)
    first = asyncio.create_task(committer.submit(1))
    await settle()
    assert not first.done()
    assert await committer.submit(2) == 4
    assert table.groups == [[1, 2]]


async def test_items_that_belong_together_share_a_group_and_get_their_results_in_order() -> None:
    table = _Table()
    committer = GroupCommitter(table.flush, 3, 0, SimClock())
    answers = await asyncio.gather(
        committer.submit_all([1, 2]),
        committer.submit_all([3, 4]),
        committer.submit_all([5, 6, 7, 8]),
        committer.submit(9),
    )
    assert [list(answer) if isinstance(answer, list) else answer for answer in answers] == [
        [2, 4],
        [6, 8],
        [10, 12, 14, 16],
        18,
    ]
    assert table.groups == [[1, 2], [3, 4], [5, 6, 7, 8], [9]]
    assert list(await committer.submit_all([])) == []


async def test_an_error_reaches_every_caller_of_its_group_and_no_other() -> None:
    table = _Table()
    committer = GroupCommitter(table.flush, 2, 0, SimClock())
    results = await asyncio.gather(*(committer.submit(item) for item in (1, 13, 2)), return_exceptions=True)
    assert [type(result) for result in results] == [ValueError, ValueError, int]


async def test_a_caller_that_gives_up_does_not_disturb_its_group() -> None:
    table = _Table()
    table.gate.clear()
    committer = GroupCommitter(table.flush, 10, 0, SimClock())
    impatient = asyncio.create_task(committer.submit(1))
    patient = asyncio.create_task(committer.submit(2))
    await settle()
    impatient.cancel()
    table.gate.set()
    assert await patient == 4
    assert table.groups == [[1, 2]]


async def test_closing_writes_what_waits_and_refuses_more() -> None:
    clock, table = SimClock(), _Table()
    committer = GroupCommitter(table.flush, 10, 3600, clock)
    waiting = asyncio.create_task(committer.submit(1))
    await settle()
    await committer.close()
    assert await waiting == 2
    with pytest.raises(RuntimeError, match="closed"):
        await committer.submit(2)


class _Flaky:
    """A driver that fails as long as it is told to."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.times: list[float] = []
        self.clock = SimClock(0.0)

    async def step(self) -> int:
        self.times.append(self.clock.now())
        if len(self.times) <= self.failures:
            raise CryptoError("share does not open")
        return 0


async def test_a_failing_driver_is_retried_ever_later_and_recovers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    driver = _Flaky(failures=3)
    stop = asyncio.Event()
    task = asyncio.create_task(run_driver(driver, driver.clock, SeededEntropy(1), 1.0, asyncio.Event(), stop))
    await driver.clock.advance(30.0)
    stop.set()
    await task
    pauses = [later - earlier for earlier, later in itertools.pairwise(driver.times)]
    for pause, middle in zip(pauses, (2.0, 4.0, 8.0), strict=False):
        assert 0.5 * middle <= pause < 1.5 * middle
    assert pauses[3:] == pytest.approx([1.0] * len(pauses[3:])), (
        "once a step succeeds, the next follow at the usual pace"
    )
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["failures"] for line in lines] == [1, 2, 3]
    assert lines[0]["error"] == "CryptoError: share does not open"


async def test_the_wait_after_failures_is_bounded() -> None:
    driver = _Flaky(failures=10**9)
    stop = asyncio.Event()
    task = asyncio.create_task(run_driver(driver, driver.clock, SeededEntropy(2), 30.0, asyncio.Event(), stop))
    await driver.clock.advance(40 * LONGEST_PAUSE)
    stop.set()
    await task
    pauses = [later - earlier for earlier, later in itertools.pairwise(driver.times)]
    assert len(pauses) >= 26
    assert all(0.5 * LONGEST_PAUSE <= pause < 1.5 * LONGEST_PAUSE for pause in pauses)


def test_a_byte_budget_refuses_what_does_not_fit_and_frees_what_is_done() -> None:
    budget = ByteBudget(100, SeededEntropy(5), retry_after=(2, 4))
    with budget.reserve(60), budget.reserve(40):
        waits = set()
        for _ in range(40):
            with pytest.raises(Abort) as caught, budget.reserve(1):
                pass
            assert caught.value.status == 503
            waits.add(int(caught.value.headers["Retry-After"]))
        assert waits == {2, 3, 4}
    assert budget.in_flight == 0
    with budget.reserve(100):
        assert budget.in_flight == 100


def test_a_byte_budget_needs_sensible_bounds() -> None:
    with pytest.raises(ValueError, match="positive"):
        ByteBudget(0, SeededEntropy())
    with pytest.raises(ValueError, match="positive"):
        ByteBudget(10, SeededEntropy(), retry_after=(5, 4))


def test_logs_are_json_lines_without_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    log = get_logger("leader")
    log.info(
        "upload",
        report_id="AAAA",
        reports=3,
        token="tok",
        input_share="sh",
        client_address="192.0.2.1",
        device_id="d-1",
        raw=b"bytes",
        nested={"key": "k", "count": 1},
        listed=[1, b"x"],
        odd=object(),
    )
    line = json.loads(capsys.readouterr().err)
    assert {line.pop("timestamp")[-1], line.pop("level")} == {"Z", "info"}
    assert line == {
        "service": "leader",
        "event": "upload",
        "report_id": "AAAA",
        "reports": 3,
        "token": REDACTED,
        "input_share": REDACTED,
        "client_address": REDACTED,
        "device_id": REDACTED,
        "raw": REDACTED,
        "nested": {"key": REDACTED, "count": 1},
        "listed": [1, REDACTED],
        "odd": "object",
    }


def test_foreign_errors_are_logged_by_type_only(capsys: pytest.CaptureFixture[str]) -> None:
    get_logger("leader").error("failed", error=ValueError("with a share in it"))
    assert json.loads(capsys.readouterr().err)["error"] == "ValueError"


def test_log_that_cannot_be_written_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = Path("/dev/full")
    if not device.exists():
        pytest.skip("this system has no /dev/full")
    full = device.open("w")
    monkeypatch.setattr("sys.stderr", full)
    for _ in range(200):  # more than its buffer holds
        get_logger("leader").error("store_unavailable")
    monkeypatch.undo()
    with contextlib.suppress(OSError):  # what is left in the buffer cannot be written either
        full.close()
    get_logger("leader").error("store_available")
    assert json.loads(capsys.readouterr().err)["event"] == "store_available"


def test_the_log_level_is_a_threshold(capsys: pytest.CaptureFixture[str]) -> None:
    log = get_logger("leader")
    set_log_level("warning")
    try:
        log.info("quiet")
        log.warning("loud")
    finally:
        set_log_level("info")
    assert json.loads(capsys.readouterr().err)["event"] == "loud"
