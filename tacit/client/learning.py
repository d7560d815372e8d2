"""Training runs: drafted from a plan, and carried from round to round by the service once they are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tacit.client.caller import Caller, part
from tacit.client.documents import Forecast, LoggedSeries, Question, Run, read
from tacit.client.errors import ChangedError
from tacit.client.questions import path_of, tag_of
from tacit.errors import UsageError
from tacit.media_types import OCTET_STREAM

if TYPE_CHECKING:
    from tacit.learning.plan import Plan

ROOT = "/v1/plans"
Planned: TypeAlias = "Plan | Mapping[str, Any]"
"""A plan, or its JSON (``docs/learning.md``)."""
Of = LoggedSeries | Question | str
"""A run's series, its published question, or the hash of its series."""


class AsyncRuns:
    """The training runs of an organisation. The draft of a plan is a question: it is checked, submitted, approved,
    published and ended by ``questions``."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, plan: Planned) -> Question:
        """Make a draft of a plan. Raises ``FieldError`` before anything is sent if ``plan`` is not a valid plan."""
        answer = await self._caller.send("POST", ROOT, _body(plan))
        return read(Question, answer.document, etag=answer.etag)

    async def edit(self, question: Question, plan: Planned) -> Question:
        """Replace the plan of the question that was read. It becomes a draft again, and its approval is void. If an
        earlier attempt has already stored this plan, nothing changes."""
        body = _body(plan)
        try:
            answer = await self._caller.send("PUT", f"{ROOT}/{part(question.id)}", body, tag=tag_of(question))
        except ChangedError:  # perhaps by an earlier attempt of this call, whose answer was lost
            answer = await self._caller.send("GET", path_of(question))
            found = read(Question, answer.document, etag=answer.etag)
            if found.plan != body or found.state != "draft" or found.revision != question.revision + 1:
                raise
            return found
        return read(Question, answer.document, etag=answer.etag)

    async def forecast(self, plan: Planned) -> Forecast:
        """What the run of a plan would cost and how noisy it would be. Raises ``InvalidError`` for a plan that does not
        fit, with what would."""
        return read(Forecast, (await self._caller.send("POST", "/v1/forecast", _body(plan))).document)

    async def get(self, run: Of) -> Run:
        """Where a run is: its rounds with their contributions, and the hash of its newest model."""
        return read(Run, await self._caller.get(f"{_path(run)}/run"))

    async def model(self, run: Of) -> bytes:
        """The file of a run's newest model (``tacit.learning.model_file`` reads it). Raises ``NotFoundError`` where the
        run's plan is not one of this service."""
        return await self._caller.raw(f"{_path(run)}/model", OCTET_STREAM)


def _path(run: Of) -> str:
    """The path of the run's series. Raises ``UsageError`` for a question that is not published."""
    found = run if isinstance(run, str) else run.hash
    if not found:
        raise UsageError("the plan has no series yet; publish it")
    return f"/v1/series/{part(found)}"


def _body(plan: Planned) -> dict[str, Any]:
    """The JSON of a plan, in the form that the service stores. Raises ``FieldError``."""
    from tacit.learning.plan import Plan
    from tacit.recipe.fields import parse_fields

    found = plan if isinstance(plan, Plan) else parse_fields(Plan, plan, tagged="server")
    return found.model_dump(mode="json", exclude_none=True)
