"""The gateway's resources: POST /gateway and /gateway/frames for relays, GET /ohttp-keys for everyone."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from services.gateway.service import Gateway
from tacit import ohttp
from tacit.media_types import OHTTP_KEYS, OHTTP_REQ, OHTTP_REQ_FRAME, OHTTP_RES, OHTTP_RES_FRAME
from tacit.message_frames import decode_requests, encode_answers
from tacit.service.fast_routes import add_fast_route
from tacit.service.http.callers import CALLERS, Callers
from tacit.service.http.fast_route import Asking, FastRoute, Respond
from tacit.service.http.problems import Answer

GATEWAY = web.AppKey("gateway", Gateway)

_KEYS_MAX_AGE = 3600


class Handlers:
    """Call the gateway for callers that are its relay."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def add_routes(self, app: web.Application) -> None:
        """Mount single messages and frames for relays, and ``/ohttp-keys``."""
        app[GATEWAY] = self._gateway
        config = self._gateway.config
        for path, media_type, limit, respond in (
            ("/gateway", OHTTP_REQ, config.max_request, self.post_message),
            ("/gateway/frames", OHTTP_REQ_FRAME, config.max_frame, self.post_frame),
        ):
            add_fast_route(app, FastRoute(path, media_type, limit, _for_relays(app[CALLERS], respond)))
        app.router.add_get("/ohttp-keys", self.get_keys)

    async def post_message(self, message: bytes) -> Answer:
        """Answer one encapsulated request of an authenticated relay."""
        with self._gateway.budget.admit(len(message)):
            sealed = await self._gateway.answer(message)
        return Answer(sealed, {"Content-Type": OHTTP_RES})

    async def post_frame(self, frame: bytes) -> Answer:
        """Answer every message of a frame (``tacit.message_frames``) of an authenticated relay."""
        config, budget = self._gateway.config, self._gateway.budget
        with budget.reserve(len(frame)):
            bound = config.max_frame_messages
            messages = decode_requests(frame, max_messages=bound, max_message=config.max_request)
            with budget.reserve(len(messages) * ohttp.SIZE_CLASSES[-1]):
                answers = await self._gateway.answer_frame(messages)
        return Answer(encode_answers(answers), {"Content-Type": OHTTP_RES_FRAME})

    async def get_keys(self, _request: web.Request) -> web.Response:
        """The active and the previous key configuration (RFC 9458 section 3), the same bytes for everyone."""
        configs = self._gateway.ring.configs()
        headers = {"Content-Type": OHTTP_KEYS, "Cache-Control": f"public, max-age={_KEYS_MAX_AGE}"}
        return web.Response(body=ohttp.encode_key_configs(configs), headers=headers)


def _for_relays(callers: Callers, respond: Respond) -> Callable[[Asking], Respond]:
    def admit(head: Asking) -> Respond:
        callers.require(head, "relay")
        return respond

    return admit
