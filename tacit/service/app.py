"""The aiohttp application from which every service starts.

``make_app`` provides: errors as RFC 9457 problem documents, a body limit, no caching, no version banner, a health
check; ``add_driver`` provides background work. Order of stopping: requests in flight finish, drivers stop between two
steps, and whatever was registered before them in ``cleanup_ctx`` (databases, transports) closes last.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Middleware

from tacit import __version__
from tacit.adapters.databases.recovery import Recovery
from tacit.adapters.disk.files import DISK_ERRORS
from tacit.adapters.network.tls import troubles
from tacit.errors import REFUSAL_PREFIX, Abort, CryptoError, DecodeError, Refusal, Unavailable, drop_frames
from tacit.ports import Clock, Entropy, Observer, Transport, TransportError
from tacit.service.base.driver import Driver, run_driver
from tacit.service.base.log import REQUEST, RequestId, get_logger, hear_tls, places_of
from tacit.service.base.vouched import ASK_SECONDS, AskingTime, VouchedTime, Voucher
from tacit.service.http.callers import CALLERS, Callers
from tacit.service.http.fast_route import require_media_type
from tacit.service.http.limits import busy, come_back
from tacit.service.http.problems import problem_response, status_abort, too_large
from tacit.service.http.reader import Body
from tacit.service.http.server import connection_of
from tacit.service.metrics import Metrics, Reading, number_of
from tacit.service.operated import OPERATED, Operated
from tacit.service.readiness import Steps
from tacit.time_format import date_field

DRIVER_STOP_SECONDS = 20.0
HEALTH_PATH = "/healthz"
READY_PATH = "/readyz"
_HEALTH_PATHS = frozenset({HEALTH_PATH, READY_PATH})
NO_ROUTE = "none"
"""The route label in metrics for a request that matches no route."""
INTERNAL = "urn:tacit:problem:internal"
CLOCK = "urn:tacit:problem:clock"
UNAVAILABLE = "urn:tacit:problem:unavailable"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class ServiceEnv:
    """What a service needs from outside. ``background=False`` starts no driver: tests call ``step()``. ``recovery``:
    the operator's decision at this start about a database that may be from the past."""

    clock: Clock
    entropy: Entropy = field(repr=False)
    transport: Transport
    observer: Observer | None = None
    background: bool = True
    recovery: Recovery = Recovery.REFUSE
    vouched: VouchedTime = field(init=False, repr=False, compare=False)
    """The time that others vouch for. What cannot be undone asks it, never ``clock`` alone (P37)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vouched", VouchedTime(self.clock))

    def saw(self, party: str, **what: str | int) -> None:
        """Tell the observer, where there is one, what ``party`` could read."""
        if self.observer is not None:
            self.observer.saw(party, what)


SERVICE_NAME = web.AppKey("service_name", str)
KERNELS = web.AppKey("kernels", dict[str, str])
"""By what they compute, the path of the kernels that this process works with; filled by ``show_kernels``."""
_CHANGING = frozenset({"POST", "PUT", "DELETE", "PATCH"})
SERVICE_ENV = web.AppKey("service_env", ServiceEnv)
DRIVERS: web.AppKey[list[Driver]] = web.AppKey("drivers", list)
HEALTH_PROBLEMS: web.AppKey[list[Callable[[], str]]] = web.AppKey("troubles", list)
"""Each function describes in a few public words what keeps the service from working, or returns an empty text; shown by
the health checks."""
STEPS = web.AppKey("steps", Steps)
METRICS = web.AppKey("metrics", Metrics)
CLOCK_BOUND = web.AppKey("clock_bound", bool)
"""Whether requests that change something wait while the clock is in doubt: their answers may be final."""
COUNT: web.AppKey[Callable[[str, int, float], None]] = web.AppKey("count")
"""Counts an answer: the template of its route, its status, and the loop's time at which the request was read."""
STOPPING = web.AppKey("stopping", asyncio.Event)
"""Set before the service stops: readiness then reports it while requests are still answered."""


