"""Fast routes of an application: answered by the fast server, counted and refused as aiohttp's routes are.

``add_fast_route`` registers the resource with aiohttp as well. There it answers what the fast reader hands on (another
form of the same URL, HTTP/1.0, a connection that asked for another resource before), and other methods get their 405.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from tacit.errors import drop_frames
from tacit.fast_paths import REQUESTS
from tacit.service.app import COUNT, NO_ROUTE, SERVICE_ENV, abort_of, heed_expect, read_body, require_clock
from tacit.service.base.log import REQUEST, RequestId
from tacit.service.http.fast_reader import FastRoute, FastRoutes, Reader, Serving
from tacit.service.http.limits import busy
from tacit.service.http.problems import Answer, bad_request, problem_answer

FAST_ROUTES: web.AppKey[list[FastRoute]] = web.AppKey("fast_routes")


def add_fast_route(app: web.Application, route: FastRoute) -> None:
    """Serve ``route``. A query is not part of any fast route: 404."""

    async def post(request: web.Request) -> web.Response:
        if request.query_string:
            raise web.HTTPNotFound
        REQUESTS.items += 1
        REQUESTS.fallbacks += 1
        respond = route.admit(request)
        answer = await respond(await read_body(request, route.limit, route.media_type))
        return web.Response(status=answer.status, body=answer.body or None, headers=answer.headers)

    if FAST_ROUTES not in app:
        app[FAST_ROUTES] = []
    app[FAST_ROUTES].append(route)
    app.router.add_post(route.path, post, expect_handler=heed_expect)


def serving(app: web.Application) -> Serving | None:
    """How the fast server serves the fast routes of ``app``, where errors become the answers that aiohttp's routes
    give; None where it has none."""
    if FAST_ROUTES not in app:
        return None
    routes = app[FAST_ROUTES]

    async def answer(reader: Reader, late: bool) -> Answer:
        began, named = asyncio.get_running_loop().time(), REQUEST.set(RequestId())
        REQUESTS.items += 1
        try:
            answer = await _respond(app, reader, late=late)
        except Exception as error:  # as the middleware of aiohttp's routes does: an error becomes an answer
            abort = abort_of(app, error)
            if reader.route is not None:
                reader.route.explain(abort, reader.named)
            answer = problem_answer(abort)
            drop_frames(error)
        finally:
            REQUEST.reset(named)
        app[COUNT](NO_ROUTE if reader.route is None else reader.route.path, answer.status, began)
        return answer

    return Serving(FastRoutes(routes), answer)


async def _respond(app: web.Application, reader: Reader, *, late: bool) -> Answer:
    require_clock(app)
    if late:
        raise busy(app[SERVICE_ENV].entropy)
    if reader.refusal is not None:
        raise reader.refusal
    if reader.respond is None:
        raise bad_request()
    body = reader.body
    reader.forget_body()  # who answers has a copy, and may be long about it
    return await reader.respond(body)
