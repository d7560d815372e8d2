"""Reads the audit log, and checks it from outside: every hash is recomputed from the acts that the service shows."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tacit.client.caller import Caller
from tacit.client.documents import Act, AuditChain
from tacit.client.pages import items
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.operations.audit_chain import FIRST, row_hash

ROOT = "/v1/audit"


class AsyncAudit:
    """The audit log: all acts of all people, in order."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def all(self) -> AsyncIterator[Act]:
        """Every act from the first one on, fetched page by page."""
        return items(self._caller, ROOT, "acts", Act)

    async def newest(self, count: int) -> list[Act]:
        """The newest ``count`` acts, the oldest of them first. Older acts are not read."""
        page = await self._caller.get(ROOT, limit=1)
        last = page.get("newest") if isinstance(page, dict) else None
        if not isinstance(last, int) or last < 0:
            raise DecodeError("the answer does not say how many acts there are")
        behind = str(max(0, last - count))
        return [act async for act in items(self._caller, ROOT, "acts", Act, behind)][-count:]

    async def verify(self, holds: str | None = None) -> AuditChain:
        """Read the whole log and recompute its chain. ``holds``: the hash (base64url) of a row that was noted
        elsewhere; with it, a log that lost rows at its end or was rewritten is detected. Raises ``DecodeError`` if
        ``holds`` is not a hash."""
        wanted = None if holds is None else unb64url(holds, length=32, what="the noted hash")
        rows, newest, found = 0, FIRST, wanted == FIRST
        async for act in self.all():
            if not follows(act, rows, newest):
                return AuditChain(rows=rows, newest=b64url(newest), broken=rows + 1, holds=found if wanted else None)
            rows, newest = act.number, unb64url(act.hash)
            found = found or newest == wanted
        return AuditChain(rows=rows, newest=b64url(newest), holds=found if wanted else None)


def follows(act: Act, rows: int, newest: bytes) -> bool:
    """Whether ``act`` is the row after the ``rows`` that lead to ``newest`` (32 bytes): in its number, in the hash
    before it and in its own hash. False for a hash that cannot be decoded."""
    entry: dict[str, str | int] = {
        "who": act.person,
        "what": act.what,
        "target": act.target,
        "at": act.at,
        "source": act.source,
        "outcome": act.outcome,
        "detail": act.detail,
    }
    try:
        previous, stated = unb64url(act.previous, length=32), unb64url(act.hash, length=32)
        computed = row_hash(rows + 1, newest, entry)
    except DecodeError:
        return False
    return act.number == rows + 1 and previous == newest and stated == computed
