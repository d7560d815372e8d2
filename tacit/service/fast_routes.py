"""Hot routes of an application: answered by the lean server, counted and refused as aiohttp's routes are.

``add_hot_route`` registers the resource with aiohttp as well. There it answers what the lean reader hands on (another
form of the same URL, HTTP/1.0, a connection that asked for another resource before), and other methods get their 405.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from tacit.errors import drop_frames
from tacit.service.app import COUNT, DEPS, NO_ROUTE, abort_of, heed_expect, read_body, require_clock
from tacit.service.base.log import REQUEST, RequestId
from tacit.service.http.fast_reader import HotRoute, HotRoutes, Reader, Serving
from tacit.service.http.limits import busy
from tacit.service.http.problems import Answer, bad_request, problem_answer

HOT: web.AppKey[list[HotRoute]] = web.AppKey("hot")


def add_hot_route(app: web.Application, route: HotRoute) -> None:
    """Serve ``route``. A query is not part of any hot route: 404."""

    async def post(request: web.Request) -> web.Response:
        if request.query_string:
            raise web.HTTPNotFound
        respond = route.admit(request)
        answer = await respond(await read_body(request, route.limit, route.media_type))
        return web.Response(status=answer.status, body=answer.body or None, headers=answer.headers)

    if HOT not in app:
        app[HOT] = []
    app[HOT].append(route)
    app.router.add_post(route.path, post, expect_handler=heed_expect)


def serving(app: web.Application) -> Serving | None:
    """How the lean server serves the hot routes of ``app``; None where it has none."""
    if HOT not in app:
        return None
    routes = app[HOT]

    async def answer(reader: Reader, late: bool) -> Answer:
        began, named = asyncio.get_running_loop().time(), REQUEST.set(RequestId())
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

    return Serving(HotRoutes(routes), answer)


async def _respond(app: web.Application, reader: Reader, *, late: bool) -> Answer:
    require_clock(app)
    if late:
        raise busy(app[DEPS].entropy)
    if reader.refusal is not None:
        raise reader.refusal
    if reader.respond is None:
        raise bad_request()
    body = reader.body
    reader.forget_body()  # who answers has a copy, and may be long about it
    return await reader.respond(body)
