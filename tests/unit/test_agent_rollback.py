"""A device whose journal was put back from a backup."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from client_agent.config import AgentConfig
from client_agent.journal import Entry, Prefetch, State
from client_agent.runner import DATABASE, MARK, open_store
from client_agent.store import SqlAgentStore
from infra.lab.kit.clock import SimClock
from tacit.errors import UsageError
from tacit.tokens.slots import Slot

SLOT = Slot("issuer.example", 7, 0)
CLOCK = SimClock(1_000_000.0)


def settings(folder: Path) -> AgentConfig:
    return cast(AgentConfig, SimpleNamespace(state_dir=folder))


async def decided(folder: Path, *hashes: bytes) -> None:
    """A start of the device that decides about these recipes."""
    store = await open_store(settings(folder), CLOCK)
    for one in hashes:
        assert await store.decide(Entry(one, "visits", State.NOT_SAMPLED, CLOCK.now()))
    await store.close()


async def test_a_restored_journal_never_randomises_again_under_the_same_token(tmp_path: Path) -> None:
    database, backup = tmp_path / DATABASE, tmp_path / "backup.sqlite3"
    store = await open_store(settings(tmp_path), CLOCK)
    await store.put_prefetch(Prefetch(SLOT, 0.0, b"k", b"p", b"", b"token"))
    await store.close()
    shutil.copy(database, backup)
    store = await open_store(settings(tmp_path), CLOCK)
    sent: dict[str, Any] = {"slot": SLOT, "report": b"first", "charged_epsilon": "1"}
    assert await store.decide(Entry(b"r" * 32, "visits", State.SCHEDULED, CLOCK.now(), **sent), SLOT)
    await store.close()
    shutil.copy(backup, database)
    unmarked = await SqlAgentStore.open(database)
    (held,) = await unmarked.prefetches()
    await unmarked.close()
    assert held.usable, "by itself it would spend the token again, on another draw, and charge nothing for the first"
    with pytest.raises(UsageError, match="older than what this device has decided") as refused:
        await open_store(settings(tmp_path), CLOCK)
    assert "\n" not in str(refused.value)


async def test_a_journal_that_is_lost_or_left_without_its_mark_is_refused_and_its_own_is_not(tmp_path: Path) -> None:
    await decided(tmp_path, b"1" * 32)
    await decided(tmp_path, b"2" * 32, b"3" * 32)
    (tmp_path / MARK).rename(tmp_path / "aside")
    with pytest.raises(UsageError, match="the mark itself is lost"):
        await open_store(settings(tmp_path), CLOCK)
    (tmp_path / "aside").rename(tmp_path / MARK)
    await decided(tmp_path, b"4" * 32)
    for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with pytest.raises(UsageError, match="older than what this device has decided"):
        await open_store(settings(tmp_path), CLOCK)


async def test_a_journal_from_before_there_were_marks_gets_one(tmp_path: Path) -> None:
    store = await open_store(settings(tmp_path))
    assert await store.decide(Entry(b"0" * 32, "old", State.NOT_SAMPLED, 0.0))
    await store.close()
    await decided(tmp_path, b"1" * 32)
    assert (tmp_path / MARK).stat().st_mode & 0o777 == 0o600


async def test_a_full_disk_is_not_taken_for_a_lost_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_draft: Path, _path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", full)
        with pytest.raises(UsageError, match=r"agent\.mark: No space left on device$"):
            await open_store(settings(tmp_path), CLOCK)
    await decided(tmp_path, b"1" * 32)
