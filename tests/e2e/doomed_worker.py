"""A leader process that ends itself with SIGKILL as soon as it has a job in a given stage: ``STAGE CONFIG``."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from infra.stacks.deployables import run_service
from services.leader.work import JobWork

STAGES = {
    "formed": ("_form", False),
    "prepared": ("_prepare", True),
    "sent": ("_exchange", False),
    "delivered": ("_exchange", True),
    "answered": ("_commit", False),
}
"""Stage -> the step at which the process ends, and whether that step is done first."""


def doom(stage: str) -> None:
    """End this process at the first job that comes so far."""
    name, after = STAGES[stage]
    real = getattr(JobWork, name)

    async def last(self: Any, *rest: Any, **named: Any) -> Any:
        if after:
            await real(self, *rest, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(JobWork, name, last)


if __name__ == "__main__":
    doom(sys.argv[1])
    asyncio.run(run_service("leader", Path(sys.argv[2])))
