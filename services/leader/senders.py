"""Who may upload: gateways that the Leader knows and, where it is configured so, anybody within a budget.

A gateway hides who sends, so nothing behind it can be told apart here; what limits it is its relay's shares, and the
room that a task's waiting reports have (``services.leader.room``). DAP clients that come by themselves are told apart
by their source, which is in memory for about a minute.
"""

from __future__ import annotations

from aiohttp import web

from services.leader.config import LeaderConfig
from tacit.errors import Abort, UsageError
from tacit.service.app import Deps
from tacit.service.callers import CALLERS, Callers, gateway_roles
from tacit.service.connection import source_of_request
from tacit.service.limits import SourceBudget


class Senders:
    """``gateways``: their roles among the service's ``Callers``; ``budget``: what others may upload, ``None`` for
    nothing."""

    def __init__(self, gateways: tuple[str, ...], budget: SourceBudget | None) -> None:
        self._gateways = gateways
        self._budget = budget

    def check(self, request: web.Request) -> str | None:
        """``None`` for a gateway, else the source that its budget counts for. Raises ``Abort`` (401)."""
        try:
            request.app[CALLERS].require(request, *self._gateways)
        except Abort:
            if self._budget is None:
                raise
            return source_of_request(request)
        return None

    def charge(self, source: str | None, size: int) -> None:
        """Count an upload of ``size`` bytes. Raises ``Abort`` (503) where a source has had its budget."""
        if source is not None and self._budget is not None:
            self._budget.spend(source, size)


def senders_of(config: LeaderConfig, callers: Callers, deps: Deps) -> Senders:
    """Those that ``config`` names. Raises ``UsageError`` where it names nobody."""
    gateways = tuple(role for role in gateway_roles(config.gateway_tokens) if callers.guards(role))
    if not gateways and config.open_uploads is None:
        raise UsageError(
            "gateway_tokens, listen.client_names for gateway, or open_uploads is needed: "
            "a leader takes uploads from gateways that it knows"
        )
    open_to_all = config.open_uploads
    budget = None if open_to_all is None else SourceBudget(open_to_all.bytes_per_minute, deps.clock, deps.entropy)
    return Senders(gateways, budget)
