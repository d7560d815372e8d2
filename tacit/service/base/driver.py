"""Background work that runs in bounded steps.

A ``Driver`` does one bounded piece of work per ``step()``. Production runs it in ``run_driver``; tests and the
simulation call ``step()`` themselves, so nothing happens in the background there.

``run_driver`` has all that every loop needs: the wait for work or a wake-up, the pause after a step that failed, the
report of failures in a row, and the end between two steps. Where a step works on rows that fail one by one, each row
records its own failures and is due again after a ``Backoff``, so that no row holds up another. What is left differs:

==================  ====================  ===========================  ==============================================
driver              who may do it         at a time                    an item that fails
==================  ====================  ===========================  ==============================================
Leader's workers    the lease's holder    ``concurrent_jobs``, half    due later; split if it kills workers; ended
                                          of them for one Helper       after the grace, or by an invalid answer
Leader's jobs       the leading process   one task                     the step fails
Leader's            the leading process   one                          due later; ended by a final refusal
collections
collector           its process           one, polls beside each       due later; ended by a final refusal
                                          other
collector, results  its process           one                          offered again after all others; the step fails
analyzer, releases  any; the transaction  one                          a refusal is final; others at the next step
                    decides
shuffler            any; the transaction  one recipe                   the recipe is due later
                    decides
gateway, key sets   every process         one                          at the next step
issuer, leaves      its process           one                          the step fails
recipe server,      its process           all whose rounds are over    the step fails
model files
==================  ====================  ===========================  ==============================================
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from tacit.adapters.waiting import first_of
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.ports import Clock, Entropy, TransportError
from tacit.service.base.log import get_logger


class Driver(Protocol):
    """One kind of background work of a service."""

    async def step(self) -> int:
        """Do what is due, at most one bounded batch. Returns how many items moved on; 0 means idle."""
        ...


def _ignore(_error: Exception | None, _failures: int) -> None:
    """Ignore the outcome; for drivers whose owner does not need it."""


async def run_driver(
    driver: Driver,
    clock: Clock,
    entropy: Entropy,
    idle_seconds: float,
    wake: asyncio.Event,
    stop: asyncio.Event | None = None,
    told: Callable[[Exception | None, int], None] = _ignore,
    again: asyncio.Event | None = None,
) -> None:
    """Run ``driver`` until ``stop`` is set (between two steps) or the task is cancelled.

    After a step that processed something the next follows at once; after an idle one the loop waits for ``wake`` or
    ``idle_seconds``. A step that raises is logged by the name of its error and retried after a pause: around twice
    ``idle_seconds``, doubled with each failure in a row up to ``LONGEST_PAUSE``, or as long as a peer asked for.
    ``told`` is called after every step with its error, or None, and the number of failures in a row. Setting ``again``
    makes it retry at once, whatever the pause; only an operator does this, never a device.
    """
    stop, again = stop or asyncio.Event(), again or asyncio.Event()
    logger = get_logger("driver")
    backoff = Backoff(2.0 * idle_seconds, LONGEST_PAUSE)
    failures = 0
    while not stop.is_set():
        wake.clear()
        again.clear()
        try:
            moved = await driver.step()
        except Exception as error:  # a driver outlives every error of one step
            asked = error.retry_after if isinstance(error, TransportError) else 0.0
            delay = backoff.pause(failures, entropy, asked)
            failures += 1
            logger.warning("driver_step_failed", driver=type(driver).__name__, error=error, failures=failures)
            told(error, failures)
            await first_of(clock.sleep(delay), again.wait(), stop.wait())
            continue
        failures = 0
        told(None, failures)
        if moved:
            await asyncio.sleep(0)
        else:
            await first_of(clock.sleep(idle_seconds), wake.wait(), again.wait(), stop.wait())
