"""Valid contributions to any number of tasks, made while they are sent: at no time are more than a few chunks ready.

The number of contributions alone says to which task each belongs, in blocks of ``BLOCK`` in turn, so that every task
gets as many. What they contain is counted where they are made.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from infra.lab.bench.loading.contributions import WORKERS, Order, enclose, make_reports, private_key
from infra.lab.devices.pool import end_with_parent
from infra.lab.devices.sealing import RequestSenders
from tacit import ohttp
from tacit.codec import unb64url
from tacit.messages import UploadRequest
from tacit.recipe.derive import task_of
from tacit.task import Task
from tacit.tokens.issuer_key import IssuerKey

CHUNK, BLOCK = 256, 16
AHEAD = 2
"""Chunks that may wait or be in work for each process that makes them."""
MOST_TASKS = 1024


@dataclass(frozen=True)
class Chunk:
    """Messages for the relay, and how often each answer was given, by (number of the task, answer)."""

    messages: Sequence[bytes] = field(repr=False)
    given: Counter[tuple[int, int]] = field(repr=False)


def share_of(start: int, size: int, tasks: int) -> Counter[int]:
    """How many of the contributions ``start`` to ``start + size`` are for each task, by the task's number."""
    return Counter((number // BLOCK) % tasks for number in range(start, start + size))


@dataclass
class Stream:
    """An endless supply of contributions to ``tasks`` tasks. ``given``: what those taken so far contain."""

    pool: ProcessPoolExecutor
    workers: int
    tasks: int
    given: Counter[tuple[int, int]] = field(default_factory=Counter)
    _next: int = 0

    async def messages(self, count: int) -> AsyncIterator[bytes]:
        """Yield ``count`` messages for the relay, in order; ``given`` counts each chunk as soon as its first message is
        yielded."""
        waiting: deque[asyncio.Future[Chunk]] = deque()
        loop, end = asyncio.get_running_loop(), self._next + count
        while self._next < end or waiting:
            while self._next < end and len(waiting) < AHEAD * self.workers:
                size = min(CHUNK, end - self._next)
                given = share_of(self._next, size, self.tasks)
                waiting.append(loop.run_in_executor(self.pool, _chunk, given, time.time()))
                self._next += size
            chunk = await waiting.popleft()
            self.given += chunk.given
            for message in chunk.messages:
                yield message


@contextlib.contextmanager
def streaming(orders: Sequence[Order]) -> Iterator[Stream]:
    """Yield a stream of contributions to the tasks of ``orders``, made by at most ``WORKERS`` processes."""
    workers = min(WORKERS, os.cpu_count() or 1)
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_know, initargs=(orders,)) as pool:
        try:
            yield Stream(pool, workers, len(orders))
        finally:
            pool.shutdown(cancel_futures=True)


_orders: list[Order] = []
"""What a process of the pool makes contributions from."""


def _know(orders: Sequence[Order]) -> None:
    end_with_parent()
    _orders.extend(orders)


@lru_cache(MOST_TASKS)
def _known(number: int) -> tuple[Task, RSAPrivateKey, ohttp.KeyConfig]:
    order = _orders[number]
    key = private_key(order.issuer_key)
    task = task_of(order.recipe, IssuerKey.from_private_key(key).token_key.spki)
    return task, key, ohttp.KeyConfig.decode(unb64url(order.gateway_key))


def _chunk(share: Counter[int], now: float) -> Chunk:
    """Make contributions dated ``now`` (POSIX seconds), as many to each task as ``share`` says."""
    messages: list[bytes] = []
    given: Counter[tuple[int, int]] = Counter()
    senders = RequestSenders(os.urandom)
    for number, count in share.items():
        task, key, config = _known(number)
        answers = [value % task.vdaf.flp.MEAS_LEN for value in os.urandom(count)]
        given.update((number, answer) for answer in answers)
        for report in make_reports(task, key, answers, task.report_time(now)):
            messages.append(enclose(task, UploadRequest((report,)).encode(), config, now, senders(config)))
    return Chunk(messages, given)
