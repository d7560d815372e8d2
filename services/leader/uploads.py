"""POST /tasks/{task-id}/reports for one request or many: used by the HTTP resource, by the one for frames of a gateway,
and by a gateway in the same process."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from aiohttp import web

from services.leader.senders import GATEWAY, Sender, Senders, require_sender
from services.leader.service import Leader
from tacit import media_types
from tacit.aggregator.http import decode, known_task_id
from tacit.aggregator.parties import Parties
from tacit.codec import b64url
from tacit.errors import Abort, drop_frames
from tacit.message_frames import MOST_UPLOAD_BYTES, MessageAnswer, decode_uploads, encode_answers
from tacit.messages import UploadErrors
from tacit.messages.slices import UploadSlices, slice_uploads
from tacit.messages.version_codec import encode_upload_errors
from tacit.ports import HttpResponse
from tacit.roles.aggregator import Party
from tacit.service.app import ServiceEnv, own_fault
from tacit.service.http.fast_route import Asking, FastRoute, Respond
from tacit.service.http.limits import ByteBudget
from tacit.service.http.problems import Answer, problem_answer

UploadCall = Callable[[Sequence[tuple[str, str | None, bytes]]], Awaitable[list[HttpResponse]]]
"""Called with (task id as in the URL, Content-Type, body) of several uploads; returns the answers in the same order,
problem documents included."""

UPLOAD: web.AppKey[UploadCall] = web.AppKey("upload")

REPORTS = "/tasks/{task_id}/reports"
"""Path of the resource for uploads."""

_MEDIA_TYPE = media_types.dap("upload-req")
_ERRORS = media_types.dap("upload-errors")
_STORED = HttpResponse(200, {}, b"")


class Uploads:
    """Handles upload requests, within a budget of bytes at a time. ``count`` gets the status of each upload that shares
    a request, or needs none, and the loop's time at which it came."""

    def __init__(
        self,
        leader: Leader,
        parties: Parties,
        deps: ServiceEnv,
        budget: ByteBudget,
        max_body: int,
        count: Callable[[int, float], None],
    ) -> None:
        self._leader = leader
        self._parties = parties
        self._deps = deps
        self._max_body = max_body
        self._budget = budget
        self._count = count

    def route(self, prefix: str, senders: Senders) -> FastRoute:
        """The HTTP resource below ``prefix``, for whom ``senders`` knows."""

        def admit(head: Asking) -> Respond:
            return partial(self._upload, senders, senders.check(head), head.match_info["task_id"])

        def explain(abort: Abort, named: Mapping[str, str]) -> None:
            abort.task_id = abort.task_id or known_task_id(named["task_id"])

        return FastRoute(prefix + REPORTS, _MEDIA_TYPE, self._max_body, admit, explain=explain)

    async def _upload(self, senders: Senders, sender: Sender, task_id: str, body: bytes) -> Answer:
        senders.charge(sender, len(body))
        (verdict,) = await self.take([(task_id, _MEDIA_TYPE, body)], sender)
        if isinstance(verdict, Exception):
            raise verdict
        return Answer() if verdict is None else Answer(verdict, {"Content-Type": _ERRORS})

    def frame_route(self, prefix: str, senders: Senders) -> FastRoute:
        """The HTTP resource for frames of uploads (``tacit.message_frames``), for the gateways that ``senders``
        knows."""

        def admit(head: Asking) -> Respond:
            senders.require_gateway(head)
            return self._take_frame

        return FastRoute(prefix + "/uploads", media_types.UPLOAD_REQ_FRAME, MOST_UPLOAD_BYTES, admit)

    async def _take_frame(self, frame: bytes) -> Answer:
        uploads = [(b64url(task_id), _MEDIA_TYPE, body) for task_id, body in decode_uploads(frame)]
        answers = encode_answers([_message_answer(answer) for answer in await self.call(uploads)])
        return Answer(answers, {"Content-Type": media_types.UPLOAD_RES_FRAME})

    async def call(self, requests: Sequence[tuple[str, str | None, bytes]]) -> list[HttpResponse]:
        """The answers to upload requests (see ``UploadCall``), which are counted as if each had come by itself. Never
        raises for faults of a client or of the database."""
        began = asyncio.get_running_loop().time()
        verdicts = await self.take(requests)
        answers = [self._answer(verdict, task_id) for verdict, (task_id, _, _) in zip(verdicts, requests, strict=True)]
        for verdict in verdicts:
            if isinstance(verdict, Exception):
                drop_frames(verdict)
        for answer in answers:
            self._count(answer.status, began)
        return answers

    async def take(
        self, requests: Sequence[tuple[str, str | None, bytes]], sender: Sender = GATEWAY
    ) -> list[bytes | Exception | None]:
        """Store the reports of upload requests of one sender in one transaction. The result for each: ``None`` if every
        report is stored, the encoded errors of those that were not, or the exception for which none was. A fault in
        one request affects only that request. A shuffler's request without reports says that no more will come."""
        verdicts: list[bytes | Exception | None] = [None] * len(requests)
        taken: list[tuple[int, Party, list[UploadSlices]]] = []
        with contextlib.ExitStack() as held:
            for place, (task_id, content_type, body) in enumerate(requests):
                try:
                    held.enter_context(self._budget.reserve(len(body)))
                    self._check(content_type, body)
                    reports = decode(slice_uploads, body)
                    party = await self._parties.demand(task_id)
                    require_sender(sender, party.task)
                    if party.task.is_mixed and not reports:
                        await self._leader.forwarded(party)
                    taken.append((place, party, reports))
                except Exception as error:  # as the application's own middleware does: an error becomes an answer
                    verdicts[place] = error
            verdicts_by_task: Sequence[UploadErrors | Exception | None]
            try:
                verdicts_by_task = await self._leader.upload([(party, reports) for _, party, reports in taken])
            except Exception as error:
                verdicts_by_task = [error] * len(taken)
        for (place, party, _), verdict in zip(taken, verdicts_by_task, strict=True):
            version = party.task.version
            verdicts[place] = encode_upload_errors(verdict, version) if isinstance(verdict, UploadErrors) else verdict
        return verdicts

    def _answer(self, found: bytes | Exception | None, task_id: str) -> HttpResponse:
        if found is None:
            return _STORED
        if isinstance(found, Exception):
            return self._refuse(found, task_id)
        return HttpResponse(200, {"content-type": _ERRORS}, found)

    def _refuse(self, error: Exception, task_id: str) -> HttpResponse:
        """An error as its problem document, with the task id. One that is no ``Abort`` is logged and answered as our
        own fault (503 or 500)."""
        if not isinstance(error, Abort):
            error = own_fault("leader", self._deps, error)
        named = error.task_id
        error.task_id = named or known_task_id(task_id)
        answer = problem_answer(error)
        error.task_id = named  # the error object may belong to several requests
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return HttpResponse(answer.status, headers, answer.body)

    def _check(self, content_type: str | None, body: bytes) -> None:
        if len(body) > self._max_body:
            raise Abort("about:blank", f"the body may have at most {self._max_body} bytes", status=413)
        if content_type is None or not media_types.is_a(content_type, _MEDIA_TYPE):
            raise Abort("about:blank", f"the body must be {_MEDIA_TYPE}", status=415)


def _message_answer(answer: HttpResponse) -> MessageAnswer:
    retry_after = answer.headers.get("retry-after")
    return MessageAnswer(
        answer.status, answer.headers.get("content-type", ""), answer.body, int(retry_after) if retry_after else None
    )
