"""The relay's resources: POST / with ``message/ohttp-req``, and GET /key-sets."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from relay.key_sets import LoggedKeySets
from relay.service import Relay
from tacit.errors import Abort
from tacit.media_types import JSON, OHTTP_REQ
from tacit.service.app import UNAVAILABLE
from tacit.service.fast_routes import add_fast_route
from tacit.service.http.fast_route import Asking, FastRoute, Respond
from tacit.service.http.problems import Answer

RELAY = web.AppKey("relay", Relay)
KEY_SETS_MAX_AGE = 600
NOT_YET = "The relay has no key sets yet."


def add_routes(app: web.Application, relay: Relay, key_sets: LoggedKeySets | None) -> None:
    """Mount the relay's resources; other methods get 405, ``Expect`` gets 417."""

    def admit(head: Asking) -> Respond:
        return partial(post_message, head.remote or "")

    async def post_message(client: str, message: bytes) -> Answer:
        """Forward one encapsulated request, and return the gateway's answer with this relay's time, by which devices
        date their requests."""
        with relay.budget.admit(len(message)):
            answer = await relay.forward(message, client)
        headers = {"Content-Type": answer.content_type}
        if answer.retry_after is not None:
            headers["Retry-After"] = str(answer.retry_after)
        return Answer(answer.body, headers, answer.status)

    async def get_key_sets(_request: web.Request) -> web.Response:
        """The gateway's key sets as the log shows them: the same bytes for every caller."""
        if key_sets is None:
            raise web.HTTPNotFound
        if not key_sets.document:
            # no Retry-After: devices leave a whole origin alone that asks for it, and messages are still forwarded
            raise Abort(UNAVAILABLE, "the log has shown no key set yet", status=503, title=NOT_YET)
        headers = {"Content-Type": JSON, "Cache-Control": f"public, max-age={KEY_SETS_MAX_AGE}"}
        return web.Response(body=key_sets.document, headers=headers)

    app[RELAY] = relay
    app.router.add_get("/key-sets", get_key_sets)
    add_fast_route(app, FastRoute("/", OHTTP_REQ, relay.config.max_request, admit))
