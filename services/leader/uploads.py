"""POST /tasks/{task-id}/reports without HTTP: the same code for the HTTP resource and for a gateway in this process."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import web

from services.leader.service import Leader
from tacit import media_types
from tacit.aggregator.http import decode, known_task_id, message
from tacit.aggregator.parties import Parties
from tacit.errors import Abort
from tacit.messages.slices import UploadSlices, slice_uploads
from tacit.ports import HttpResponse
from tacit.roles.aggregator import Party
from tacit.service.app import Deps, own_fault
from tacit.service.limits import ByteBudget
from tacit.service.problems import problem_response

UploadCall = Callable[[str, str | None, bytes], Awaitable[HttpResponse]]
"""Task id as in the URL, Content-Type, body -> the answer, problem documents included."""

UploadAllCall = Callable[[Sequence[tuple[str, str | None, bytes]]], Awaitable[list[HttpResponse]]]
"""As many of them at once: every answer in its place."""

UPLOAD: web.AppKey[UploadCall] = web.AppKey("upload")
UPLOAD_ALL: web.AppKey[UploadAllCall] = web.AppKey("upload_all")

_MEDIA_TYPE = media_types.dap("upload-req")
_ERRORS = media_types.dap("upload-errors")
_STORED = HttpResponse(200, {}, b"")


class Uploads:
    """Takes upload requests, at most so many bytes of them at a time."""

    def __init__(self, leader: Leader, parties: Parties, deps: Deps, budget: ByteBudget, max_body: int) -> None:
        self._leader = leader
        self._parties = parties
        self._deps = deps
        self._max_body = max_body
        self.budget = budget

    async def call(self, task_id: str, content_type: str | None, body: bytes) -> HttpResponse:
        """The answer to an upload request; never raises for what a client or a database does."""
        return (await self.call_all([(task_id, content_type, body)]))[0]

    async def call_all(self, requests: Sequence[tuple[str, str | None, bytes]]) -> list[HttpResponse]:
        """The answers to several upload requests, whose reports are stored in one transaction; see ``call``. What is
        wrong with one request costs only its own answer."""
        answers: list[HttpResponse] = [_STORED] * len(requests)
        taken: list[tuple[int, Party, list[UploadSlices]]] = []
        with contextlib.ExitStack() as held:
            for place, (task_id, content_type, body) in enumerate(requests):
                try:
                    held.enter_context(self.budget.reserve(len(body)))
                    self._check(content_type, body)
                    reports = decode(slice_uploads, body)
                    taken.append((place, await self._parties.demand(task_id), reports))
                except Exception as error:  # as the application's own middleware does: an error becomes an answer
                    answers[place] = self._refused(error, task_id)
            try:
                errors = await self._leader.upload_all([(party, reports) for _, party, reports in taken])
            except Exception as error:
                for place, _, _ in taken:
                    answers[place] = self._refused(error, requests[place][0])
                return answers
        for (place, _, _), found in zip(taken, errors, strict=True):
            if isinstance(found, Abort):
                answers[place] = self._refused(found, requests[place][0])
            elif found is not None:
                answers[place] = HttpResponse(200, {"content-type": _ERRORS}, found.encode())
        return answers

    def _refused(self, error: Exception, task_id: str) -> HttpResponse:
        """The problem document that an error comes to."""
        if not isinstance(error, Abort):
            error = own_fault("leader", self._deps, error)
        named = error.task_id
        error.task_id = named or known_task_id(task_id)
        answer = problem_response(error)
        error.task_id = named  # the error may be that of several requests
        content = answer.body if isinstance(answer.body, bytes) else b""
        return HttpResponse(answer.status, {name.lower(): value for name, value in answer.headers.items()}, content)

    def _check(self, content_type: str | None, body: bytes) -> None:
        if len(body) > self._max_body:
            raise Abort("about:blank", f"the body may have at most {self._max_body} bytes", status=413)
        if content_type is None or not media_types.is_a(content_type, _MEDIA_TYPE):
            raise Abort("about:blank", f"the body must be {_MEDIA_TYPE}", status=415)

    async def answer(self, task_id: str, body: bytes) -> web.Response:
        """The answer to a request whose size and media type are right. Raises ``Abort``."""
        reports = decode(slice_uploads, body)
        errors = await self._leader.upload(await self._parties.demand(task_id), reports)
        if errors is None:
            return web.Response(status=200)
        return message("upload-errors", errors.encode())