def make_app(
    name: str,
    deps: ServiceEnv,
    *,
    max_body: int = 1 << 20,
    middlewares: Sequence[Middleware] = (),
    answered: Callable[[int], None] | None = None,
    callers: Callers | None = None,
) -> web.Application:
    """Make an application called ``name`` that refuses bodies over ``max_body`` bytes (413).

    ``middlewares`` run inside the problem middleware, so they may raise what handlers may raise. ``answered`` is called
    with the status of every answer, except for health checks. ``callers``: who may call resources that are not public.
    """
    hear_tls()
    metrics = Metrics(deps.clock, deps.entropy)
    app = web.Application(client_max_size=max_body, middlewares=[_problems, *middlewares])
    app[SERVICE_NAME] = name
    app[SERVICE_ENV] = deps
    app[DRIVERS] = []
    app[STOPPING] = asyncio.Event()
    app[OPERATED] = Operated()
    app[HEALTH_PROBLEMS] = [
        lambda: "the service is stopping" if app[STOPPING].is_set() else "",
        lambda: "; ".join(troubles()),
        app[OPERATED].trouble,
        deps.vouched.doubt,
    ]
    app[CLOCK_BOUND] = False
    app[STEPS] = Steps(deps.clock)
    app[KERNELS] = {}
    app[METRICS] = metrics
    app[COUNT] = _counting(answered, metrics)
    _add_own_metrics(app)
    if callers is not None:
        app[CALLERS] = callers
        app[HEALTH_PROBLEMS] += callers.troubles()
    app.on_response_prepare.append(_response_headers)
    app.router.add_get(HEALTH_PATH, _healthz)
    app.router.add_get(READY_PATH, _readyz)
    return app


def add_driver(
    app: web.Application, driver: Driver, idle_seconds: float, doing: str = "", *, in_doubt: bool = False
) -> asyncio.Event:
    """Run ``driver`` while the app runs; return the event that wakes it early. ``doing`` describes its work to a person
    when it fails. ``in_doubt``: whether it goes on while the clock of a service that is ``CLOCK_BOUND`` is in doubt, as
    what hears the time must.

    Register it after what it uses (``cleanup_ctx`` closes in reverse order). With ``ServiceEnv.background`` false it is
    only listed in ``app[DRIVERS]``.
    """
    app[DRIVERS].append(driver)
    doing = doing or type(driver).__name__
    return run_beside(app, driver if in_doubt else _WhileClockIsSure(app, driver), idle_seconds, doing)


class _WhileClockIsSure:
    """A driver that pauses while the clock of its service is in doubt: what it closes or gives up stays so."""

    def __init__(self, app: web.Application, driver: Driver) -> None:
        self._app = app
        self._driver = driver

    async def step(self) -> int:
        """A step of the driver, or 0."""
        is_sure = not (self._app[CLOCK_BOUND] and self._app[SERVICE_ENV].vouched.doubt())
        return await self._driver.step() if is_sure else 0


def voucher_of(deps: ServiceEnv, who: str) -> Voucher:
    """The transport to a party whose time vouches for this service's; ``who`` names it in words, as "the log"."""
    return Voucher(deps.transport, deps.vouched, who)


def ask_time(app: web.Application, who: str, url: str, vouched: VouchedTime | None = None) -> None:
    """Ask a party for its time regularly, at ``url``; for services that ask it nothing else regularly. ``vouched``: who
    hears it (default: the service)."""
    deps = app[SERVICE_ENV]
    asking = AskingTime(Voucher(deps.transport, vouched or deps.vouched, who), url)
    add_driver(app, asking, ASK_SECONDS, f"asking {who} for the time", in_doubt=True)


def require_clock(app: web.Application) -> None:
    """Refuse a request while the clock is in doubt, if its answer may be final. Raises ``Abort`` (503)."""
    if app[CLOCK_BOUND]:
        require_no_doubt(app[SERVICE_ENV])


