"""Who may upload: the gateways that the Leader knows and, if so configured, anybody within a budget; to a task with a
shuffler only the shuffler.

A gateway hides who sends, so the senders behind it cannot be told apart here. They are limited by the relay's shares,
and by the room for a task's waiting reports (``services.leader.upload_quota``). DAP clients that come without a gateway
are told apart by their source, which is kept in memory for about a minute.
"""

from __future__ import annotations

from typing import NamedTuple

from services.leader.config import LeaderConfig
from tacit.errors import Abort, UsageError
from tacit.models.parties import SHUFFLER
from tacit.service.app import ServiceEnv
from tacit.service.http.callers import Callers, gateway_roles
from tacit.service.http.fast_route import Asking
from tacit.service.http.server import source_of_request
from tacit.service.http.source_budget import SourceBudget
from tacit.task import Task

NOT_ALLOWED = "urn:tacit:problem:sender-not-allowed"


class Sender(NamedTuple):
    """Who sends a request: a shuffler; or a gateway, or anybody with a ``source`` whose budget the request counts
    against."""

    is_shuffler: bool = False
    source: str | None = None


GATEWAY = Sender()
BY_SHUFFLER = Sender(is_shuffler=True)


class Senders:
    """``known``: the roles of gateways and shuffler among ``callers``; ``budget``: what others may
    upload, ``None`` for nothing."""

    def __init__(self, callers: Callers, known: tuple[str, ...], budget: SourceBudget | None) -> None:
        self._callers = callers
        self._known = known
        self._budget = budget

    def check(self, request: Asking) -> Sender:
        """Who sends the request. Raises ``Abort`` (401)."""
        try:
            role = self._callers.require(request, *self._known)
        except Abort:
            if self._budget is None:
                raise
            return Sender(source=source_of_request(request))
        return Sender(is_shuffler=role == SHUFFLER)

    def require_gateway(self, request: Asking) -> None:
        """Raise ``Abort`` (401) unless a known gateway sends the request."""
        self._callers.require(request, *(role for role in self._known if role != SHUFFLER))

    def charge(self, sender: Sender, size: int) -> None:
        """Count an upload of ``size`` bytes. Raises ``Abort`` (503) if the source has used up its budget."""
        if sender.source is not None and self._budget is not None:
            self._budget.spend(sender.source, size)


def require_sender(sender: Sender, task: Task) -> None:
    """Raise ``Abort`` (403) unless ``sender`` may upload to ``task``: a shuffler to tasks whose recipe names one, and
    everybody else to the other tasks, so that no report goes round a shuffler."""
    if sender.is_shuffler != task.is_mixed:
        allowed = "the shuffler alone" if task.is_mixed else "gateways, not a shuffler,"
        raise Abort(
            NOT_ALLOWED,
            f"{allowed} may upload to this task",
            status=403,
            title="The task takes no reports from this sender.",
        )


def senders_of(config: LeaderConfig, callers: Callers, deps: ServiceEnv) -> Senders:
    """The senders that ``config`` names. Raises ``UsageError`` if it names none."""
    known = tuple(role for role in (*gateway_roles(config.gateway_tokens), SHUFFLER) if callers.guards(role))
    if not known and config.open_uploads is None:
        raise UsageError(
            "gateway_tokens, shuffler_token, listen.client_names for them, or open_uploads is needed: "
            "without them nobody may upload"
        )
    open_to_all = config.open_uploads
    budget = None if open_to_all is None else SourceBudget(open_to_all.bytes_per_minute, deps.clock, deps.entropy)
    return Senders(callers, known, budget)
