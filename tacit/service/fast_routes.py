"""Fast routes of an application, whose requests are counted and refused as those to its other routes are.

``add_fast_route`` registers the resource with aiohttp as well. There it answers other forms of the same request (an
escaped path, HTTP/1.0), and other methods get their 405.
"""

from __future__ import annotations

import asyncio
from email.utils import formatdate

from aiohttp import web

from tacit.errors import Abort, drop_frames
from tacit.fast_paths import REQUESTS
from tacit.service.app import COUNT, NO_ROUTE, SERVICE_ENV, abort_of, read_body, require_clock
from tacit.service.base.log import REQUEST, RequestId
from tacit.service.http.fast_route import FastRequest, FastRoute, FastRoutes, Serving
from tacit.service.http.limits import busy
from tacit.service.http.problems import Answer, bad_request, problem_answer
from tacit.service.http.reader import Body
from tacit.time_format import date_field

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
    app.router.add_post(route.path, post)


def serving(app: web.Application) -> Serving:
    """How the server serves the fast routes of ``app``."""
    if SERVICE_ENV not in app:  # ``make_app`` has not made it
        return Serving(FastRoutes([]), _refuse, lambda: formatdate(usegmt=True))
    deps = app[SERVICE_ENV]

    async def answer(request: FastRequest | None, refusal: Exception | None, body: Body, late: bool) -> Answer:
        began, named = asyncio.get_running_loop().time(), REQUEST.set(RequestId())
        REQUESTS.items += request is not None
        try:
            require_clock(app)
            if late:
                refusal = busy(deps.entropy)
            answer = await _respond(request, refusal, body)
        except Exception as error:  # as the middleware of aiohttp's routes does: an error becomes an answer
            abort = abort_of(app, error)
            if request is not None:
                request.route.explain(abort, request.match_info)
            answer = problem_answer(abort)
            drop_frames(error)
        finally:
            REQUEST.reset(named)
        app[COUNT](NO_ROUTE if request is None else request.route.path, answer.status, began)
        return answer

    routes = app[FAST_ROUTES] if FAST_ROUTES in app else []  # noqa: SIM401 - aiohttp's types allow no other
    return Serving(FastRoutes(routes), answer, lambda: date_field(int(deps.clock.now())))


async def _refuse(_request: FastRequest | None, refusal: Exception | None, _body: Body, _late: bool) -> Answer:
    return problem_answer(refusal if isinstance(refusal, Abort) else bad_request())


async def _respond(request: FastRequest | None, refusal: Exception | None, body: Body) -> Answer:
    if refusal is not None:
        raise refusal
    if request is None or request.respond is None:
        raise bad_request()
    return await request.respond(body.take())