def require_no_doubt(deps: ServiceEnv, vouched: VouchedTime | None = None) -> None:
    """Raise ``Abort`` (503) while the clock contradicts ``vouched`` (default: what the service has heard)."""
    if (vouched or deps.vouched).doubt():
        headers = {"Retry-After": come_back(deps.entropy)}
        raise Abort(CLOCK, status=503, title="The clock of this service is in doubt.", headers=headers)


def run_beside(app: web.Application, driver: Driver, idle_seconds: float, doing: str) -> asyncio.Event:
    """Run ``driver`` while the app runs; at the end its step may go on for ``DRIVER_STOP_SECONDS``."""
    wake = asyncio.Event()
    told = functools.partial(app[STEPS].told, doing)
    deps = app[SERVICE_ENV]
    again = app[STEPS].expect(doing, idle_seconds) if deps.background else None

    async def running(_app: web.Application) -> AsyncIterator[None]:
        if not deps.background:
            yield
            return
        stop = asyncio.Event()
        task = asyncio.create_task(run_driver(driver, deps.clock, deps.entropy, idle_seconds, wake, stop, told, again))
        yield
        stop.set()
        _, pending = await asyncio.wait([task], timeout=DRIVER_STOP_SECONDS)
        task.cancel()
        if pending:
            get_logger(_app[SERVICE_NAME]).warning("driver_cancelled", driver=type(driver).__name__)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    app.cleanup_ctx.append(running)
    return wake


async def read_body(request: web.Request, limit: int, media_type: str | None = None) -> bytes:
    """Read the whole body of a request whose media type is ``media_type`` (``media_types.is_a``; None: any).

    Raises ``Abort``: 415 for another or a missing type or a content coding, 413 over ``limit`` bytes (judged by
    Content-Length before anything is read), 408 when the body does not arrive in time
    (``tacit.service.http.admission``).
    """
    if media_type is not None:
        headers = request.headers
        require_media_type(headers.getall("Content-Type", ()), media_type, headers.getall("Content-Encoding", ()))
    if request.content_length is not None and request.content_length > limit:
        raise too_large(limit)
    body = request.content
    if not isinstance(body, Body):
        raise TypeError("the application must be served by tacit.service.run")
    try:
        return await body.read(limit)
    except OSError as error:
        raise status_abort(HTTPStatus.BAD_REQUEST, "the body arrived incomplete") from error


def _counting(answered: Callable[[int], None] | None, metrics: Metrics) -> Callable[[str, int, float], None]:
    def count(route: str, status: int, began: float) -> None:
        metrics.answered(route, status, asyncio.get_running_loop().time() - began)
        if answered is not None:
            answered(status)

    return count


@web.middleware
async def _problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns errors into answers, and counts answers."""
    began, named = asyncio.get_running_loop().time(), REQUEST.set(RequestId())
    try:
        response = await _in_time(request, handler)
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        response = problem_response(status_abort(error.status, "", _kept_headers(error)))
    except Exception as error:  # the only place where an error becomes an answer
        response = problem_response(abort_of(request.app, error))
        drop_frames(error)
    finally:
        REQUEST.reset(named)
    if request.path not in _HEALTH_PATHS:
        request.app[COUNT](_route(request), response.status, began)
    if request.writer.output_size > 0 and not response.prepared:
        raise ConnectionError("an answer that has begun cannot become another")
    return response


def _route(request: web.Request) -> str:
    """The template of a request's route; never its path."""
    resource = request.match_info.route.resource
    return NO_ROUTE if resource is None else resource.canonical


