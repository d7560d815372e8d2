"""The gateway's resources: POST /gateway for relays, GET /ohttp-keys for everyone."""

from __future__ import annotations

from aiohttp import web

from services.gateway.service import Gateway
from tacit import ohttp
from tacit.media_types import OHTTP_KEYS, OHTTP_REQ, OHTTP_RES
from tacit.service.app import read_body, refuse_expect, require_media_type
from tacit.service.auth import require_bearer, require_peer

GATEWAY = web.AppKey("gateway", Gateway)
RELAY_DIGEST: web.AppKey[bytes | None] = web.AppKey("relay_digest")

_KEYS_MAX_AGE = 3600


def add_routes(app: web.Application) -> None:
    """Mount the gateway's resources."""
    app.router.add_post("/gateway", post_message, expect_handler=refuse_expect)
    app.router.add_get("/ohttp-keys", get_keys)


async def post_message(request: web.Request) -> web.Response:
    """Answer one encapsulated request of an authenticated relay."""
    gateway = request.app[GATEWAY]
    _require_relay(request)
    require_media_type(request, OHTTP_REQ)
    limit = gateway.config.max_request
    length = limit if request.content_length is None else min(request.content_length, limit)
    with gateway.budget.reserve(length + ohttp.SIZE_CLASSES[-1]):
        message = await read_body(request, limit, OHTTP_REQ)
        sealed = await gateway.answer(message)
    return web.Response(body=sealed, headers={"Content-Type": OHTTP_RES})


async def get_keys(request: web.Request) -> web.Response:
    """The active and the previous key configuration (RFC 9458 section 3), the same bytes for everyone."""
    configs = request.app[GATEWAY].ring.configs()
    headers = {"Content-Type": OHTTP_KEYS, "Cache-Control": f"public, max-age={_KEYS_MAX_AGE}"}
    return web.Response(body=ohttp.encode_key_configs(configs), headers=headers)


def _require_relay(request: web.Request) -> None:
    digest = request.app[RELAY_DIGEST]
    if digest is None:
        require_peer(request, None)
    else:
        require_bearer(request, digest)
