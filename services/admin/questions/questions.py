"""The life of a question from draft to approval. Nobody who wrote any part of a text can approve it.

An approval covers the text together with this organisation's parties and policy (``binding``). It does not cover the
recipe's epoch and slot, because those are chosen only when it is published; everything else in the recipe follows from
what the approval covers, and any change to that voids the approval.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from services.admin.base.problems import Problem, not_found, refuse
from services.admin.people.consent import Consent
from services.admin.people.people import Permission, Principal, forbidden, new_id
from services.admin.questions.texts import PLAN, TEXTS
from services.admin.storage.question_store import QuestionsTx
from services.admin.storage.records import QUESTION_STATES, Question, QuestionState
from tacit.errors import Abort, FieldError, UsageError
from tacit.models.parties import Part, Parties
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.ports import Clock, Entropy
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.writing.survey import Survey
from tacit.tlog.canonical import canonical_bytes

Written = Survey | Part
"""What somebody writes: a survey, or the text of a feature, such as the plan of a training run."""
Asked = Written | Recipe
"""What a question asks: what somebody wrote, or the recipe of the next round of a series."""
LABEL = b"tacit approval v1\0"
MODEL_OF_RUNS: Final = SecureAggregation.name
"""The model of all training runs."""


def text_of(written: Written) -> str:
    """The survey or plan as canonical JSON, in the form that a question stores."""
    return canonical_bytes(written.model_dump(mode="json", exclude_none=True)).decode()


def asked_of(question: Question) -> Asked:
    if question.trains:
        return TEXTS[PLAN].read(question.text)
    body = json.loads(question.text)
    return Survey.from_body(body) if question.series_hash is None else Recipe.from_body(body)


def written_of(question: Question) -> Written:
    """What somebody wrote; the inverse of ``text_of``. Raises ``Abort`` (409) for a round."""
    asked = asked_of(question)
    if isinstance(asked, Recipe):
        raise refuse(Problem.ROUND_FIXED, "delete the draft, or approve it as it is")
    return asked


def survey_of(question: Question) -> Survey:
    """The survey of a question. Raises ``Abort`` (409) for a round and for a training run."""
    written = written_of(question)
    if not isinstance(written, Survey):
        raise refuse(Problem.OTHER_TEXT, "it has the plan of a training run")
    return written


def survey_document(question: Question) -> dict[str, Any]:
    """The survey as JSON; of a round and of a training run, the members of a survey that it has, too."""
    body = json.loads(question.text)
    if question.trains:
        return {**{name: body[name] for name in ("name", "text", "metric", "epsilon")}, "model": MODEL_OF_RUNS}
    if question.series_hash is None:
        return dict(body)
    asked = {name: body["question"][name] for name in ("text", "metric")}
    return {"name": body["name"], "model": body["model"], **asked}


def is_over(question: Question, now: float) -> bool:
    """Whether the interval of the recipe that it became has ended at POSIX second ``now``."""
    if question.state is not QuestionState.PUBLISHED or not question.recipe:
        return False
    span = json.loads(question.recipe)["interval"]
    return bool(span["start"] + span["duration"] <= now)


def etag_of(question: Question) -> str:
    """The entity tag of a question's present revision."""
    return f'"{question.revision}"'


