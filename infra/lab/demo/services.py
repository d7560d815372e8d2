"""The services of a run, in a process of their own beside the devices, which drives them step by step.

Two processes are two cores: devices and services of one run compute as much as each other. The process speaks with the
run by lines of JSON on its standard input and output, and ends when its input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from infra.base.loops import fastest_loop
from infra.lab.demo.counting import count_bundles, count_messages
from infra.lab.demo.results.result import Sighting
from infra.lab.demo.shared_clock import SharedClock
from infra.lab.kit.patience import first_of, passing
from infra.stacks.layout import load_layout
from infra.stacks.local import LocalStack
from infra.stacks.options import OPERATORS
from tacit.adapters.system import OsEntropy
from tacit.errors import Fatal, TacitError
from tacit.models.one_server import ANALYZER
from tacit.models.parties import SHUFFLER
from tacit.ports import TransportError
from tacit.service.base.log import set_log_level

NEVER = {
    "attester": "recipe, token, report",
    "issuer": "device, token, recipe",
    "relay": "contents, recipe",
    "gateway": "client address",
    "leader": "the answer, the device",
    "helper": "the answer, the device",
    "shuffler": "message contents, the device",
    "analyzer": "the true answer, the device",
}


class FollowingObserver:
    """Keeps what the services report while a device is followed, and drops everything else.

    Who will take part is not known before the coins are tossed, so several candidates are followed through the
    token phase, each under its own number, and one of them is picked later. Of tokens only those of one slot count.
    """

    def __init__(self) -> None:
        self._candidate: int | None = None
        self._report_id: str | None = None
        self._seen: dict[tuple[int, str | int | None], dict[str, Mapping[str, str | int]]] = {}
        self._aggregators: dict[str, Mapping[str, str | int]] = {}

    def saw(self, party: str, what: Mapping[str, str | int]) -> None:
        """Note what ``party`` could read of the device that acts alone. Aggregators work in batches, so theirs are told
        apart by report id."""
        if "report_id" in what:
            if what["report_id"] == self._report_id:
                self._aggregators[party] = what
        elif self._candidate is not None:
            self._seen.setdefault((self._candidate, what.get("slot")), {})[party] = what

    def follow(self, candidate: int | None) -> None:
        """From now on the device with this number acts alone; None: nobody does."""
        self._candidate = candidate

    def follow_report(self, report_id: str) -> None:
        """From now on keep what the aggregators say of this report."""
        self._report_id = report_id

    def sightings(self, candidate: int, slot: int) -> tuple[Sighting, ...]:
        """What was seen of the candidate and its token of ``slot``, in the order of a contribution's way."""
        own, token = (self._seen.get((candidate, known), {}) for known in (None, slot))
        seen = {**own, **token, **self._aggregators}
        return tuple(
            Sighting(party, OPERATORS[party], seen[party], never) for party, never in NEVER.items() if party in seen
        )


LINE_LIMIT = 1 << 20
"""The longest line between the two processes, in bytes."""
STOP_SECONDS = 20.0
ENDED = "the process of the demo's services ended by itself; run it again"
READY = 0
"""The number of the answer that nobody asked for: the services listen."""


