"""Background work of the gateway: key rotation, forgetting old requests, publishing key configurations."""

from __future__ import annotations

from services.gateway.keys import GatewayKey
from services.gateway.service import Gateway
from services.gateway.store import ReplayWindow
from tacit.codec import b64url
from tacit.media_types import JSON
from tacit.ports import TransportError
from tacit.service.app import Deps
from tacit.service.log import get_logger
from tacit.signing import SigningKey
from tacit.tlog.leaves import LeafType, OhttpConfig, sign_leaf


class KeyRotation:
    """Rotates the active key at the end of its lifetime and retires the previous one at its end."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def step(self) -> int:
        """1 when keys changed."""
        return int(self._gateway.rotate_if_due())


class Forgetting:
    """Deletes remembered requests that are out of date and so refused for their date."""

    def __init__(self, gateway: Gateway, store: ReplayWindow, deps: Deps) -> None:
        self._gateway = gateway
        self._store = store
        self._deps = deps

    async def step(self) -> int:
        """How many were deleted."""
        return await self._store.forget(int(self._deps.clock.now()) - self._gateway.config.date_window)


class Publishing:
    """Puts every key configuration into the log as a signed leaf, again after a restart (the log keeps one)."""

    def __init__(self, gateway: Gateway, signing_key: SigningKey, deps: Deps, url: str) -> None:
        self._gateway = gateway
        self._signing_key = signing_key
        self._deps = deps
        self._url = f"{url}/v1/leaves"
        self._published: set[bytes] = set()
        self._refused_status: int | None = None

    async def step(self) -> int:
        """How many leaves the log took now; one that it does not take is offered again at the next step."""
        taken = 0
        for key in self._gateway.ring.keys:
            if key.config.public_key not in self._published and await self._offer(key):
                self._published.add(key.config.public_key)
                taken += 1
        return taken

    async def _offer(self, key: GatewayKey) -> bool:
        operator = self._gateway.config.operator
        body = OhttpConfig(
            gateway=operator,
            key_config=b64url(key.config.encode()),
            not_before=key.not_before,
            not_after=key.not_after,
        )
        leaf = sign_leaf(LeafType.OHTTP_CONFIG, body, operator, self._signing_key)
        try:
            response = await self._deps.transport.request(
                "POST", self._url, headers={"Content-Type": JSON}, body=leaf.encode()
            )
            status = response.status
        except TransportError:
            status = 0
        accepted = status in (200, 201)
        if not accepted and status != self._refused_status:
            get_logger("gateway").warning("key_config_not_published", status=status)
        self._refused_status = None if accepted else status
        return accepted