class Questions:
    """Creates and moves questions, in the caller's transactions. ``parties``: by model."""

    def __init__(
        self, parties: Mapping[str, Parties], policy: Policy, consent: Consent, clock: Clock, entropy: Entropy
    ) -> None:
        self._consent = consent
        self._parties = parties
        self._policy = policy
        self._clock = clock
        self._entropy = entropy

    @property
    def parties(self) -> Mapping[str, Parties]:
        """The configured parties by model: those of new questions, not of rounds, which have those of their series."""
        return self._parties

    def has_analyst(self, parties: Parties) -> bool:
        """Whether these parties have this organisation's analyst, with the same key."""
        return any(one.analyst == parties.analyst for one in self._parties.values())

    def parties_of(self, asked: Asked) -> Parties:
        """The parties of the survey's model, or of training runs; of a round, its own. Raises ``FieldError`` if there
        are none."""
        if isinstance(asked, Recipe):
            return asked.parties
        model = asked.model if isinstance(asked, Survey) else MODEL_OF_RUNS
        parties = self._parties.get(model)
        if parties is None:
            raise FieldError("model", f"this organisation has no parties for the model {model}")
        return parties

    def binding(self, question: Question) -> bytes:
        """What an approval is bound to: a digest (32 bytes) of text, parties and policy."""
        bound: dict[str, Any] = {
            _kind_of(question): json.loads(question.text),
            "parties": self.parties_of(asked_of(question)).model_dump(mode="json"),
            "policy": self._policy.model_dump(mode="json", exclude_none=True),
        }
        return hashlib.sha256(LABEL + canonical_bytes(bound)).digest()

    async def create(self, tx: QuestionsTx, who: Principal, written: Written) -> Question:
        """Store a new draft of ``written``, with ``who`` as its author."""
        now = int(self._clock.now())
        question = Question(
            new_id(self._entropy), QuestionState.DRAFT, 1, text_of(written), (who.person.id,), now, now,
            trains=not isinstance(written, Survey),
        )  # fmt: skip
        await tx.add_question(question)
        return question

    async def create_round(self, tx: QuestionsTx, who: Principal, recipe: Recipe) -> Question:
        """Store the draft of a series' next round, with ``who`` as its author. Raises ``Abort`` (409) if somebody has
        drafted that round before."""
        place = recipe.series
        if place is None:
            raise ValueError("the recipe is no round")
        if (known := await tx.question_of_round(place.hash, place.index)) is not None:
            words = f"round {place.index + 1} is {known.state}"
            raise refuse(Problem.ROUND_DRAFTED, words, question=known.id, state=known.state.value)
        now = int(self._clock.now())
        draft = Question(
            new_id(self._entropy), QuestionState.DRAFT, 1, canonical_bytes(recipe.body()).decode(), (who.person.id,),
            now, now, series_hash=place.hash, round_index=place.index,
        )  # fmt: skip
        await tx.add_question(draft)
        return draft

    async def edit(
        self, tx: QuestionsTx, who: Principal, question_id: str, written: Written, tag: str | None
    ) -> Question:
        """Replace the text of a question, which becomes a draft again and gets ``who`` as an author. Raises ``Abort``:
        404, 409 if it is published or being published, for a round and for a text of another kind, 412 and 428."""
        before = await self.at(tx, question_id, tag, needed=True)
        if type(written_of(before)) is not type(written):
            raise refuse(Problem.OTHER_TEXT, f"it has a {_kind_of(before)}; make a new draft for another kind of text")
        if before.leaf:
            raise self._wrong_state(before, "is being published")
        authors = tuple(dict.fromkeys((*before.authors, who.person.id)))
        cleared = replace(before, approver="", approval=b"", recipe=b"", recipe_hash="")
        return await self.move(
            tx, before, replace(cleared, state=QuestionState.DRAFT, text=text_of(written), authors=authors)
        )

    async def delete(self, tx: QuestionsTx, question_id: str, tag: str | None) -> None:
        """Delete a draft. Raises as ``edit``."""
        before = await self.at(tx, question_id, tag, needed=True)
        if not QUESTION_STATES.allows(before.state, None):
            raise self._wrong_state(before, "is no draft")
        if not await tx.drop_question(before):
            raise make_changed_abort()

    async def submit(self, tx: QuestionsTx, question_id: str, tag: str | None) -> Question:
        """Offer a complete question for approval. Raises ``FieldError`` with every missing member, and ``Abort``."""
        before = await self.at(tx, question_id, tag)
        if before.leaf:
            raise self._wrong_state(before, "is being published")
        asked = asked_of(before)
        self.parties_of(asked)
        if isinstance(asked, Survey):
            if asked.lacking:
                first, *others = (FieldError(name, "is needed to make a recipe") for name in asked.lacking)
                raise FieldError(first.field, first.reason, tuple(others))
            asked.question()
        cleared = replace(before, approver="", approval=b"", recipe=b"", recipe_hash="")
        return await self.move(tx, before, replace(cleared, state=QuestionState.SUBMITTED))

    async def approve(self, tx: QuestionsTx, who: Principal, question_id: str, tag: str | None) -> Question:
        """Approve a question as it is. Raises ``Abort``: 403 ``own-draft`` for anybody who wrote any part of it, 403
        ``counts-later`` for an approver whose approvals do not count yet."""
        before = await self.at(tx, question_id, tag)
        if who.person.id in before.authors:
            raise refuse(Problem.OWN_DRAFT, "you wrote part of it")
        if not who.may(Permission.APPROVE):
            raise forbidden(Permission.APPROVE)
        self._consent.require_counting(who.person)
        approved = replace(before, approver=who.person.id, approval=self.binding(before))
        return await self.move(tx, before, replace(approved, state=QuestionState.APPROVED), anew=True)

    async def end(self, tx: QuestionsTx, question_id: str, tag: str | None) -> Question:
        """End the question: nobody waits for its results any more. Its entries in the log stay."""
        before = await self.at(tx, question_id, tag)
        return await self.move(tx, before, replace(before, state=QuestionState.ENDED))

    async def at(self, tx: QuestionsTx, question_id: str, tag: str | None, *, needed: bool = False) -> Question:
        """The question, if ``tag`` is its present entity tag or None. Raises ``Abort``: 404, 412 for another tag, and
        428 if a tag is ``needed`` but None."""
        question = await tx.question(question_id)
        if question is None:
            raise not_found("question")
        if tag is None and needed:
            raise refuse(Problem.PRECONDITION, "send the ETag that you have read, in If-Match")
        if tag is not None and tag not in {etag_of(question), "*"}:
            raise make_changed_abort()
        return question

    async def move(self, tx: QuestionsTx, before: Question, after: Question, *, anew: bool = False) -> Question:
        """Store ``after`` in place of ``before``, with the next revision. ``anew``: the state must change. Raises
        ``Abort``: 409 for a move that is not in ``QUESTION_STATES``, 412 if somebody has changed the question since."""
        if not QUESTION_STATES.allows(before.state, after.state) or (anew and before.state == after.state):
            raise self._wrong_state(before, f"cannot become {after.state}")
        moved = replace(after, revision=before.revision + 1, changed=int(self._clock.now()))
        if not await tx.put_question(moved, before):
            raise make_changed_abort()
        return moved

    def _wrong_state(self, question: Question, why: str) -> Abort:
        return refuse(Problem.QUESTION_STATE, f"it is {question.state} and {why}", state=question.state.value)


def _kind_of(question: Question) -> str:
    if question.trains:
        return "plan"
    return "survey" if question.series_hash is None else "recipe"


def make_changed_abort() -> Abort:
    """The refusal for a request that does not name the newest revision."""
    return refuse(Problem.CHANGED, "read it again, and send its ETag")


def field_problem(error: UsageError) -> Abort:
    """The refusal of a document that cannot be used, with the wrong members if they are known."""
    if not isinstance(error, FieldError):
        return refuse(Problem.USAGE, str(error))
    fields = [{"field": one.field, "reason": one.reason} for one in error.every]
    return refuse(Problem.FIELD, "; ".join(map(str, error.every)), field=error.field, fields=fields)
