"""The process that holds watches: driven by the clock, told of events by a local socket."""

from __future__ import annotations

import asyncio
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from client_agent.panprivate.config import WatchedEvent, WatchingConfig
from client_agent.panprivate.keeper import SOCKET, keep, opened_keeper, tell
from client_agent.panprivate.watch import ASIDE, kept_step
from infra.cli import run
from infra.lab.kit.clock import SimClock, settle
from infra.lab.kit.entropy import SeededEntropy
from tacit.errors import UsageError
from tacit.panprivate.elgamal import PrivateKey
from tacit.panprivate.single_server import Occurrences
from tacit.panprivate.stored import OneServer
from tacit.service.config import parse_config

DRAW = SeededEntropy(b"panprivate_keeper")
KEY = PrivateKey.generate(DRAW)
HEX, OTHER = KEY.public_key().element.hex(), PrivateKey.generate(DRAW).public_key().element.hex()
NOW, STEP = 1_000_000, 60
COUNTED = OneServer(Occurrences(KEY.public_key(), 4))
COMMON: dict[str, Any] = {"event": "visit", "start": NOW, "step_seconds": STEP, "steps": 3}
HISTOGRAM = COMMON | {
    "recipe": "00" * 32,
    "model": "pan-private-single",
    "statistic": "histogram",
    "k": 4,
    "keys": [HEX],
}
SHARED = COMMON | {
    "recipe": "11" * 32,
    "model": "pan-private",
    "statistic": "count",
    "keys": [HEX, OTHER],
    "context": "aa",
}


def _config(folder: Path, *watches: dict[str, Any]) -> WatchingConfig:
    return parse_config({"state_dir": str(folder), "watches": list(watches)}, WatchingConfig)


def _state_in(path: Path) -> int:
    """How often the event happened, by the newest slot."""
    data = path.read_bytes()
    step, half = kept_step(path), len(data) // 2
    (slot,) = [slot for slot in (data[:half], data[half:]) if int.from_bytes(slot[16:20], "big") == step]
    cells = slot[24 + 112 :][: COUNTED.size]
    return [KEY.decrypt_bit(cell) for cell in COUNTED.cells(COUNTED.checked(cells))].index(1)


async def test_events_that_applications_tell_are_kept_step_by_step_for_several_recipes(tmp_path: Path) -> None:
    config, clock, stop = _config(tmp_path, HISTOGRAM, SHARED), SimClock(NOW), asyncio.Event()
    told: list[str] = []
    histogram, shared = (watched.plan.path(tmp_path) for watched in config.watches)
    with opened_keeper(config, clock, DRAW, told.append) as keeper:
        running = asyncio.create_task(keep(keeper, config, clock, stop))
        await settle()
        assert stat.S_IMODE((tmp_path / SOCKET).stat().st_mode) == 0o600
        before = histogram.read_bytes()
        answers = [await asyncio.to_thread(tell, config, *said) for said in (("visit", 2), ("visit", 0), ("crash", 1))]
        assert answers == ["ok", "ok", "unknown event"]
        assert histogram.read_bytes() == before
        await clock.advance(STEP)
        assert (kept_step(histogram), kept_step(shared)) == (1, 1)
        await asyncio.to_thread(tell, config, "visit", 1)
        await clock.advance(STEP)
        stop.set()
        await running
    assert _state_in(histogram) == 3
    assert told == []
    assert not (tmp_path / SOCKET).exists()


async def test_a_line_that_is_no_record_changes_nothing(tmp_path: Path) -> None:
    config, clock, stop = _config(tmp_path, HISTOGRAM), SimClock(NOW), asyncio.Event()
    with opened_keeper(config, clock, DRAW, print) as keeper:
        running = asyncio.create_task(keep(keeper, config, clock, stop))
        await settle()
        for line in (
            b"",
            b"\n",
            b"record visit\n",
            b"record visit -1\n",
            b"record visit 257\n",
            b"forget visit 1\n",
            b"\xff\n",
        ):
            reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET)
            writer.write(line)
            writer.write_eof()
            assert await reader.read() == b"malformed\n"
            writer.close()
        reader, writer = await asyncio.open_unix_connection(tmp_path / SOCKET)
        writer.write(b"x" * 5000)
        assert await reader.read() == b""
        writer.close()
        await clock.advance(STEP)
        stop.set()
        await running
    assert _state_in(config.watches[0].plan.path(tmp_path)) == 0


def test_one_damaged_state_does_not_end_the_other_watches(tmp_path: Path) -> None:
    config, clock = _config(tmp_path, HISTOGRAM, SHARED), SimClock(NOW)
    told: list[str] = []
    with opened_keeper(config, clock, DRAW, told.append):
        pass
    damaged = config.watches[0].plan.path(tmp_path)
    damaged.write_bytes(b"")
    with opened_keeper(config, clock, DRAW, told.append) as keeper:
        assert keeper.record("visit", 1)
    assert len(told) == 1
    assert "put aside" in told[0]
    with pytest.raises(UsageError, match=ASIDE), opened_keeper(_config(tmp_path, HISTOGRAM), clock, DRAW, print):
        pass


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"k": None}, "k belongs to"),
        ({"k": 257}, "less than or equal to 256"),
        ({"keys": []}, "two keys"),
        ({"keys": ["00" * 32]}, "the identity is no public key"),
        ({"keys": ["ff" * 32]}, "canonical form"),
        ({"context": "aa"}, "context"),
        ({"model": "pan-private", "statistic": "mean", "keys": [HEX, OTHER], "context": "aa"}, "no mean"),
        ({"event": "Visit"}, "pattern"),
    ],
)
def test_a_watch_that_makes_no_sense_is_refused_in_one_line(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_config({**HISTOGRAM, **changes}, WatchedEvent)


def test_the_commands_list_state_that_does_not_depend_on_events_and_say_where_nobody_watches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "watches.json"
    file.write_text(json.dumps({"state_dir": "kept", "watches": [HISTOGRAM]}))
    assert run(["agent", "record", "visit", "--config", str(file)]) == 1
    assert "nobody watches here; start it with: tacit agent watch" in capsys.readouterr().err
    assert run(["agent", "state", "--config", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    config = _config(tmp_path / "kept", HISTOGRAM)
    with opened_keeper(config, SimClock(NOW), DRAW, print) as keeper:
        keeper.record("visit", 3)
    assert run(["agent", "state", "--config", str(file), "--json"]) == 0
    path = tmp_path / "kept" / f"{'00' * 32}.state"
    assert json.loads(capsys.readouterr().out) == [{"recipe": "00" * 32, "step": 0, "bytes": 8192, "path": str(path)}]
    path.write_bytes(b"?")
    assert run(["agent", "state", "--config", str(file)]) == 1
    assert "no state has" in capsys.readouterr().err
