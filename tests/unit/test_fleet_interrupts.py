"""Ctrl-C at a fleet: the terminal's signal reaches the one process that stops the others."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from infra.lab.devices.pool import deaf_to_interrupts, end_with_parent

INTERRUPT = 1 << (signal.SIGINT - 1)


def masks(pid: int | str) -> dict[str, int]:
    lines = (line.partition(":") for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: int(value, 16) for name, _, value in lines if name in {"SigBlk", "ShdPnd"}}


@pytest.mark.slow
def test_a_worker_is_not_interrupted_at_any_moment_of_its_start() -> None:
    process = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(60,), daemon=True)
    with deaf_to_interrupts():
        process.start()
    try:
        os.kill(int(process.pid or 0), signal.SIGINT)
        found = masks(int(process.pid or 0))
        assert found["SigBlk"] & INTERRUPT
        assert found["ShdPnd"] & INTERRUPT
        assert process.is_alive()
        assert not masks(threading.get_native_id())["SigBlk"] & INTERRUPT, "the parent hears it as before"
    finally:
        process.terminate()
        process.join()
    assert process.exitcode == -signal.SIGTERM


def starting_another(told: Connection) -> None:
    """Start a process that ends with this one, tell its id, and wait."""
    child = multiprocessing.get_context("spawn").Process(target=waiting, args=(told,))
    child.start()
    child.join()


def waiting(told: Connection) -> None:
    end_with_parent()
    told.send(os.getpid())
    time.sleep(600)


@pytest.mark.slow
def test_a_worker_ends_with_the_process_that_started_it_even_if_that_is_killed() -> None:
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    parent = context.Process(target=starting_another, args=(theirs,))
    parent.start()
    theirs.close()
    worker = mine.recv()
    assert Path(f"/proc/{worker}").exists()
    parent.kill()
    parent.join()
    with pytest.raises(EOFError):  # which waits until the worker, which holds the other end, is gone
        mine.recv()
    parent.close()
