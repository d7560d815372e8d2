"""Restarts services that die, after a pause and a limited number of times.

Each failure in a row doubles the pause. A service that fails ``MOST_FAILURES`` times within ``WINDOW_SECONDS``, or
reports that another start would make things worse (exit code 78), is given up; the others continue without it.
"""

from __future__ import annotations

import asyncio
import shlex
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from infra.stacks.layout import Layout
from infra.stacks.processes import ServiceProcess, write_pids
from tacit.errors import UsageError
from tacit.ports import Clock

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
MOST_FAILURES, WINDOW_SECONDS = 5, 300.0
FAILED, NEVER_AGAIN = 1, 78
"""Exit codes: failed, and failed in a way that trying again makes worse."""


@dataclass
class Failures:
    """The times of a service's recent failures (POSIX seconds)."""

    _times: deque[float] = field(default_factory=deque)

    def pause(self, now: float) -> float | None:
        """Record a failure at ``now``, and return the seconds until the next start, or ``None`` to give up."""
        self._times.append(now)
        while self._times[0] <= now - WINDOW_SECONDS:
            self._times.popleft()
        if len(self._times) >= MOST_FAILURES:
            return None
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (len(self._times) - 1))

    def forget(self) -> None:
        """Forget all failures, because a person started the service."""
        self._times.clear()


@dataclass
class Reviving:
    """Restarts the services of ``layout`` when they end. ``restart``: the command for a person to do so, with ``{}``
    for the service; ``given_up``: the exit statuses of services that are not restarted, by title."""

    layout: Layout
    services: Sequence[ServiceProcess]
    clock: Clock
    say: Callable[[str], None]
    restart: str
    given_up: dict[str, int] = field(default_factory=dict)

    @property
    def exit_code(self) -> int:
        """Exit code for the command that ran the services: not 0 if a service was given up."""
        if not self.given_up:
            return 0
        return NEVER_AGAIN if NEVER_AGAIN in self.given_up.values() else FAILED

    async def run(self) -> None:
        """Watch all services until cancelled."""
        await asyncio.gather(*map(self._watch, self.services))

    async def _watch(self, service: ServiceProcess) -> None:
        failures = Failures()
        while True:
            status = await service.ended()
            pause = None if status == NEVER_AGAIN else failures.pause(self.clock.now())
            if pause is None:
                self._give_up(service, status)
                await service.started_again()
                self.given_up.pop(service.title, None)
                failures.forget()
                continue
            self.say(f"{_how(service, status)}; starting it again in {pause:.0f} s\n  its log: {service.log}")
            await self.clock.sleep(pause)
            if not service.held:
                await self._start(service)

    async def _start(self, service: ServiceProcess) -> None:
        try:
            await service.start(self.layout)
        except UsageError as error:
            if service.runs and not service.held:  # it hangs; killing it makes the next failure
                service.kill()
            self.say(str(error))
            return
        self.say(f"{service.title} is running again (pid {service.pid})")
        write_pids(self.layout.state_dir, [one for one in self.services if one.runs])

    def _give_up(self, service: ServiceProcess, status: int) -> None:
        self.given_up[service.title] = status
        why = (
            "another start would make it worse"
            if status == NEVER_AGAIN
            else f"it failed {MOST_FAILURES} times within {WINDOW_SECONDS / 60:.0f} minutes"
        )
        words = service.last_words().removeprefix("tacit: ")
        said = f"\n  it said: {words}" if words else ""
        self.say(
            f"{_how(service, status)}; {why}, so it is not started again{said}\n  its log: {service.log}\n"
            f"  once the cause is gone: {self.restart.format(shlex.quote(service.title))}"
        )
        if not any(one.runs for one in self.services):
            self.say("no service is running any more; Ctrl-C ends this command")


def _how(service: ServiceProcess, status: int) -> str:
    how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"{service.title} (pid {service.pid}) {how}"
