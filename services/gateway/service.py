"""What the gateway does with one encapsulated request (RFC 9458 section 5 and 6).

Before the request is open, errors are in clear. From then on every answer, errors included, travels inside the
encapsulated response, padded to a size class, so that the relay sees one status and one of few lengths. A request
passes once: its encapsulated key is durably remembered before anything reaches the target.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence

from services.gateway.config import GatewayConfig
from services.gateway.keys import KeyRing
from services.gateway.opening import OpenAll, Opening
from services.gateway.store import ReplayWindow, SeenRequest
from services.gateway.targets import AllowList, Target, request_date
from tacit import bhttp, ohttp
from tacit.errors import Abort, CryptoError, DecodeError, Refusal, Unavailable
from tacit.frames import Answer
from tacit.media_types import OHTTP_RES, PROBLEM_JSON
from tacit.multibuffer.ohttp import decapsulate_all
from tacit.ports import HttpResponse, TransportError
from tacit.service.app import Deps, own_fault, problem_response
from tacit.service.counters import TrafficCounters
from tacit.service.group_commit import GroupCommitter
from tacit.service.limits import ByteBudget

KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"
REPLAYED = "urn:tacit:problem:request-replayed"
TARGET_UNREACHABLE = "urn:tacit:problem:target-unreachable"
REQUEST_FIELDS = ("content-type", "accept")
RESPONSE_FIELDS = ("content-type", "cache-control", "retry-after")

_GROUP = 256
_INNER = {kind: f"inner_{kind}xx" for kind in range(1, 6)}


class Gateway:
    """Opens requests, checks them and passes them on through ``deps.transport``."""

    def __init__(self, config: GatewayConfig, deps: Deps, ring: KeyRing, window: ReplayWindow) -> None:
        self.config = config
        self.ring = ring
        self.counters = TrafficCounters("gateway", deps.clock, config.bucket_seconds)
        self.budget = ByteBudget(config.max_in_flight, deps.entropy)
        self._deps = deps
        self._targets = AllowList(config.targets, insecure_http=config.insecure_http)
        self._opening = Opening(self._opener())
        self._window: GroupCommitter[SeenRequest, bool] = GroupCommitter(
            window.remember, _GROUP, config.group_delay, deps.clock
        )

    def _opener(self) -> OpenAll:
        keys = self.ring.gateway()
        return functools.partial(decapsulate_all, keys) if self.config.batch_crypto else keys.decapsulate_all

    def rotate(self) -> None:
        """Make a new active key now."""
        self.ring.rotate(self._deps.entropy, self._deps.clock.now())
        self._opening.open_all = self._opener()

    def rotate_if_due(self) -> bool:
        """Rotate or retire keys whose time is over; whether anything changed."""
        changed = self.ring.rotate_if_due(self._deps.entropy, self._deps.clock.now())
        if changed:
            self._opening.open_all = self._opener()
        return changed

    async def close(self) -> None:
        """Finish the group that is being remembered."""
        await self._window.close()

    async def answer(self, message: bytes) -> bytes:
        """The encapsulated response to ``message``.

        Raises, before the request is open, ``DecodeError`` when it is truncated and ``Abort`` (422, problem type
        #ohttp-key) when none of our keys opens it.
        """
        try:
            opened = await self._opening.open(message)
        except CryptoError as error:
            raise _wrong_key(error) from error
        return await self._sealed(opened, len(message))

    async def answer_frame(self, messages: Sequence[bytes]) -> list[Answer]:
        """One answer per message, as each would get alone: what is wrong with one costs no other anything."""
        opened = self._opening.open_all(messages)
        self.counters.add("framed", len(messages))
        pairs = zip(messages, opened, strict=True)
        return list(await asyncio.gather(*(self._framed(each, len(message)) for message, each in pairs)))

    async def _framed(self, opened: ohttp.Opened | Exception, size: int) -> Answer:
        """Never raises: an error is this message's answer."""
        try:
            if not isinstance(opened, Exception):
                return Answer(200, OHTTP_RES, await self._sealed(opened, size))
            abort = _wrong_key(opened) if isinstance(opened, CryptoError) else _malformed(opened)
        except Exception as error:
            abort = self._internal(error)
        response = problem_response(abort)
        return Answer(abort.status, PROBLEM_JSON, response.body if isinstance(response.body, bytes) else b"")

    async def _sealed(self, opened: ohttp.Opened, size: int) -> bytes:
        """The encapsulated response to a request of ``size`` bytes that is open."""
        encoded, context = opened
        response = await self._answer_inside(encoded, context.enc, size)
        try:
            sealed = ohttp.padded_response(context, response, self._deps.entropy)
        except (Refusal, ValueError):
            response = _problem(_unreachable(502))
            sealed = ohttp.padded_response(context, response, self._deps.entropy)
        self.counters.add(_INNER[response.status // 100])
        return sealed

    async def _answer_inside(self, encoded: bytes, enc: bytes, size: int) -> bhttp.Response:
        try:
            return _as_bhttp(await self._pass_on(bhttp.decode_request(encoded), enc, size))
        except Abort as abort:
            return _problem(abort)
        except DecodeError as error:
            return _problem(_malformed(error))
        except Exception as error:  # what happens inside is answered inside
            return _problem(self._internal(error))

    async def _pass_on(self, request: bhttp.Request, enc: bytes, size: int) -> HttpResponse:
        """Check ``request``, remember it, send it. Raises ``Abort`` or ``DecodeError``."""
        target = self._targets.target_of(request)
        date = request_date(request.fields, self._deps.clock.now(), self.config.date_window)
        headers = _passed(request)
        if not await self._is_new(SeenRequest(enc, date)):
            raise Abort(REPLAYED, status=409, title="The request was sent before.")
        self._deps.saw("gateway", request_bytes=size, target=target.name)
        return await self._fetch(request, target, headers)

    async def _is_new(self, request: SeenRequest) -> bool:
        try:
            return await self._window.submit(request)
        except TransportError as error:
            raise Unavailable("the replay window does not answer") from error

    async def _fetch(self, request: bhttp.Request, target: Target, headers: dict[str, str]) -> HttpResponse:
        try:
            async with asyncio.timeout(self.config.target_timeout):
                return await self._deps.transport.request(
                    request.method, target.url, headers=headers, body=request.content
                )
        except TimeoutError as error:
            raise _unreachable(504) from error
        except TransportError as error:
            raise _unreachable(504 if isinstance(error.__cause__, TimeoutError) else 502) from error

    def _internal(self, error: Exception) -> Abort:
        return own_fault("gateway", self._deps, error)


def _passed(request: bhttp.Request) -> dict[str, str]:
    """The fields that go on to a target. Raises ``DecodeError`` for repeated ones and for trailers."""
    if request.trailers:
        raise DecodeError("a request with trailers is not passed on")
    found = {name: bhttp.field_value(request.fields, name) for name in REQUEST_FIELDS}
    return {name: value for name, value in found.items() if value is not None}


def _as_bhttp(response: HttpResponse) -> bhttp.Response:
    fields = tuple((name, response.headers[name]) for name in RESPONSE_FIELDS if name in response.headers)
    return bhttp.Response(response.status, fields, response.body)


def _problem(abort: Abort) -> bhttp.Response:
    response = problem_response(abort)
    kept = tuple((name.lower(), abort.headers[name]) for name in ("Date", "Retry-After") if name in abort.headers)
    fields = (("content-type", response.headers["Content-Type"]), *kept)
    body = response.body if isinstance(response.body, bytes) else b""
    return bhttp.Response(abort.status, fields, body)


def _wrong_key(error: Exception) -> Abort:
    return Abort(KEY_PROBLEM, str(error), status=422, title="The request was made for another key.")


def _malformed(error: Exception) -> Abort:
    return Abort("about:blank", str(error), status=400)


def _unreachable(status: int) -> Abort:
    return Abort(TARGET_UNREACHABLE, status=status, title="The target did not answer.")
