"""Uploads to a leader that knows this gateway, in frames (``tacit.message_frames``).

Uploads that may leave in one turn of the event loop leave in one request, in random order. None waits for others: those
of one group of the replay window, or of one frame of the relay, become free together. So the leader sees no more groups
than it would see from the times of single uploads. A single upload leaves as plain DAP, as do all of them while the
leader takes no frames. A frame may be sent again, like an upload: the leader stores a report once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from http import HTTPStatus
from typing import NamedTuple

from tacit.answers import may_pass
from tacit.codec import unb64url
from tacit.errors import DecodeError
from tacit.fast_paths import FORWARDED
from tacit.media_types import UPLOAD_REQ_FRAME, UPLOAD_RES_FRAME, dap, is_a
from tacit.message_frames import (
    MOST_UPLOAD_BYTES,
    MOST_UPLOADS,
    REQUEST_OVERHEAD,
    TASK_ID_BYTES,
    decode_answers,
    encode_requests,
)
from tacit.ports import Exchange, HttpResponse, TransportError
from tacit.service.app import ServiceEnv
from tacit.service.base.log import get_logger
from tacit.service.batcher import Batcher, FrameBounds
from tacit.service.http.limits import come_back
from tacit.service.http.live_tokens import ShownToken

PAUSE_SECONDS = 300.0
"""Seconds after which frames are offered again to a leader that did not take one."""

_BOUNDS = FrameBounds(MOST_UPLOADS, MOST_UPLOAD_BYTES, 0.0)
_KNOWN_LENGTH = 512
_UPLOAD = re.compile(r"(.+)/tasks/([A-Za-z0-9_-]+)/reports")
_UPLOAD_TYPE = dap("upload-req")

Answer = HttpResponse | TransportError


class _Upload(NamedTuple):
    exchange: Exchange
    message: bytes


class _Leader:
    """What this gateway sends to one leader: frames, and single uploads for ``PAUSE_SECONDS`` after the leader took no
    frame."""

    def __init__(self, base: str, credential: ShownToken, deps: ServiceEnv) -> None:
        self._base = base
        self._credential = credential
        self._deps = deps
        self._alone_until = 0.0
        self.batcher: Batcher[_Upload, Answer] = Batcher(_BOUNDS, deps, self._send)

    async def _send(self, uploads: Sequence[_Upload]) -> Sequence[Answer]:
        FORWARDED.items += len(uploads)
        alone = [one.exchange for one in uploads]
        if len(uploads) == 1 or self._deps.clock.now() < self._alone_until:
            return await self._post_each(alone)
        body = encode_requests([one.message for one in uploads])
        answer = await self.post(Exchange(frames_url(self._base), {"Content-Type": UPLOAD_REQ_FRAME}, body))
        if not isinstance(answer, TransportError) and _refuses(answer):
            self._alone_until = self._deps.clock.now() + PAUSE_SECONDS
            get_logger("gateway").warning("frame_not_taken", target=self._base, status=answer.status)
            return await self._post_each(alone)
        return self._share_answer(answer, uploads)

    async def _post_each(self, exchanges: Sequence[Exchange]) -> Sequence[Answer]:
        FORWARDED.fallbacks += len(exchanges)
        return await asyncio.gather(*map(self.post, exchanges))

    async def post(self, one: Exchange) -> Answer:
        """The answer to one request, with which the gateway shows its credential."""
        headers = {**one.headers, **self._credential.headers()}
        try:
            return await self._deps.transport.request("POST", one.url, headers=headers, body=one.body)
        except TransportError as error:
            return error

    def _share_answer(self, answer: Answer, uploads: Sequence[_Upload]) -> Sequence[Answer]:
        """One answer for each of ``uploads``, in their order, from the one answer to their frame. A temporary error of
        the frame goes to all, each with a time of its own to come back; what cannot be read counts as
        ``TransportError``."""
        if isinstance(answer, TransportError):
            return [answer] * len(uploads)
        if may_pass(answer.status):
            return [self._refuse(answer) for _ in uploads]
        try:
            answers = decode_answers(
                answer.body if _is_frame(answer) else b"", count=len(uploads), max_body=MOST_UPLOAD_BYTES
            )
        except DecodeError:
            return [TransportError("the leader's answer to a frame cannot be read")] * len(uploads)
        return [HttpResponse(one.status, _headers(one.content_type, one.retry_after), one.body) for one in answers]

    def _refuse(self, answer: HttpResponse) -> HttpResponse:
        """``answer``, with a time of its own to come back for each upload, if it has one."""
        if "retry-after" not in answer.headers:
            return answer
        return replace(answer, headers={**answer.headers, "retry-after": come_back(self._deps.entropy)})


class LeaderUploads:
    """A ``GroupTransport`` for uploads to the ``leaders``, by the URL in front of their resources, each with what this
    gateway shows to it. Other requests go through ``deps.transport``."""

    def __init__(self, leaders: Mapping[str, ShownToken], deps: ServiceEnv) -> None:
        self._onward = deps.transport
        self._leaders = {base: _Leader(base, credential, deps) for base, credential in leaders.items()}
        self._known = lru_cache(maxsize=4096)(self._find)

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """Pass one request on by itself, in no frame."""
        return await self._onward.request(method, url, headers=headers, body=body)

    def groups(self, method: str, url: str) -> bool:
        """Whether the request is a POST to ``/tasks/{task-id}/reports`` of one of the leaders; longer URLs than
        ``_KNOWN_LENGTH`` are not."""
        return method == "POST" and len(url) <= _KNOWN_LENGTH and self._known(url) is not None

    async def post_all(self, exchanges: Sequence[Exchange]) -> Sequence[Answer]:
        """The leaders' answers to uploads, as each would get alone, in the order of ``exchanges``."""
        return await asyncio.gather(*map(self._submit, exchanges))

    async def close(self) -> None:
        """Wait for the frames under way."""
        for leader in self._leaders.values():
            await leader.batcher.close()

    def _submit(self, one: Exchange) -> Awaitable[Answer]:
        known = self._known(one.url)
        if known is None:
            raise ValueError("not an upload to a leader")
        leader, task_id = known
        if not is_a(one.headers.get("content-type", ""), _UPLOAD_TYPE):
            return leader.post(one)
        message = task_id + one.body
        return leader.batcher.submit(_Upload(one, message), REQUEST_OVERHEAD + len(message))

    def _find(self, url: str) -> tuple[_Leader, bytes] | None:
        """The leader and the task id of an upload's URL, None for any other URL."""
        match = _UPLOAD.fullmatch(url)
        leader = None if match is None else self._leaders.get(match[1])
        if match is None or leader is None:
            return None
        try:
            return leader, unb64url(match[2], length=TASK_ID_BYTES)
        except DecodeError:
            return None


def _is_frame(answer: HttpResponse) -> bool:
    return answer.status == HTTPStatus.OK and answer.is_a(UPLOAD_RES_FRAME)


def _refuses(answer: HttpResponse) -> bool:
    """Whether an answer to a frame says that the leader, or what stands before it, takes none: nothing is acknowledged
    by it, and single uploads may pass. A server in trouble refuses nothing."""
    return not (may_pass(answer.status) or _is_frame(answer))


def frames_url(leader: str) -> str:
    """Where a leader takes frames; ``leader``: the URL in front of its resources."""
    return f"{leader}/uploads"


def _headers(content_type: str, retry_after: int | None) -> dict[str, str]:
    headers = {"content-type": content_type} if content_type else {}
    return headers if retry_after is None else {**headers, "retry-after": str(retry_after)}
