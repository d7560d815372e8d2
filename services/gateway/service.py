"""What the gateway does with one encapsulated request (RFC 9458 sections 5 and 6).

Until the request is open, errors are sent in clear. From then on every answer, errors included, travels inside the
encapsulated response, padded to a size class, so that the relay sees one status and one of few lengths. A request
passes once: its encapsulated key is durably remembered before anything reaches the target.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import lru_cache, partial
from http import HTTPStatus
from types import MappingProxyType
from typing import NamedTuple

from services.gateway.config import GatewayConfig
from services.gateway.keys import KeyRing
from services.gateway.leader_uploads import LeaderUploads
from services.gateway.opening import OpenAll, Opening
from services.gateway.ports import ReplayWindow, SeenRequest
from services.gateway.targets import DATE_STEP, AllowList, Target, refused_target, request_date
from tacit import bhttp, ohttp
from tacit.errors import Abort, CryptoError, DecodeError, Refusal, drop_frames
from tacit.media_types import OHTTP_RES, PROBLEM_JSON, UPLOAD_REQ_FRAME, is_a
from tacit.message_frames import MessageAnswer
from tacit.multibuffer.ohttp import decapsulate_all
from tacit.ports import Exchange, GroupTransport, HttpResponse, TransportError
from tacit.service.app import ServiceEnv, own_fault
from tacit.service.base.counters import TrafficCounters
from tacit.service.base.group_commit import GroupCommitter
from tacit.service.http.limits import UploadBudget
from tacit.service.http.problems import problem_answer

KEY_PROBLEM = "https://iana.org/assignments/http-problem-types#ohttp-key"
REPLAYED = "urn:tacit:problem:request-replayed"
TARGET_UNREACHABLE = "urn:tacit:problem:target-unreachable"
WINDOW_AWAY = "urn:tacit:problem:replay-window-away"
WINDOW_RESTORED = "urn:tacit:problem:replay-window-restored"
REQUEST_FIELDS = ("content-type", "accept")
RESPONSE_FIELDS = ("content-type", "cache-control", "retry-after")

STRAGGLING_SECONDS = 3.0
"""Seconds that the messages of a frame wait for a target after another one has answered all of its own."""

_GROUP = 256
_KNOWN_FIELDS = 256
_SUCCESS = bhttp.Response(200)
_UNANSWERED = MessageAnswer(500, PROBLEM_JSON, b"")
_INNER = {kind: f"inner_{kind}xx" for kind in range(1, 6)}


class _Passing(NamedTuple):
    """A request that may be forwarded if it is new: its index among others, its size, and what its target gets."""

    place: int
    size: int
    seen: SeenRequest
    target: Target
    method: str
    headers: Mapping[str, str]
    content: bytes


class Gateway:
    """Opens requests, checks them, and forwards them through ``deps.transport``."""

    def __init__(self, config: GatewayConfig, deps: ServiceEnv, ring: KeyRing, window: ReplayWindow) -> None:
        self.config = config
        self.ring = ring
        self.shown: Mapping[int, bytes] = {}
        """The encoded active key configurations of this gateway that the log shows, by period."""
        self.counters = TrafficCounters("gateway", deps.clock, config.bucket_seconds)
        self.budget = UploadBudget(
            config.max_in_flight, deps.entropy, largest=config.max_request, answer=ohttp.SIZE_CLASSES[-1]
        )
        self._deps = deps
        self.targets = AllowList(config.targets, insecure_http=config.insecure_http)
        self._opening = Opening(self._opener())
        self._leader_uploads = LeaderUploads(self.targets.frame_tokens(), deps)
        self._group: GroupTransport = (
            deps.transport if isinstance(deps.transport, GroupTransport) else self._leader_uploads
        )
        self._seen = window
        self._window: GroupCommitter[SeenRequest, bool] = GroupCommitter(
            window.remember, _GROUP, config.group_delay, deps.clock
        )

    def _opener(self) -> OpenAll:
        keys = self.ring.decapsulator()
        return partial(decapsulate_all, keys) if self.config.batch_crypto else keys.decapsulate_all

    def rotate_if_due(self) -> bool:
        """Make and delete keys as periods begin; returns whether anything changed. A clock in doubt begins none."""
        vouched, before = self._deps.vouched, self.ring.period
        if vouched.doubt():
            return False
        shown, now = set(self.shown.values()), self._deps.clock.now()
        changed = self.ring.rotate_if_due(self._deps.entropy, now, vouched.past(), shown)
        if changed or self.ring.period != before:
            self._opening.open_all = self._opener()
        return changed

    def key_trouble(self) -> str:
        """That devices seal for a key which this gateway does not have, in words fit for the public; otherwise the
        empty string."""
        period = self.ring.period
        shown = self.shown.get(period)
        if shown is None or shown == self.ring.active.config.encode():
            return ""
        return f"the log shows another key for period {period} than this gateway has; put its key file back"

    async def close(self) -> None:
        """Finish the group of requests that is being remembered, and the uploads under way."""
        await self._window.close()
        await self._leader_uploads.close()

    async def answer(self, message: bytes) -> bytes:
        """The encapsulated response to ``message``.

        Raises, while the request is not yet open, ``DecodeError`` if it is truncated and ``Abort`` (422, problem type
        #ohttp-key) if none of our keys opens it.
        """
        try:
            opened = await self._opening.open(message)
        except CryptoError as error:
            raise _wrong_key(error) from error
        (response,) = await self._inside([(opened, len(message))])
        return self._seal(opened[1], response)

    async def answer_frame(self, messages: Sequence[bytes]) -> list[MessageAnswer]:
        """One answer per message, as each would get alone: an error in one does not affect the others."""
        self.counters.add("framed", len(messages))
        answers: list[MessageAnswer] = []
        requests: list[tuple[ohttp.Opened, int]] = []
        places: list[int] = []
        for place, opened_message in enumerate(self._opening.open_all(messages)):
            if isinstance(opened_message, Exception):
                abort = (
                    _wrong_key(opened_message)
                    if isinstance(opened_message, CryptoError)
                    else _make_malformed_abort(opened_message)
                )
                answers.append(_answer(abort))
                drop_frames(opened_message)
            else:
                answers.append(_UNANSWERED)
                requests.append((opened_message, len(messages[place])))
                places.append(place)
        for place, (opened, _), response in zip(places, requests, await self._inside(requests), strict=True):
            try:
                answers[place] = MessageAnswer(200, OHTTP_RES, self._seal(opened[1], response))
            except Exception as error:
                answers[place] = _answer(self._internal(error))
                drop_frames(error)
        return answers

    def _seal(self, context: ohttp.ServerContext, response: bhttp.Response) -> bytes:
        """``response``, padded and encapsulated for the client (RFC 9458). One that cannot be encoded or is too long to
        be padded is replaced by a 502, so that every opened request is answered inside."""
        try:
            sealed = ohttp.padded_response(context, response, self._deps.entropy)
        except (Refusal, ValueError):
            response = _problem(_unreachable(502))
            sealed = ohttp.padded_response(context, response, self._deps.entropy)
        self.counters.add(_INNER[response.status // 100])
        return sealed

    async def _inside(self, requests: Sequence[tuple[ohttp.Opened, int]]) -> list[bhttp.Response]:
        """The inner responses: the reason for a request that must not pass, otherwise the target's answer."""
        answers: list[bhttp.Response] = [_SUCCESS] * len(requests)
        passing: list[_Passing] = []
        for place, ((encoded, context), size) in enumerate(requests):
            try:
                passing.append(self._admit(place, bhttp.decode_request(encoded), context.enc, size))
            except Exception as error:  # errors of an opened request are answered inside
                answers[place] = self._failed(error)
                drop_frames(error)
        try:
            # remembered durably before any is forwarded: a device whose request a crash stops here seals anew, but in
            # the other order the same message could pass a second time
            fresh = await self._are_new([one.seen for one in passing])
        except Exception as error:
            for one in passing:
                answers[one.place] = self._failed(error)
            drop_frames(error)
            return answers
        new = []
        for one, is_new in zip(passing, fresh, strict=True):
            if is_new:
                new.append(one)
                self._deps.saw("gateway", request_bytes=one.size, target=one.target.name)
            else:
                answers[one.place] = _problem(Abort(REPLAYED, status=409, title="The request was sent before."))
        for one, answer in zip(new, await self._fetch_all(new), strict=True):
            answers[one.place] = answer
        return answers

    def _admit(self, place: int, request: bhttp.Request, enc: bytes, size: int) -> _Passing:
        """Check ``request`` against the allow list and its Date. Raises ``Abort`` or ``DecodeError``."""
        target = self.targets.target_of(request)
        date = request_date(request.fields, self._deps.clock.now(), self.config.date_window)
        self._check_remembered(date)
        return _Passing(
            place, size, SeenRequest(enc, date), target, request.method, _forwarded_fields(request), request.content
        )

    def _check_remembered(self, date: int) -> None:
        """Refuse a request that may have passed before the replay window was restored from a backup, or while Redis had
        another time, judged by its Date. Raises ``Abort`` (503)."""
        last = self._seen.closed_until + self.config.date_window
        if date <= last and self._seen.closed_until:
            wait = max(1, last + DATE_STEP - int(self._deps.clock.now()))
            title = "The gateway does not know any more what passed before; come back later."
            raise Abort(WINDOW_RESTORED, status=503, title=title, headers={"Retry-After": str(wait)})

    async def _are_new(self, requests: Sequence[SeenRequest]) -> Sequence[bool]:
        try:
            return await self._window.submit_all(requests)
        except Exception as error:
            fault = self._internal(error)
            if fault.status != HTTPStatus.SERVICE_UNAVAILABLE:
                raise fault from error
            title = "The gateway's replay window is not available."
            raise Abort(
                WINDOW_AWAY, status=503, title=title, headers=fault.headers, extensions=fault.extensions
            ) from error

    async def _fetch_all(self, passing: Sequence[_Passing]) -> list[bhttp.Response]:
        """The targets' answers. No request waits for another target that takes longer by ``STRAGGLING_SECONDS``: a
        target that hangs would else hold up every frame of the relay in which one message is for it."""
        targets: dict[str, list[_Passing]] = {}
        for one in passing:
            targets.setdefault(one.target.origin, []).append(one)
        if len(targets) <= 1:
            return await self._fetch_from(passing)
        tasks = [asyncio.ensure_future(self._fetch_from(group)) for group in targets.values()]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(tasks, timeout=STRAGGLING_SECONDS)
            late = _problem(_unreachable(504))
            answers = {
                one.place: answer
                for task, group in zip(tasks, targets.values(), strict=True)
                for one, answer in zip(group, task.result() if task.done() else [late] * len(group), strict=True)
            }
        finally:
            for task in tasks:
                task.cancel()
        return [answers[one.place] for one in passing]

    async def _fetch_from(self, passing: Sequence[_Passing]) -> list[bhttp.Response]:
        """The answers of one target. Each request is sent alone, unless it may share an exchange with others."""
        grouped = [one for one in passing if self._group.groups(one.method, one.target.url)]
        if not grouped:
            return list(await asyncio.gather(*map(self._fetch, passing)))
        together = {one.place for one in grouped}
        alone = [one for one in passing if one.place not in together]
        some, others = await asyncio.gather(self._fetch_group(grouped), asyncio.gather(*map(self._fetch, alone)))
        by_place = dict(zip([one.place for one in (*grouped, *alone)], (*some, *others), strict=True))
        return [by_place[one.place] for one in passing]

    async def _fetch(self, one: _Passing) -> bhttp.Response:
        return (await self._collect_answers(self._exchange(one), 1))[0]

    async def _fetch_group(self, group: Sequence[_Passing]) -> list[bhttp.Response]:
        exchanges = [Exchange(one.target.url, one.headers, one.content) for one in group]
        return await self._collect_answers(self._group.post_all(exchanges), len(group))

    async def _exchange(self, one: _Passing) -> list[HttpResponse]:
        headers = {**one.headers, **one.target.credential.headers()}
        return [await self._deps.transport.request(one.method, one.target.url, headers=headers, body=one.content)]

    async def _collect_answers(
        self, answers: Awaitable[Sequence[HttpResponse | TransportError]], count: int
    ) -> list[bhttp.Response]:
        """The ``count`` answers, or ``count`` times the reason why there are none."""
        try:
            async with asyncio.timeout(self.config.target_timeout):
                return [self._as_bhttp(answer) for answer in await answers]
        except TimeoutError:
            failed = _problem(_unreachable(504))
        except TransportError as error:
            failed = _make_unanswered(error)
        except Exception as error:  # errors of an opened request are answered inside
            failed = self._failed(error)
            drop_frames(error)
        return [failed] * count

    def _as_bhttp(self, response: HttpResponse | TransportError) -> bhttp.Response:
        """A target's answer, or the reason why there is none. A 401 becomes a 502: that the target refuses the
        gateway's credential is nothing that the client could fix."""
        if isinstance(response, TransportError):
            return _make_unanswered(response)
        if response.status == HTTPStatus.UNAUTHORIZED:
            self.counters.add("target_knows_us_not")
            return _problem(_unreachable(502))
        return _as_bhttp(response)

    def _failed(self, error: Exception) -> bhttp.Response:
        """The inner response for a request that was not forwarded."""
        if isinstance(error, Abort):
            abort = error
        else:
            abort = _make_malformed_abort(error) if isinstance(error, DecodeError) else self._internal(error)
        return _problem(abort)

    def _internal(self, error: Exception) -> Abort:
        return own_fault("gateway", self._deps, error)


def _forwarded_fields(request: bhttp.Request) -> Mapping[str, str]:
    """The header fields that are forwarded to a target. Raises ``DecodeError`` for repeated fields and for trailers,
    and ``Abort`` (403) for frames: only gateways make them, as a leader takes their messages for those of many."""
    if request.trailers:
        raise DecodeError("a request with trailers is not forwarded")
    return _passed_fields(request.fields)


@lru_cache(maxsize=_KNOWN_FIELDS)
def _passed_fields(fields: bhttp.Fields) -> Mapping[str, str]:
    passed = {name: bhttp.field_value(fields, name) for name in REQUEST_FIELDS}
    if is_a(passed["content-type"] or "", UPLOAD_REQ_FRAME):
        raise refused_target()
    return MappingProxyType({name: value for name, value in passed.items() if value is not None})


def _as_bhttp(response: HttpResponse) -> bhttp.Response:
    if response.status == _SUCCESS.status and not response.body and not response.headers:
        return _SUCCESS
    fields = tuple((name, response.headers[name]) for name in RESPONSE_FIELDS if name in response.headers)
    return bhttp.Response(response.status, fields, response.body)


def _answer(abort: Abort) -> MessageAnswer:
    """An answer in clear, outside the encapsulation."""
    return MessageAnswer(abort.status, PROBLEM_JSON, problem_answer(abort).body)


def _problem(abort: Abort) -> bhttp.Response:
    answer = problem_answer(abort)
    kept = tuple((name.lower(), abort.headers[name]) for name in ("Date", "Retry-After") if name in abort.headers)
    fields = (("content-type", answer.headers["Content-Type"]), *kept)
    return bhttp.Response(abort.status, fields, answer.body)


def _wrong_key(error: Exception) -> Abort:
    return Abort(KEY_PROBLEM, str(error), status=422, title="The request was made for another key.")


def _make_malformed_abort(error: Exception) -> Abort:
    return Abort("about:blank", str(error), status=400)


def _make_unanswered(error: TransportError) -> bhttp.Response:
    drop_frames(error)
    return _problem(_unreachable(504 if isinstance(error.__cause__, TimeoutError) else 502))


def _unreachable(status: int) -> Abort:
    return Abort(TARGET_UNREACHABLE, status=status, title="The target did not answer.")
