"""The attester's background work."""

from __future__ import annotations

from attester.service import Attester
from attester.software_root import RevocationList
from tacit.service.base.log import get_logger


class HousekeepingDriver:
    """One step deletes what expired, logs the counters, and reads the revocation list again if it changed."""

    def __init__(self, attester: Attester, revoked: RevocationList) -> None:
        self._attester = attester
        self._revoked = revoked

    async def step(self) -> int:
        """Always 0: nothing more is due until time passes. Raises ``UsageError`` for a broken revocation list."""
        await self._attester.housekeeping()
        if self._revoked.reload():
            get_logger("attester").info("revocations_read")
        return 0
