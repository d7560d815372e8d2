"""Watches whether the services of a stack are ready, and reports changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infra.stacks.api import verified_log
from infra.stacks.command_options import policy_of
from infra.stacks.layout import Layout
from infra.stacks.workers import Part
from tacit.errors import TacitError
from tacit.operations.status import ProcessStatus, process_status
from tacit.ports import Clock, TransportError

LOOK_SECONDS = 3.0
ANSWER_SECONDS = 10.0
LOOKS = 2
"""Failed looks in a row before a service counts as not ready, so that a quick restart is not reported."""
START_SECONDS = 60.0
"""For how long a service that was never ready may still be waiting for the others."""
KEYS_SECONDS = 0.2
"""Pause between two reads of the log while its first token keys are awaited."""


@dataclass
class _Known:
    """One service: how many looks in a row found it not ready, what was reported, and whether it was ever ready."""

    failed: int = 0
    said: str = ""
    was_ready: bool = False


class Changes:
    """Decides which observations are worth reporting."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._known: dict[str, _Known] = {}

    def news(self, found: ProcessStatus, now: float, *, ended: bool = False) -> str:
        """Return one line to report, or an empty text. ``ended``: the process has ended, as is reported elsewhere."""
        known = self._known.setdefault(found.name, _Known())
        if found.ready:
            line = f"{found.name} is ready again" if known.said else ""
            self._known[found.name] = _Known(was_ready=True)
            return line
        known.failed += 1
        starting = not known.was_ready and now - self._began < START_SECONDS
        if starting or known.failed < LOOKS or known.said:
            return ""
        known.said = "it has ended" if ended else found.detail
        how = "is not ready" if found.up else "does not answer"
        return "" if ended else f"{found.name} {how}: {found.detail}"


async def watch_readiness(
    layout: Layout,
    parts: Sequence[Part],
    clock: Clock,
    say: Callable[[str], None],
    ended: Callable[[Part], bool] = lambda _part: False,
) -> None:
    """Check every ``LOOK_SECONDS`` until cancelled, and pass each change to ``say``. ``ended`` tells whether a part's
    process is known to have ended."""
    changes = Changes(clock.now())
    async with layout.transport(timeout=ANSWER_SECONDS) as transport:
        while True:
            looks = [process_status(transport, part.label, part.url) for part in parts]
            for part, found in zip(parts, await asyncio.gather(*looks), strict=True):
                if line := changes.news(found, clock.now(), ended=ended(part)):
                    say(line)
            await clock.sleep(LOOK_SECONDS)


async def until_recipes(layout: Layout, clock: Clock, seconds: float = START_SECONDS) -> bool:
    """Wait until a recipe can be made: until the log, read as devices read it, shows the token keys of the next epoch.

    It is not enough that all services answer: the issuer's directories enter the log after its first step, and readers
    see them only once the witnesses have cosigned. Returns False if that takes longer than ``seconds``.
    """
    policy, began = policy_of(layout.policy_path), clock.now()
    issuer, epoch_seconds = layout.parties.issuer.name, layout.options.epoch_seconds
    async with layout.transport(timeout=ANSWER_SECONDS) as transport:
        while True:
            with contextlib.suppress(TacitError, TransportError):
                live = await verified_log(transport, layout, policy)
                if live.directory(issuer, int(clock.now() // epoch_seconds) + 1) is not None:
                    return True
            if clock.now() - began >= seconds:
                return False
            await clock.sleep(KEYS_SECONDS)