async def _in_time(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Call ``handler``; a request that waited too long for its turn is told to come back."""
    connection = connection_of(request)
    if connection is not None and connection.late:
        raise busy(request.app[SERVICE_ENV].entropy)
    if request.method in _CHANGING:
        require_clock(request.app)
    return await handler(request)


def abort_of(app: web.Application, error: Exception) -> Abort:
    """The problem that the sender of a request is told about an error."""
    if isinstance(error, Abort):
        return error
    if isinstance(error, Refusal):
        return abort_of_refusal(error)
    if isinstance(error, DecodeError | CryptoError):
        return status_abort(HTTPStatus.BAD_REQUEST, str(error))
    if isinstance(error, TransportError):
        return status_abort(HTTPStatus.BAD_GATEWAY, "a peer did not answer")
    return own_fault(app[SERVICE_NAME], app[SERVICE_ENV], error)


def abort_of_refusal(refusal: Refusal) -> Abort:
    """The problem for a rule that refused a peer's request."""
    return Abort(REFUSAL_PREFIX + refusal.rule, refusal.detail, status=422, title="A rule refused the request.")


def own_fault(service: str, deps: ServiceEnv, error: Exception) -> Abort:
    """The problem for an error on our own side, which is logged in full: 503 (come back later) where a store is
    unreachable or a disk is full, otherwise 500 (internal error)."""
    error_id = deps.entropy(8).hex()
    log = get_logger(service)
    if isinstance(error, Unavailable) or (isinstance(error, OSError) and error.errno in DISK_ERRORS):
        log.error("store_unavailable", error=error, error_id=error_id)
        detail = "it may not have been stored; send the same again later"
        headers = {"Retry-After": come_back(deps.entropy)}
        title = "The service cannot store anything at the moment."
        return Abort(UNAVAILABLE, detail, status=503, title=title, headers=headers, extensions={"error_id": error_id})
    log.error("internal_error", error=error, error_id=error_id, where=places_of(error))
    return Abort(INTERNAL, status=500, title="Internal error.", extensions={"error_id": error_id})


def _kept_headers(error: web.HTTPException) -> dict[str, str]:
    return {name: error.headers[name] for name in ("Allow", "Retry-After", "WWW-Authenticate") if name in error.headers}


async def _response_headers(request: web.Request, response: web.StreamResponse) -> None:
    headers = response.headers
    headers["Date"] = date_field(
        int(request.app[SERVICE_ENV].clock.now())
    )  # others judge their clocks by this service's
    if "Cache-Control" not in headers:
        headers["Cache-Control"] = "no-store"
    headers["X-Content-Type-Options"] = "nosniff"
    headers.popall("Server", None)


async def _healthz(request: web.Request) -> web.Response:
    """Liveness: the process answers, whatever else is wrong."""
    page, found = _page(request.app), _troubles(request.app)
    return web.json_response({**page, "status": "trouble", "trouble": "; ".join(found)} if found else page)


async def _readyz(request: web.Request) -> web.Response:
    """Readiness: 503 with a page that names the problem, as long as a necessary operation failed when last tried."""
    app = request.app
    page, found = _page(app), unready(app)
    kernels: dict[str, str] = app[KERNELS]
    if kernels:
        page["kernels"] = kernels
    if not found:
        return web.json_response(page)
    headers = {"Retry-After": come_back(app[SERVICE_ENV].entropy)}
    return web.json_response(
        {**page, "status": "not ready", "trouble": "; ".join(found)},
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        headers=headers,
    )


def _page(app: web.Application) -> dict[str, object]:
    page: dict[str, object] = {"status": "ok", "service": app[SERVICE_NAME], "version": __version__}
    if late := app[SERVICE_ENV].vouched.late():
        page["clock"] = late
    if CALLERS in app and app[CALLERS].refused:
        page["refused_certificates"] = dict(app[CALLERS].refused)
    return page


def _troubles(app: web.Application) -> list[str]:
    return list(dict.fromkeys(words for trouble in app[HEALTH_PROBLEMS] if (words := trouble())))


def unready(app: web.Application) -> list[str]:
    """What keeps the service from working at the moment."""
    failing = app[STEPS].trouble()
    return _troubles(app) + ([failing] if failing else [])


def _add_own_metrics(app: web.Application) -> None:
    metrics, steps = app[METRICS], app[STEPS]

    async def about() -> Reading:
        return {(app[SERVICE_NAME], __version__): 1}

    metrics.add("tacit_build_info", about)
    metrics.add("tacit_ready", number_of(lambda: float(not unready(app))))
    metrics.add("tacit_step_failing", steps.failing)
    metrics.add("tacit_step_success_timestamp_seconds", steps.succeeded)
    metrics.add("tacit_step_window_seconds", steps.windows)
