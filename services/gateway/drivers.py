"""Background work of the gateway: key rotation, forgetting old requests, publishing key sets."""

from __future__ import annotations

import contextlib
import re

from services.gateway.logged import read_shown
from services.gateway.ports import ReplayWindow
from services.gateway.service import Gateway
from tacit.backoff import LONGEST_PAUSE, Backoff
from tacit.media_types import JSON
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.retry_after import retry_after
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.base.vouched import BOUND_SECONDS, UNVOUCHED
from tacit.signing import SigningKey
from tacit.tlog.leaves import LeafType, sign_leaf

_REFUSAL = re.compile(rb"urn:tacit:refusal:([a-z-]{1,64})")


PAUSES = Backoff(1.0, LONGEST_PAUSE)


class KeyRotation:
    """Makes the keys of the current and the next period, and deletes those of periods that are over, by the log's clock
    too, unless the log still shows them."""

    def __init__(self, gateway: Gateway, signing_key: SigningKey, log: Transport | None, url: str | None) -> None:
        """``log`` is the transport to the log at ``url``; without it, nothing is deleted."""
        self._gateway = gateway
        self._signing_key = signing_key
        self._log = log
        self._url = url

    async def step(self) -> int:
        """Returns 1 if keys changed, else 0. What the log shows is read first; while it cannot be read, what it showed
        last counts."""
        operator = self._gateway.config.operator
        if self._log is not None and self._url is not None:
            with contextlib.suppress(TransportError):
                self._gateway.shown = await read_shown(self._log, self._url, operator, self._signing_key)
        return int(self._gateway.rotate_if_due())


class ReplayCleanup:
    """Deletes remembered requests whose Date is so old that they would be refused for it, by the log's clock too, and
    by any other that this machine may have later: while it differs by more than ``BOUND_SECONDS``, nothing passes."""

    def __init__(self, gateway: Gateway, store: ReplayWindow, deps: ServiceEnv) -> None:
        self._gateway = gateway
        self._store = store
        self._deps = deps

    async def step(self) -> int:
        """Returns how many requests were deleted."""
        past = self._deps.vouched.past()
        if past == UNVOUCHED:
            return 0
        return await self._store.forget(int(past - BOUND_SECONDS) - self._gateway.config.date_window)


class Publishing:
    """Publishes the key sets of the current and the next period in the log, each as one signed leaf. After a restart
    they are published again (the log keeps one)."""

    def __init__(self, gateway: Gateway, signing_key: SigningKey, log: Transport, url: str, deps: ServiceEnv) -> None:
        self._gateway = gateway
        self._signing_key = signing_key
        self._log = log
        self._deps = deps
        self._url = f"{url}/v1/leaves"
        self._published: set[int] = set()
        self._again: dict[int, tuple[int, float]] = {}
        """Failures in a row, and when the leaf is due again, by period."""
        self._refused: dict[int, str] = {}

    async def step(self) -> int:
        """Returns how many leaves the log took now; a leaf that it does not take is offered again at the next step."""
        taken, present = 0, self._gateway.ring.period
        for period in (present, present + 1):
            due = self._again.get(period, (0, 0.0))[1]
            is_due = period not in self._published and self._deps.clock.now() >= due
            if is_due and await self._offer(period):
                self._published.add(period)
                taken += 1
        return taken

    async def _offer(self, period: int) -> bool:
        operator = self._gateway.config.operator
        body = self._gateway.ring.key_set(operator, period)
        leaf = sign_leaf(LeafType.OHTTP_CONFIG, body, operator, self._signing_key)
        try:
            response = await self._log.request("POST", self._url, headers={"Content-Type": JSON}, body=leaf.encode())
            accepted, reason = response.status in (200, 201), _reason(response)
            asked = retry_after(response.headers, self._deps.clock.now())
        except TransportError as error:
            accepted, reason, asked = False, "unreachable", error.retry_after
        if not accepted:
            failures, _ = self._again.get(period, (0, 0.0))
            pause = PAUSES.pause(failures, self._deps.entropy, asked)
            self._again[period] = failures + 1, self._deps.clock.now() + pause
        if not accepted and reason != self._refused.get(period):
            get_logger("gateway").warning("key_set_not_published", period=period, reason=reason)
        self._refused[period] = "" if accepted else reason
        return accepted


def _reason(response: HttpResponse) -> str:
    """The rule by which the log refused a leaf, or else the status."""
    rule = _REFUSAL.search(response.body)
    return str(response.status) if rule is None else rule[1].decode()
