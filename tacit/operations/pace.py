"""How fast a deployment's devices take up what is published: by when a recipe has to be in the log."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.recipe.asking import LONGEST_SPREAD, asked_until
from tacit.recipe.model import Interval

SETTLE_SECONDS, SETTLE_SHARE = 20.0, 0.25
"""What a log, its witnesses and the servers may take until devices can read a recipe that they accept: so many seconds,
or this share of an epoch."""
DEVICE_SECONDS = 0.25
"""In which a machine that is busy with other work, too, takes one device through reading, checking and answering."""
USUAL_CHECK_IN = 60.0
LEAST_EPOCH, EPOCH_SECONDS_EACH = 60, 1
"""The shortest default epoch, and how much of one each device of a machine needs: it fetches a token for every slot."""
MOST_WORK_SHARE = 0.5
"""Of an epoch, what is left for work on a machine that is busy: how busy it will be is a guess."""
USUALLY_BUSY = 2.0
"""Programs that want each processor up to which that suffices; with more of them everything takes longer."""


@dataclass(frozen=True)
class Pace:
    """``check_in_seconds``: the usual pause between two looks of a device at the log; ``devices``: how many share one
    machine, 0 where each has its own; ``busy``: how many programs want each of its processors."""

    check_in_seconds: float = USUAL_CHECK_IN
    devices: int = 0
    busy: float = 0.0

    def lead_seconds(self, epoch_seconds: int) -> float:
        """How long before the last moment for deciding a recipe has to be published, where epochs are so long."""
        settling = min(SETTLE_SECONDS, SETTLE_SHARE * epoch_seconds)
        work = DEVICE_SECONDS * self.devices
        slowed = max(work, min(work * slowness(self.busy), MOST_WORK_SHARE * epoch_seconds))
        return LONGEST_SPREAD * self.check_in_seconds + settling + slowed

    def reaches(self, interval: Interval, epoch_seconds: int, now: float) -> bool:
        """Whether every device that runs decides in time on what is published ``now`` (POSIX seconds)."""
        return now + self.lead_seconds(epoch_seconds) <= asked_until(interval)


USUAL_PACE = Pace()
"""Of devices that look at the log once a minute, each on a machine of its own."""


def default_epoch_seconds(devices: int, busy: float = 0.0) -> int:
    """The epoch of a new stack with so many devices on its machine, for each of whose processors ``busy`` programs wait
    already: whole minutes, at least one."""
    return max(LEAST_EPOCH, 60 * math.ceil(devices * EPOCH_SECONDS_EACH * slowness(busy) / 60))


def slowness(busy: float) -> float:
    """How many times as long as usual work takes where ``busy`` programs want each processor."""
    return max(1.0, busy / USUALLY_BUSY)