class Services:
    """The services of the layout in ``state_dir``, as a run drives them."""

    def __init__(self, state_dir: Path, clock: Path, log_level: str) -> None:
        self._arguments = (str(state_dir), str(clock), log_level)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._number = READY
        self._is_over = False

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Services]:
        """They listen while the block runs. Raises ``Fatal`` where they do not come up."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "infra.lab.demo.services",
            *self._arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_LIMIT,
            start_new_session=True,  # it is this process that stops it: Ctrl-C goes to everybody at the terminal
        )
        if process.stdin is None or process.stdout is None:
            raise Fatal("the services have no pipes")
        self._orders = process.stdin
        ready = self._expect(READY)
        reading = asyncio.ensure_future(self._read(process.stdout))
        try:
            await ready
            yield self
        finally:
            process.stdin.close()
            await _ended(process)
            await reading

    async def step(self, *names: str) -> int:
        """Run ``LocalStack.step`` in the other process."""
        return int(await self._ask("step", *names))

    async def settle(self, *names: str) -> None:
        """Run ``LocalStack.settle`` in the other process."""
        await self._ask("settle", *names)

    @contextlib.asynccontextmanager
    async def following(self, candidate: int) -> AsyncIterator[None]:
        """The device with this number acts alone inside the block (``FollowingObserver``)."""
        await self._ask("follow", candidate)
        try:
            yield
        finally:
            await self._ask("follow", None)

    async def follow_report(self, report_id: str) -> None:
        """From now on what the aggregators say of this report is kept."""
        await self._ask("follow_report", report_id)

    async def sightings(self, candidate: int, slot: int) -> tuple[Sighting, ...]:
        """What each party saw of device ``candidate`` and of its token for slot ``slot``."""
        return tuple(Sighting(**one) for one in await self._ask("sightings", candidate, slot))

    async def count_bundles(self, task_id: bytes, devices: int) -> None:
        """Run ``counting.count_bundles`` in the other process."""
        await self._ask("count_bundles", task_id.hex(), devices)

    async def count_messages(self, task_id: bytes, messages: int, file: Path) -> None:
        """Run ``counting.count_messages`` in the other process."""
        await self._ask("count_messages", task_id.hex(), messages, str(file))

    async def _ask(self, what: str, *arguments: str | int | None) -> Any:
        if self._is_over:
            raise Fatal(ENDED)
        self._number += 1
        answer = self._expect(self._number)
        self._orders.write(json.dumps([self._number, what, arguments]).encode() + b"\n")
        return await answer

    def _expect(self, number: int) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        return answer

    async def _read(self, said: asyncio.StreamReader) -> None:
        while line := await said.readline():
            number, kind, value = json.loads(line)
            answer = self._waiting.pop(number)
            if answer.done():
                continue
            if kind == "done":
                answer.set_result(value)
            else:
                answer.set_exception(TransportError(value) if kind == "again" else Fatal(value))
        self._is_over = True
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Fatal(ENDED))
        self._waiting.clear()


async def _ended(process: asyncio.subprocess.Process) -> None:
    try:
        await asyncio.wait_for(process.wait(), STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


class _Driven:
    """Carries out orders in the process that runs the services."""

    def __init__(self, stack: LocalStack, observer: FollowingObserver) -> None:
        self._stack = stack
        self._observer = observer

    async def does(self, what: str, arguments: list[Any]) -> Any:
        """Carry out one order and return its result."""
        if what == "step":
            return await self._stack.step(*arguments)
        if what == "settle":
            return await self._stack.settle(*arguments)
        if what == "follow":
            return self._observer.follow(*arguments)
        if what == "follow_report":
            return self._observer.follow_report(*arguments)
        if what == "sightings":
            return [asdict(one) for one in self._observer.sightings(*arguments)]
        if what == "count_bundles":
            task_id, devices = arguments
            return await count_bundles(self._stack.apps[SHUFFLER], bytes.fromhex(task_id), devices)
        if what == "count_messages":
            task_id, messages, file = arguments
            return await count_messages(self._stack.apps[ANALYZER], bytes.fromhex(task_id), messages, Path(file))
        raise Fatal(f"nobody knows the order {what}")

    async def answer(self, line: bytes) -> None:
        """Carry out the order in ``line`` and tell its outcome: "done", "again" for what may pass, or "failed" with
        why."""
        number, what, arguments = json.loads(line)
        try:
            tell(number, "done", await self.does(what, arguments))
        except Exception as error:  # whoever gave the order is told, and goes on or ends
            cause = first_of(error)
            said = str(cause) if isinstance(cause, TacitError | TransportError) else f"{type(cause).__name__}: {cause}"
            tell(number, "again" if passing(cause) else "failed", said)


def tell(number: int, kind: str, value: Any) -> None:
    """One line for the run; nobody may be there any more."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps([number, kind, value]) + "\n")
        sys.stdout.flush()


async def serve(state_dir: Path, clock: Path) -> None:
    """Run the services until the input ends."""
    observer = FollowingObserver()
    stack = LocalStack(load_layout(state_dir), SharedClock(clock), OsEntropy(), observer)
    orders = asyncio.StreamReader(limit=LINE_LIMIT)
    protocol = asyncio.StreamReaderProtocol(orders)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    driven = _Driven(stack, observer)
    async with stack.running(), asyncio.TaskGroup() as group:
        tell(READY, "done", None)
        while line := await orders.readline():
            group.create_task(driven.answer(line))


def main(state_dir: str, clock: str, log_level: str) -> None:
    """Run the services; entry point of the child process."""
    set_log_level(log_level)
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        runner.run(serve(Path(state_dir), Path(clock)))


if __name__ == "__main__":
    main(*sys.argv[1:])
