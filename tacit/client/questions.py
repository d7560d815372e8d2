"""Questions: written, checked, approved by a second person, published and ended."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from tacit.client.caller import Answered, Caller, part
from tacit.client.documents import Check, Design, Question, read
from tacit.client.errors import ChangedError, NotFoundError
from tacit.client.pages import items

if TYPE_CHECKING:
    from tacit.recipe.writing.survey import Survey
    from tacit.tlog.leaves import SignedLeaf

ROOT = "/v1/questions"
Asked: TypeAlias = "Survey | Mapping[str, Any]"
"""A survey, or its JSON (``docs/schemas/survey.json``)."""
Named = Question | str
"""A question, or the id of one."""


class AsyncQuestions:
    """The questions of an organisation. A method that gets a ``Question`` acts on the revision that was read, and
    raises ``ChangedError`` if there is a newer one; a method that gets an id acts on the present revision."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def create(self, survey: Asked) -> Question:
        """Write a draft. Raises ``FieldError`` before anything is sent if ``survey`` is not a valid survey."""
        return _question(await self._caller.send("POST", ROOT, body_of(survey)))

    def all(self, state: str | None = None) -> AsyncIterator[Question]:
        """Questions in one state or in all, in the order in which they were written, fetched page by page."""
        return items(self._caller, ROOT, "questions", Question, state=state)

    async def get(self, question: Named) -> Question:
        """The question as it is now, with the tag of its present revision. Raises ``NotFoundError``."""
        return _question(await self._caller.send("GET", path_of(question)))

    async def edit(self, question: Question, survey: Asked) -> Question:
        """Replace the text of the question that was read. It becomes a draft again, and its approval is void. If an
        earlier attempt has already stored this text, nothing changes."""
        body = body_of(survey)
        try:
            return _question(await self._caller.send("PUT", path_of(question), body, tag=tag_of(question)))
        except ChangedError:  # perhaps by an earlier attempt of this call, whose answer was lost
            found = await self.get(question)
            if found.survey != body or found.state != "draft" or found.revision != question.revision + 1:
                raise
            return found

    async def delete(self, question: Question) -> None:
        """Delete a draft; does nothing if it is already gone."""
        try:
            await self._caller.send("DELETE", path_of(question), tag=tag_of(question))
        except NotFoundError:  # it is already deleted
            return

    async def check(self, question: Named) -> Check:
        """The verdict of every rule on the recipe that it would become now, with the numbers that would pass."""
        return read(Check, (await self._act(question, "check")).document)

    async def check_text(self, survey: Asked) -> Check:
        """The verdict of every rule on a text that is not stored. Raises ``InvalidError`` if it is incomplete."""
        return read(Check, (await self._caller.send("POST", "/v1/check", body_of(survey))).document)

    async def design(self, survey: Asked) -> Design:
        """Compare the ways to ask a question: the privacy cost and accuracy of each. The survey needs ``population``
        and the answers, but no name."""
        return read(Design, (await self._caller.send("POST", "/v1/design", body_of(survey))).document)

    async def submit(self, question: Named) -> Question:
        """Offer a complete question for approval."""
        return _question(await self._act(question, "submit"))

    async def approve(self, question: Named) -> Question:
        """Approve the question as it is. Raises ``OwnDraftError`` for its authors."""
        return _question(await self._act(question, "approve"))

    async def publish(self, question: Named) -> Question:
        """Put the question's recipe into the log. If the service does not hold the analyst's key, the question stays
        approved, and ``recipe`` has to be signed elsewhere; then call ``sign``. Raises ``RuleError``, ``AwayError``
        while the log cannot be reached (call again: nothing is done twice), and ``ConflictError``."""
        return _question(await self._act(question, "publish"))

    async def sign(self, question: Named, leaf: SignedLeaf | Mapping[str, Any]) -> Question:
        """Publish with a signature that was made elsewhere. ``leaf``: the signed leaf that ``tacit recipe sign``
        wrote."""
        document = dict(leaf) if isinstance(leaf, Mapping) else json.loads(leaf.encode())
        return _question(await self._caller.send("POST", f"{path_of(question)}/signature", {"leaf": document}))

    async def end(self, question: Named) -> Question:
        """End the question: nobody waits for its results any more. Its entries in the log stay."""
        return _question(await self._act(question, "end"))

    async def _act(self, question: Named, what: str) -> Answered:
        tag = tag_of(question) if isinstance(question, Question) else None
        return await self._caller.send("POST", f"{path_of(question)}/{what}", {}, tag=tag)


def body_of(survey: Asked) -> dict[str, Any]:
    """The JSON of a survey, in the form that the service stores. Raises ``FieldError``."""
    from tacit.recipe.writing.survey import Survey

    found = survey if isinstance(survey, Survey) else Survey.from_body(survey)
    return found.model_dump(mode="json", exclude_none=True)


def path_of(question: Named) -> str:
    """The question's path in the API, from the question or its id."""
    return f"{ROOT}/{part(question.id if isinstance(question, Question) else question)}"


def tag_of(question: Question) -> str:
    """The entity tag of a question that was read; one from a list has only its revision, from which the tag is made."""
    return question.etag or f'"{question.revision}"'


def _question(answer: Answered) -> Question:
    return read(Question, answer.document, etag=answer.etag)
