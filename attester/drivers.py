"""The attester's background work."""

from __future__ import annotations

from attester.service import Attester
from attester.software_root import RevocationList
from tacit.service.log import get_logger


class HousekeepingDriver:
    """One step forgets what ended, logs the counters and reads the revocation list again if it changed."""

    def __init__(self, attester: Attester, revoked: RevocationList) -> None:
        self._attester = attester
        self._revoked = revoked

    async def step(self) -> int:
        """Always 0: there is no next piece of work until time passes. A broken revocation list raises."""
        await self._attester.housekeeping()
        if self._revoked.reload():
            get_logger("attester").info("revocations_read")
        return 0
