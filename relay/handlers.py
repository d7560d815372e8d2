"""The relay's resources: POST / with ``message/ohttp-req``, and GET /key-sets."""

from __future__ import annotations

from email.utils import formatdate

from aiohttp import web

from relay.key_sets import LoggedKeySets
from relay.service import Relay
from tacit.errors import Abort
from tacit.media_types import JSON, OHTTP_REQ
from tacit.service.app import DEPS, UNAVAILABLE, read_body, refuse_expect
from tacit.service.limits import come_back

RELAY = web.AppKey("relay", Relay)
KEY_SETS_MAX_AGE = 600
NOT_YET = "The relay has no key sets yet."


def add_routes(app: web.Application, relay: Relay, key_sets: LoggedKeySets | None) -> None:
    """Mount the relay's resources; other methods get 405, ``Expect`` gets 417."""

    async def post_message(request: web.Request) -> web.Response:
        """Forward one encapsulated request, and return the gateway's answer with this relay's time, by which devices
        date their requests."""
        if request.query_string:
            raise web.HTTPNotFound
        message = await read_body(request, relay.config.max_request, OHTTP_REQ)
        with relay.budget.reserve(len(message) + relay.config.max_response):
            answer = await relay.forward(message, request.remote or "")
        date = formatdate(int(request.app[DEPS].clock.now()), usegmt=True)
        headers = {"Content-Type": answer.content_type, "Date": date}
        if answer.retry_after is not None:
            headers["Retry-After"] = str(answer.retry_after)
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def get_key_sets(request: web.Request) -> web.Response:
        """The gateway's key sets as the log shows them: the same bytes for every caller."""
        if key_sets is None:
            raise web.HTTPNotFound
        if not key_sets.document:
            headers = {"Retry-After": come_back(request.app[DEPS].entropy)}
            raise Abort(UNAVAILABLE, "the log has shown no key set yet", status=503, title=NOT_YET, headers=headers)
        headers = {"Content-Type": JSON, "Cache-Control": f"public, max-age={KEY_SETS_MAX_AGE}"}
        return web.Response(body=key_sets.document, headers=headers)

    app[RELAY] = relay
    app.router.add_get("/key-sets", get_key_sets)
    app.router.add_post("/", post_message, expect_handler=refuse_expect)
