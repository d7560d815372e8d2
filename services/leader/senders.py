"""Who may upload: the gateways that the Leader knows and, if so configured, anybody within a budget.

A gateway hides who sends, so the senders behind it cannot be told apart here. They are limited by the relay's shares,
and by the room for a task's waiting reports (``services.leader.room``). DAP clients that come without a gateway are
told apart by their source, which is kept in memory for about a minute.
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
    """``gateways``: the gateways' roles among the service's ``Callers``; ``budget``: what others may upload, ``None``
    for nothing."""

    def __init__(self, gateways: tuple[str, ...], budget: SourceBudget | None) -> None:
        self._gateways = gateways
        self._budget = budget

    def check(self, request: web.Request) -> str | None:
        """``None`` for a gateway, else the source whose budget the request counts against. Raises ``Abort`` (401)."""
        try:
            request.app[CALLERS].require(request, *self._gateways)
        except Abort:
            if self._budget is None:
                raise
            return source_of_request(request)
        return None

    def charge(self, source: str | None, size: int) -> None:
        """Count an upload of ``size`` bytes. Raises ``Abort`` (503) if the source has used up its budget."""
        if source is not None and self._budget is not None:
            self._budget.spend(source, size)


def senders_of(config: LeaderConfig, callers: Callers, deps: Deps) -> Senders:
    """The senders that ``config`` names. Raises ``UsageError`` if it names none."""
    gateways = tuple(role for role in gateway_roles(config.gateway_tokens) if callers.guards(role))
    if not gateways and config.open_uploads is None:
        raise UsageError(
            "gateway_tokens, listen.client_names for gateway, or open_uploads is needed: without them nobody may upload"
        )
    open_to_all = config.open_uploads
    budget = None if open_to_all is None else SourceBudget(open_to_all.bytes_per_minute, deps.clock, deps.entropy)
    return Senders(gateways, budget)
