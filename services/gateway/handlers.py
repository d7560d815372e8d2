"""The gateway's resources: POST /gateway and /gateway/frames for relays, GET /ohttp-keys for everyone."""

from __future__ import annotations

from aiohttp import web

from services.gateway.service import Gateway
from tacit import ohttp
from tacit.frames import decode_requests, encode_answers
from tacit.media_types import OHTTP_KEYS, OHTTP_REQ, OHTTP_REQ_FRAME, OHTTP_RES, OHTTP_RES_FRAME
from tacit.service.app import read_body, refuse_expect
from tacit.service.callers import CALLERS

GATEWAY = web.AppKey("gateway", Gateway)

_KEYS_MAX_AGE = 3600


class Handlers:
    """Check the caller, the size and the media type; then call the gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def add_routes(self, app: web.Application) -> None:
        """Mount the gateway's resources."""
        app[GATEWAY] = self._gateway
        app.router.add_post("/gateway", self.post_message, expect_handler=refuse_expect)
        app.router.add_post("/gateway/frames", self.post_frame, expect_handler=refuse_expect)
        app.router.add_get("/ohttp-keys", self.get_keys)

    async def post_message(self, request: web.Request) -> web.Response:
        """Answer one encapsulated request of an authenticated relay."""
        request.app[CALLERS].require(request, "relay")
        message = await read_body(request, self._gateway.config.max_request, OHTTP_REQ)
        with self._gateway.budget.reserve(len(message) + ohttp.SIZE_CLASSES[-1]):
            sealed = await self._gateway.answer(message)
        return web.Response(body=sealed, headers={"Content-Type": OHTTP_RES})

    async def post_frame(self, request: web.Request) -> web.Response:
        """Answer every message of a frame (``tacit.frames``) of an authenticated relay."""
        request.app[CALLERS].require(request, "relay")
        config, budget = self._gateway.config, self._gateway.budget
        frame = await read_body(request, config.max_frame, OHTTP_REQ_FRAME)
        with budget.reserve(len(frame)):
            bound = config.max_frame_messages
            messages = decode_requests(frame, max_messages=bound, max_message=config.max_request)
            with budget.reserve(len(messages) * ohttp.SIZE_CLASSES[-1]):
                answers = await self._gateway.answer_frame(messages)
        return web.Response(body=encode_answers(answers), headers={"Content-Type": OHTTP_RES_FRAME})

    async def get_keys(self, _request: web.Request) -> web.Response:
        """The active and the previous key configuration (RFC 9458 section 3), the same bytes for everyone."""
        configs = self._gateway.ring.configs()
        headers = {"Content-Type": OHTTP_KEYS, "Cache-Control": f"public, max-age={_KEYS_MAX_AGE}"}
        return web.Response(body=ohttp.encode_key_configs(configs), headers=headers)
