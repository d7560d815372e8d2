"""Ports for servers that start a moment later."""

from __future__ import annotations

import itertools
import socket
import subprocess
import sys

import pytest

from infra.base import free_ports as module
from infra.base.free_ports import HELD_SECONDS, PORTS, free_ports

HOLDER = """
import sys
from infra.base import free_ports as module
module._candidates = iter(module.PORTS[int(sys.argv[1]):])
print(*module.free_ports(3), flush=True)
sys.stdin.read()
"""


def let_all_go() -> None:
    for _, held in module._held:
        held.close()
    module._held.clear()


@pytest.fixture(autouse=True)
def none_is_held() -> None:
    let_all_go()


def listens_nowhere(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0


def test_ports_that_another_process_was_just_given_are_not_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    start = 7_000
    command = [sys.executable, "-c", HOLDER, str(start)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = [int(word) for word in other.stdout.readline().split()]
        monkeypatch.setattr(module, "_candidates", iter(PORTS[start:]))
        ours = free_ports(3)
        other.communicate()
    assert len({*ours, *theirs}) == 6
    assert all(map(listens_nowhere, [*ours, *theirs]))
    monkeypatch.setattr(module, "_candidates", iter(PORTS[start:]))
    assert free_ports(3) == theirs, "they are free again once that process has ended; ours are still held"


def test_a_port_is_held_for_a_while_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_ports(3)
    let_all_go()
    now = itertools.count(1000.0, HELD_SECONDS)
    monkeypatch.setattr("infra.base.free_ports.time.monotonic", lambda: next(now))
    monkeypatch.setattr(module, "_candidates", itertools.cycle(ports))
    first = free_ports(1)
    assert first != free_ports(1)
    assert len(module._held) <= 2
