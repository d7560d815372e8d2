"""The relay's one resource: POST / with ``message/ohttp-req``."""

from __future__ import annotations

from aiohttp import web

from relay.service import Relay
from tacit.media_types import OHTTP_REQ
from tacit.service.app import read_body, refuse_expect

RELAY = web.AppKey("relay", Relay)


def add_routes(app: web.Application, relay: Relay) -> None:
    """Mount the relay resource; other methods get 405, ``Expect`` gets 417."""

    async def post_message(request: web.Request) -> web.Response:
        """Forward one encapsulated request and answer with what the gateway said."""
        if request.query_string:
            raise web.HTTPNotFound
        message = await read_body(request, relay.config.max_request, OHTTP_REQ)
        with relay.budget.reserve(len(message) + relay.config.max_response):
            answer = await relay.forward(message, request.remote or "")
        headers = {"Content-Type": answer.content_type}
        if answer.retry_after is not None:
            headers["Retry-After"] = str(answer.retry_after)
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    app[RELAY] = relay
    app.router.add_post("/", post_message, expect_handler=refuse_expect)
