"""Background work of the gateway: key rotation, forgetting old requests, publishing key sets."""

from __future__ import annotations

import re

from services.gateway.ports import ReplayWindow
from services.gateway.service import Gateway
from tacit.media_types import JSON
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import Deps
from tacit.service.base.log import get_logger
from tacit.signing import SigningKey
from tacit.tlog.leaves import LeafType, sign_leaf

_REFUSAL = re.compile(rb"urn:tacit:refusal:([a-z-]{1,64})")


class KeyRotation:
    """Makes the keys of the current and the next period, and deletes those of periods that are over."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def step(self) -> int:
        """Returns 1 if keys changed, else 0."""
        return int(self._gateway.rotate_if_due())


class Forgetting:
    """Deletes remembered requests whose Date is so old that they would be refused for it."""

    def __init__(self, gateway: Gateway, store: ReplayWindow, deps: Deps) -> None:
        self._gateway = gateway
        self._store = store
        self._deps = deps

    async def step(self) -> int:
        """Returns how many requests were deleted."""
        return await self._store.forget(int(self._deps.clock.now()) - self._gateway.config.date_window)


class Publishing:
    """Publishes the key sets of the current and the next period in the log, each as one signed leaf. After a restart
    they are published again (the log keeps one)."""

    def __init__(self, gateway: Gateway, signing_key: SigningKey, deps: Deps, url: str) -> None:
        self._gateway = gateway
        self._signing_key = signing_key
        self._deps = deps
        self._url = f"{url}/v1/leaves"
        self._published: set[int] = set()
        self._refused: dict[int, str] = {}

    async def step(self) -> int:
        """Returns how many leaves the log took now; a leaf that it does not take is offered again at the next step."""
        taken, present = 0, self._gateway.ring.period
        for period in (present, present + 1):
            if period not in self._published and await self._offer(period):
                self._published.add(period)
                taken += 1
        return taken

    async def _offer(self, period: int) -> bool:
        operator = self._gateway.config.operator
        body = self._gateway.ring.key_set(operator, period)
        leaf = sign_leaf(LeafType.OHTTP_CONFIG, body, operator, self._signing_key)
        try:
            response = await self._deps.transport.request(
                "POST", self._url, headers={"Content-Type": JSON}, body=leaf.encode()
            )
            accepted, reason = response.status in (200, 201), _reason(response)
        except TransportError:
            accepted, reason = False, "unreachable"
        if not accepted and reason != self._refused.get(period):
            get_logger("gateway").warning("key_set_not_published", period=period, reason=reason)
        self._refused[period] = "" if accepted else reason
        return accepted


def _reason(response: HttpResponse) -> str:
    """The rule by which the log refused a leaf, or else the status."""
    rule = _REFUSAL.search(response.body)
    return str(response.status) if rule is None else rule[1].decode()
