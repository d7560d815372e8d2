"""Questions: writing, checking, approving, publishing and ending them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from services.admin.api.calls import Call, Reply
from services.admin.api.documents import QuestionPage
from services.admin.base.problems import Problem, refuse
from services.admin.handlers import passkeys
from services.admin.people.consent import ways_in
from services.admin.questions.events import question_event
from services.admin.questions.publishing import recipe_document
from services.admin.questions.questions import Asked, asked_of, etag_of, is_over, survey_document
from services.admin.storage.records import Question, QuestionState
from services.admin.storage.store import PeopleTx
from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.service.documents.admin import CheckDocument, DesignDocument, QuestionDocument, SeriesPlace
from tacit.tlog.canonical import canonical_bytes
from tacit.tlog.leaves import SignedLeaf


async def create(call: Call) -> Reply:
    """Store a new draft of a question. Raises ``UsageError`` for a plan whose run this service cannot carry."""
    call.admin.publishing.require(call.body)
    question = await call.admin.questions.create(call.stored, call.who, call.body)
    return await _reply(call, call.stored, question, status=201, location=True)


async def create_round(call: Call) -> Reply:
    """Draft the next round of a series; nobody writes it, and like every draft it needs an approval."""
    series_hash = call.part("hash")
    recipe = await call.admin.rounds.next(series_hash)
    if not call.admin.questions.has_analyst(recipe.parties):
        raise refuse(Problem.ROUND_WAITS, f"{recipe.parties.analyst.operator} publishes the rounds of this series")
    async with call.admin.store.transaction() as tx:
        question = await call.admin.questions.create_round(tx, call.who, recipe)
        words = f"round {question.round_index} of series {series_hash}, recipe {recipe.hash_text}"
        return await _reply(call, tx, question, status=201, location=True, detail=words)


async def list_questions(call: Call) -> Reply:
    """A page of questions in the order in which they were written, of one ``state`` or of all. Raises ``DecodeError``
    for a state that there is not."""
    after, limit = call.page()
    stated = call.request.query.get("state")
    if stated is not None and stated not in set(QuestionState):
        raise DecodeError(f"state must be one of {', '.join(QuestionState)}")
    state = None if stated is None else QuestionState(stated)
    questions = await call.stored.questions(after, limit + 1, state)
    names = await names_of(call.stored, questions)
    page = [_document(one, names, call.admin.now) for one in questions[:limit]]
    following = str(questions[limit - 1].number) if len(questions) > limit else None
    return Reply(QuestionPage(questions=page, next=following))


async def show_question(call: Call) -> Reply:
    """A question with its ETag, which later acts on it send in ``If-Match``. Raises ``Abort`` (404)."""
    question = await call.admin.questions.at(call.stored, call.part("id"), None)
    return replace(await _reply(call, call.stored, question), event=None)


async def edit(call: Call) -> Reply:
    """Replace the text of a question. Raises as ``create``."""
    call.admin.publishing.require(call.body)
    question = await call.admin.questions.edit(call.stored, call.who, call.part("id"), call.body, call.tag)
    return await _reply(call, call.stored, question)


async def delete(call: Call) -> Reply:
    """Delete a draft for good. Raises ``Abort``: 404, 409 if it is no draft, 412 and 428."""
    await call.admin.questions.delete(call.stored, call.part("id"), call.tag)
    return Reply(None, 204, target=call.part("id"), event=question_event(call.part("id"), None, 0))


async def submit(call: Call) -> Reply:
    """Submit a question for approval. Raises as ``Questions.submit``."""
    return await _reply(call, call.stored, await call.admin.questions.submit(call.stored, call.part("id"), call.tag))


async def approve(call: Call) -> Reply:
    """Approve a question in its present text; none of its authors may. Where a passkey is needed, it must have signed
    for the state before. Raises as ``Questions.approve``, and ``Abort`` (403) for a passkey."""
    before = await call.admin.questions.at(call.stored, call.part("id"), call.tag)
    question = await call.admin.questions.approve(call.stored, call.who, call.part("id"), call.tag)
    words = await passkeys.check_passkey(call, call.stored, before, passkeys.APPROVE)
    ways = b64url(await ways_in(call.stored, call.who.person))
    return await _reply(
        call, call.stored, question, detail=f"binding {b64url(question.approval)}, ways in {ways}{words}"
    )


async def end(call: Call) -> Reply:
    """End a question: nobody waits for its results any more."""
    return await _reply(call, call.stored, await call.admin.questions.end(call.stored, call.part("id"), call.tag))


async def check(call: Call) -> Reply:
    """The verdict of every rule on the recipe that the question would become now, with the numbers that would pass."""
    async with call.admin.store.read() as tx:
        question = await call.admin.questions.at(tx, call.part("id"), call.tag)
    return await _check(call, asked_of(question))


async def check_text(call: Call) -> Reply:
    """The verdict of every rule on a text that is not stored."""
    return await _check(call, call.body)


async def _check(call: Call, asked: Asked) -> Reply:
    drafted, verdicts = await call.admin.publishing.checked(asked, call.who.person.id)
    planned = await call.admin.planner.forecast(call.who.person.id, asked)
    return Reply(CheckDocument.model_validate({**drafted.document(), **verdicts.document(), **planned}))


async def design(call: Call) -> Reply:
    """Compare the ways to ask a question."""
    return Reply(DesignDocument.model_validate(await call.admin.planner.compared(call.who.person.id, call.body)))


async def publish(call: Call) -> Reply:
    """Publish a question in the log; the status is 202 if its recipe waits for a signature from elsewhere."""
    if call.admin.config.passkeys_publish:
        async with call.admin.store.transaction() as tx:
            before = await call.admin.questions.at(tx, call.part("id"), call.tag)
            await passkeys.check_passkey(call, tx, before, passkeys.PUBLISH)
    question = await call.admin.publishing.publish(call.part("id"), call.tag)
    return await _publish(call, question)


async def sign(call: Call) -> Reply:
    """Publish a question in the log with a signature that was made elsewhere."""
    leaf = SignedLeaf.decode(canonical_bytes(call.body.leaf))
    return await _publish(call, await call.admin.publishing.sign(call.part("id"), leaf))


async def _publish(call: Call, question: Question) -> Reply:
    async with call.admin.store.read() as tx:
        waits = question.state is not QuestionState.PUBLISHED
        return await _reply(call, tx, question, status=202 if waits else 200, detail=f"recipe {question.recipe_hash}")


async def _reply(
    call: Call, tx: PeopleTx, question: Question, *, status: int = 200, location: bool = False, detail: str = ""
) -> Reply:
    headers = {"ETag": etag_of(question)}
    if location:
        headers["Location"] = f"/v1/questions/{question.id}"
    document = _document(question, await names_of(tx, [question]), call.admin.now, whole=True)
    event = question_event(question.id, question.state, question.revision)
    return Reply(document, status, headers, question.id, detail, event=event)


async def names_of(tx: PeopleTx, questions: Sequence[Question], others: Iterable[str] = ()) -> Mapping[str, str]:
    """The names, by id, of everybody who wrote or approved one of ``questions``, and of ``others`` (ids)."""
    return await tx.names(
        {person for one in questions for person in (*one.authors, one.approver) if person} | set(others)
    )


def place_of(question: Question) -> SeriesPlace | None:
    """Which round (from 0) of which series the question is; None if it is none."""
    if question.series_hash is None or question.round_index is None:
        return None
    return SeriesPlace(series=question.series_hash, index=question.round_index)


def _document(question: Question, names: Mapping[str, str], now: int, *, whole: bool = False) -> QuestionDocument:
    return QuestionDocument(
        id=question.id,
        state=question.state.value,
        revision=question.revision,
        survey=survey_document(question),
        authors=[names.get(one, one) for one in question.authors],
        approver=names.get(question.approver, question.approver) or None,
        created=question.created,
        changed=question.changed,
        hash=question.recipe_hash or None,
        signed=bool(question.leaf),
        position=question.position,
        over=is_over(question, now),
        round=place_of(question),
        recipe=recipe_document(question) if whole else None,
        plan=json.loads(question.text) if question.trains and whole else None,
    )
