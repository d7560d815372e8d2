"""Orders of people to the services of a running deployment: to stop, to start, to restart one after another.

An order is a file in the deployment's folder. The process that runs the services finds it, carries it out, and writes
the answer next to it. Nothing listens for orders; everyone who may write the folder may give one.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from infra.stacks.layout import Layout
from infra.stacks.options import OPERATORS, organisation_of
from infra.stacks.processes import Started, write_pids
from tacit.errors import TacitError, UsageError
from tacit.operations.status import process_status
from tacit.ports import Clock, TransportError

FOLDER = "orders"
ORDER, ANSWER = ".order", ".answer"
LOOK_SECONDS = 0.25
READY_SECONDS = 120.0
ANSWER_SECONDS = 10.0
_LOOKS = 2
"""Number of successive good answers after which a service counts as ready: the first may be from before it checked its
database."""


class Act(enum.StrEnum):
    STOP = "stop"
    START = "start"
    RESTART = "restart"


class Service(Started, Protocol):
    """Something that orders apply to: a process of this machine, or a container."""

    @property
    def name(self) -> str:
        """The name of the service's kind."""

    @property
    def title(self) -> str:
        """The name that people use for it."""

    @property
    def runs(self) -> bool:
        """Whether it ran at the last call of ``look``, or later."""

    async def look(self) -> None:
        """Find out whether the service runs."""

    async def stop(self) -> None:
        """Tell it to stop, and wait until it has ended. A service that has ended stays stopped."""

    async def start(self, layout: Layout, also: Sequence[str] = ()) -> None:
        """Start it, adding ``also`` to the arguments of ``tacit serve`` this once, and return once it answers. Raises
        ``UsageError`` if it does not."""

    def last_words(self) -> str:
        """The last line of the service's log."""


@dataclass(frozen=True)
class Order:
    """``services``: labels of services and names of organisations; all services if empty. ``also``: additional
    arguments of ``tacit serve``, this once."""

    act: Act
    services: Sequence[str] = ()
    also: Sequence[str] = ()


async def carry_out_orders(layout: Layout, services: Sequence[Service], clock: Clock) -> None:
    """Look for orders, carry out and answer each, until cancelled; orders of an earlier run are dropped."""
    folder = layout.state_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in _files(folder):
        path.unlink()
    while True:
        for path in _files(folder, ORDER):
            answer = await _answer(layout, services, path, clock)
            path.unlink(missing_ok=True)
            _write(path.with_suffix(ANSWER), answer)
        await clock.sleep(LOOK_SECONDS)


async def give_order(state_dir: Path, order: Order, runs: Callable[[], bool], clock: Clock) -> dict[str, Any]:
    """Give ``order`` to the deployment in ``state_dir`` and return its answer. Raises ``UsageError`` with the error
    that the order met, and if the deployment ends meanwhile (``runs``)."""
    path = state_dir / FOLDER / f"{time.time_ns()}-{os.getpid()}{ORDER}"
    _write(path, {**asdict(order), "services": list(order.services), "also": list(order.also)})
    answer = path.with_suffix(ANSWER)
    try:
        while (found := _read_answer(answer)) is None:
            if not runs():
                raise UsageError(f"{state_dir}: the deployment has ended")
            await clock.sleep(LOOK_SECONDS)
    finally:
        path.unlink(missing_ok=True)
        answer.unlink(missing_ok=True)
    if "error" in found:
        raise UsageError(found["error"])
    return found


async def _answer(layout: Layout, services: Sequence[Service], path: Path, clock: Clock) -> dict[str, Any]:
    """Carry out the order in ``path``; returns the answer."""
    done: list[str] = []
    try:
        order = _read(path)
        for service in chosen(services, order.services):
            await _carry_out(layout, service, order, clock)
            done.append(service.title)
    except (TacitError, OSError, ValueError, KeyError, TypeError) as error:
        words = f"; done before it: {', '.join(done)}" if done else ""
        return {"error": f"{error}{words}"}
    finally:
        await asyncio.gather(*(service.look() for service in services))
        write_pids(layout.state_dir, [service for service in services if service.runs])
    return {"services": {service.title: service.pid if service.runs else None for service in services}, "done": done}


async def _carry_out(layout: Layout, service: Service, order: Order, clock: Clock) -> None:
    """Apply an order to one service. Raises ``UsageError`` if the service does not become ready."""
    await service.look()
    # one that is about to end, as it was started without what it needs, must not pass for one that runs
    ends_soon = order.also and service.runs and not await _is_able(layout, service)
    if order.act is not Act.START or ends_soon:
        await service.stop()
    if order.act is not Act.STOP and not service.runs:
        await service.start(layout, order.also)
        await _until_able(layout, service, clock)


async def _until_able(layout: Layout, service: Service, clock: Clock) -> None:
    """Wait until the service says that it can do its work. It may be unable to while another service is stopped, so
    only a service that ends is an error."""
    until, looks = clock.now() + READY_SECONDS, 0
    while looks < _LOOKS and clock.now() < until:
        await service.look()
        if not service.runs:
            raise UsageError(f"{service.title} has ended: {service.last_words().removeprefix('tacit: ')}")
        looks = looks + 1 if await _is_able(layout, service) else 0
        await clock.sleep(LOOK_SECONDS)


async def _is_able(layout: Layout, service: Service) -> bool:
    """Whether the service says that it can do its work."""
    with contextlib.suppress(TransportError):
        async with layout.transport(timeout=ANSWER_SECONDS) as transport:
            parts = service.part.services
            return all([(await process_status(transport, part.label, part.url)).ready for part in parts])
    return False


def chosen(services: Sequence[Service], names: Sequence[str]) -> list[Service]:
    """The services that ``names`` (labels or organisations) mean, in the order in which they are started; all if there
    are no names. Raises ``UsageError`` for a name that means none."""
    known = {service.title: {service.title, service.name, _organisation(service)} for service in services}
    for name in names:
        if not any(name in meant for meant in known.values()):
            raise UsageError(f"no service or organisation is called {name}; there are {', '.join(known)}")
    return [service for service in services if not names or known[service.title] & set(names)]


def _organisation(service: Service) -> str:
    folder = service.part.config.parent.name
    return organisation_of(folder) if folder in OPERATORS else folder


def _files(folder: Path, suffix: str = "") -> list[Path]:
    return sorted(folder.glob(f"*{suffix}"))


def _read(path: Path) -> Order:
    body = json.loads(path.read_text("utf-8"))
    return Order(Act(body["act"]), tuple(body["services"]), tuple(body["also"]))


def _read_answer(path: Path) -> dict[str, Any] | None:
    """The answer in ``path``; None while there is none, as it appears whole."""
    with contextlib.suppress(FileNotFoundError):
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found
    return None


def _write(path: Path, document: Mapping[str, Any]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(document), "utf-8")
    draft.replace(path)
