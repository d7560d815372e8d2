"""POST /tasks/{task-id}/reports without HTTP: the same code for the HTTP resource and for a gateway in this process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web

from services.leader.service import Leader
from tacit import media_types
from tacit.aggregator.http import decode, message
from tacit.aggregator.parties import Parties
from tacit.errors import Abort
from tacit.messages.slices import slice_uploads
from tacit.ports import HttpResponse
from tacit.service.app import Deps, own_fault, problem_response
from tacit.service.limits import ByteBudget

UploadCall = Callable[[str, str | None, bytes], Awaitable[HttpResponse]]
"""Task id as in the URL, Content-Type, body -> the answer, problem documents included."""

UPLOAD: web.AppKey[UploadCall] = web.AppKey("upload")

_MEDIA_TYPE = media_types.dap("upload-req")


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
        try:
            with self.budget.reserve(len(body)):
                self._check(content_type, body)
                answer = await self.answer(task_id, body)
        except Abort as abort:
            abort.task_id = abort.task_id or task_id
            answer = problem_response(abort)
        except Exception as error:  # as the application's own middleware does: an error becomes an answer
            answer = problem_response(own_fault("leader", self._deps, error))
        content = answer.body if isinstance(answer.body, bytes) else b""
        return HttpResponse(answer.status, {name.lower(): value for name, value in answer.headers.items()}, content)

    def _check(self, content_type: str | None, body: bytes) -> None:
        if len(body) > self._max_body:
            raise Abort("about:blank", f"the body may have at most {self._max_body} bytes", status=413)
        if content_type is None or content_type.replace(" ", "").lower() != _MEDIA_TYPE:
            raise Abort("about:blank", f"the body must be {_MEDIA_TYPE}", status=415)

    async def answer(self, task_id: str, body: bytes) -> web.Response:
        """The answer to a request whose size and media type are right. Raises ``Abort``."""
        reports = decode(slice_uploads, body)
        errors = await self._leader.upload(await self._parties.demand(task_id), reports)
        if errors is None:
            return web.Response(status=200)
        return message("upload-errors", errors.encode())
