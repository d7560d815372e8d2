"""How fast a deployment's devices see what is published, and therefore how early a recipe must be in the log."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.recipe.asking import LONGEST_SPREAD, asked_until
from tacit.recipe.model import Interval

SETTLE_SECONDS, SETTLE_SHARE = 20.0, 0.25
"""How long the log, its witnesses and the servers may take until devices can read a recipe that they accept: this many
seconds, or this share of an epoch if that is shorter."""
DEVICE_SECONDS = 0.25
"""How many seconds a machine that also does other work needs for one device to read, check and answer a recipe."""
SENDING_SECONDS = 0.1
"""The part of ``DEVICE_SECONDS`` that remains at the time of sending."""
USUAL_CHECK_IN = 60.0
QUICK_SECONDS, QUICK_EPOCH = 30, 600
"""The shortest interval in which the devices of one machine are asked, and the longest epoch of a stack whose questions
are asked so, for people who wait for the result; both in seconds."""
LEAST_EPOCH, EPOCH_SECONDS_EACH = 60, 1
"""The shortest default epoch, and how much of an epoch each device on a machine needs to fetch a token for every slot;
both in seconds."""
MOST_WORK_SHARE = 0.5
"""The largest share of an epoch that is allowed for slowed work on a busy machine; how busy it will be is a guess."""
USUALLY_BUSY = 2.0
"""How many programs may want each processor before work slows down."""


@dataclass(frozen=True)
class Pace:
    """How fast devices see a recipe. ``check_in_seconds``: the usual pause between a device's readings of the log;
    ``devices``: how many devices share one machine, 0 if each has its own; ``busy``: how many programs want each of the
    machine's processors."""

    check_in_seconds: float = USUAL_CHECK_IN
    devices: int = 0
    busy: float = 0.0

    def lead_seconds(self, epoch_seconds: int) -> float:
        """How many seconds before the last moment for deciding a recipe must be published, with epochs of this
        length."""
        settling = min(SETTLE_SECONDS, SETTLE_SHARE * epoch_seconds)
        return LONGEST_SPREAD * self.check_in_seconds + settling + self._work_seconds(epoch_seconds)

    def quick_seconds(self, epoch_seconds: int) -> float:
        """How many seconds an interval has at least in which all devices of the machine can answer."""
        sending = SENDING_SECONDS * self.devices * slowness(self.busy)
        return min(float(epoch_seconds), max(float(QUICK_SECONDS), sending))

    def _work_seconds(self, epoch_seconds: int) -> float:
        work = DEVICE_SECONDS * self.devices
        return max(work, min(work * slowness(self.busy), MOST_WORK_SHARE * epoch_seconds))

    def reaches(self, interval: Interval, epoch_seconds: int, now: float) -> bool:
        """Whether every running device decides in time on a recipe that is published ``now`` (POSIX seconds)."""
        return now + self.lead_seconds(epoch_seconds) <= asked_until(interval)


USUAL_PACE = Pace()
"""The pace of devices that read the log once a minute, each on its own machine."""


def default_epoch_seconds(devices: int, busy: float = 0.0) -> int:
    """The epoch length, in seconds, of a new stack with ``devices`` devices on its machine, if ``busy`` programs
    already want each processor: whole minutes, at least one."""
    return max(LEAST_EPOCH, 60 * math.ceil(devices * EPOCH_SECONDS_EACH * slowness(busy) / 60))


def slowness(busy: float) -> float:
    """How many times as long as usual work takes if ``busy`` programs want each processor."""
    return max(1.0, busy / USUALLY_BUSY)
