"""Takes an approved question to the log: it is placed, signed and sent, and each step is stored before the next.

The recipe is fixed, with its epoch and slot, when somebody first asks to publish. Once its signed leaf is stored, the
same bytes are sent until the log has accepted or refused them, even across restarts; the log recognises bytes that it
holds, so sending them again adds nothing. The question is free again only when the log has refused them, or when the
recipe's interval has begun and the log does not have it, because devices that decide early would miss it. If the key is
elsewhere, the recipe waits for its signature, and may be placed anew as long as it has none. A round of a series is not
placed: its series fixes its time, and it may be sent for as long as devices decide about it.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Final
from weakref import WeakValueDictionary

from services.admin.base.fair_threads import FairThreads
from services.admin.base.problems import Problem, away, not_found, refuse
from services.admin.questions.events import Event, question_event
from services.admin.questions.log import Log, blaming
from services.admin.questions.questions import Asked, Questions, Written, asked_of
from services.admin.questions.rounds import Rounds
from services.admin.questions.texts import PLAN, TEXTS
from services.admin.storage import audit
from services.admin.storage.records import Act, Question, QuestionState
from services.admin.storage.store import AdminStore
from tacit.codec import unb64url
from tacit.errors import REFUSAL_PREFIX, Abort, CryptoError, DecodeError, Refusal, UsageError
from tacit.logview.live import LiveLog
from tacit.operations.checking import Checked, check_recipe, context_at
from tacit.operations.design import decide_way
from tacit.operations.drafting import Drafted, draft_recipe, refusals_document
from tacit.operations.pace import Pace
from tacit.operations.publishing import end_of, send_leaf, signed_leaf
from tacit.operations.series_drafting import drafted_series, searches
from tacit.operations.services import logged_recipe
from tacit.ports import Clock, TransportError
from tacit.recipe.asking import asked_until
from tacit.recipe.context import Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.recipe.writing.survey import Survey
from tacit.rules import table as rules
from tacit.service.app import abort_of_refusal
from tacit.signing import Signer
from tacit.time_format import format_utc
from tacit.tlog.canonical import canonical_bytes, parse_canonical
from tacit.tlog.leaves import LeafType, SignedLeaf

BATCH: Final = 16
LANDING_SECONDS: Final = 60
"""How many seconds after the last moment to publish it a recipe that was sent earlier may still reach the log: twice
the time that an exchange may take. Only after that is a recipe that is not in the log counted as missed; if it were
placed anew sooner, both could reach the log."""


class Publishing:
    """Publishes the questions in a store. ``key``: the analyst's key, if this service holds it; ``tell`` gets an event
    for every change that no request's answer reports: what this service did by itself, and what was missed; ``grew``
    gets the log's new size; ``no_runs``: why this service can carry no training run, empty if it can; ``whole`` reads
    the whole log, which also has series that are over."""

    def __init__(
        self,
        store: AdminStore,
        questions: Questions,
        rounds: Rounds,
        log: Log,
        policy: Policy,
        epoch_seconds: int,
        clock: Clock,
        key: Signer | None,
        turns: FairThreads,
        tell: Callable[[Event], None],
        grew: Callable[[int], None],
        pace: Pace,
        no_runs: str,
        whole: Callable[[], Awaitable[LiveLog]],
    ) -> None:
        self._tell = tell
        self._grew = grew
        self._turns = turns
        self._store = store
        self._questions = questions
        self._rounds = rounds
        self._log = log
        self._policy = policy
        self._epoch_seconds = epoch_seconds
        self._clock = clock
        self._key = key
        self._pace = pace
        self._no_runs = no_runs
        self._whole = whole
        self._placing = asyncio.Lock()
        self._given = deque[tuple[int, int]](maxlen=BATCH)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @property
    def signs_with(self) -> bytes | None:
        """The public half of the analyst's key, or None if this service does not hold it."""
        return None if self._key is None else self._key.public

    async def drafted(self, asked: Asked, who: str = "") -> Drafted:
        """Draft the recipe that the survey would become now, for the person ``who``; that of a round is as it is.
        Raises ``UsageError``, and ``Abort`` if the log cannot be reached or too many wait."""
        if not isinstance(asked, Recipe):
            self.require(asked)
        live = await (self._log.live() if isinstance(asked, Survey | Recipe) else self._whole())
        parties, now = self._questions.parties_of(asked), self._clock.now()

        def work() -> Drafted:
            if isinstance(asked, Recipe):
                context = context_at(asked, live, now, Stage.DRAFT)
                return Drafted(asked, tuple(rules.check(asked, self._policy, context)))
            if not isinstance(asked, Survey):
                return TEXTS[PLAN].drafted(asked, parties, live, self._policy, self._epoch_seconds, now, self._pace)
            chosen, given = decide_way(asked, self._policy), list(self._given)
            draft = drafted_series if searches(chosen) else draft_recipe
            return draft(chosen, parties, live, self._policy, self._epoch_seconds, now, self._pace, given)

        return await self._turns.do(who, work)

    def require(self, written: Written) -> None:
        """Check that this service can carry what ``written`` asks. Raises as ``TextKind.require``."""
        if not isinstance(written, Survey):
            TEXTS[PLAN].require(written, self._no_runs)

    async def checked(self, asked: Asked, who: str) -> tuple[Drafted, Checked]:
        """The result of ``drafted``, with the verdict of every rule on the recipe. Raises as ``drafted``."""
        drafted = await self.drafted(asked, who)
        live = await self._log.live()
        context = context_at(drafted.recipe, live, self._clock.now(), Stage.DRAFT)
        context = replace(context, series=drafted.series or context.series)
        return drafted, await self._turns.do(who, lambda: check_recipe(drafted.recipe, self._policy, context))

    async def publish(self, question_id: str, tag: str | None = None) -> Question:
        """Publish a question. Returns it as published, or still approved if its recipe waits for a signature. Raises
        ``Abort``: 409 in another state or if the approval is no longer valid, 422 if a rule refuses, 503 if the log
        cannot be reached."""
        async with self._alone(question_id):
            async with self._store.read() as tx:
                question = await self._questions.at(tx, question_id, tag)
            if question.state is QuestionState.PUBLISHED:
                return question
            self._require_approval(question)
            async with self._placing:
                if not question.leaf:
                    question = await self._place(question)
                return await self._send(question) if question.leaf else question

    async def sign(self, question_id: str, leaf: SignedLeaf) -> Question:
        """Publish a question with a signature that was made elsewhere. Raises ``Abort``: 409 for another recipe than
        the one that waits, 422 for a signature that is not the analyst's; otherwise as ``publish``."""
        async with self._alone(question_id):
            async with self._store.read() as tx:
                question = await self._questions.at(tx, question_id, None)
            if question.state is QuestionState.PUBLISHED and question.leaf == leaf.encode():
                return question
            self._require_approval(question)
            if not question.leaf:
                own = LeafType.SERIES if question.becomes_series else LeafType.RECIPE
                if not question.recipe or leaf.type is not own or leaf.body_bytes() != question.recipe:
                    raise refuse(Problem.OTHER_RECIPE, "sign the recipe in the answer to publish")
                analyst = self._questions.parties_of(asked_of(question)).analyst
                try:
                    leaf.verify(unb64url(analyst.signing_key))
                except CryptoError as error:
                    raise refuse(Problem.SIGNATURE, str(error)) from error
                if leaf.signer != analyst.operator:
                    raise refuse(Problem.SIGNATURE, "the leaf names another signer")
                question = await self._store_state(question, replace(question, leaf=leaf.encode()))
            elif question.leaf != leaf.encode():
                raise refuse(Problem.SIGNED, "its recipe already has a signature")
            return await self._send(question)

    async def step(self) -> int:
        """Send the signed recipes that are not known to be in the log, which completes a publish that a crash or an
        unreachable log interrupted. The audit log records the outcome as an act of the service. Returns for how many
        recipes the log answered. Raises ``TransportError`` while the log cannot be reached."""
        async with self._store.read() as tx:
            waiting = await tx.unsent(BATCH)
        moved = 0
        for one in waiting:
            async with self._alone(one.id):
                async with self._store.read() as tx:
                    question = await tx.question(one.id)
                if question is None or question.state is not QuestionState.APPROVED or not question.leaf:
                    continue
                try:
                    await self._send(question, by_itself=True)
                except Abort as problem:
                    if "settled" in problem.extensions:
                        continue
                    if problem.status >= 500:
                        raise TransportError("the log does not accept what is to be published") from problem
                moved += 1
        return moved

    async def end_series(self, series_hash: str) -> int:
        """End a series of this organisation in the log; returns the index of the leaf that has ended it, which may have
        been there before. Raises ``Abort``: 404 for a series that the log does not show as live, 503 if the log cannot
        be reached, 422 if it refuses; ``UsageError`` for a series of another analyst, and without the analyst's key."""
        series = next((one for one in (await self._log.live()).series if one.series.hash_text == series_hash), None)
        if series is None:
            raise not_found("series")
        if series.ended is not None:
            return series.ended.index
        if self._key is None:
            raise UsageError(
                "this service does not hold the analyst's key, which signs the end of a series; whoever has it gives: "
                "tacit series end FILE --server URL --key KEY"
            )
        try:
            index = await self._taken(end_of(series.series, self._key, "analyst"), "the end, so end the series again")
        except Refusal as refusal:
            raise abort_of_refusal(refusal) from refusal
        self._grew(index + 1)
        return index

    def _alone(self, question_id: str) -> asyncio.Lock:
        """The lock that is held while a question is published. It exists as long as anybody holds it or waits for
        it."""
        return self._locks.setdefault(question_id, asyncio.Lock())

    def _require_approval(self, question: Question) -> None:
        if question.state not in {QuestionState.APPROVED, QuestionState.MISSED}:
            raise refuse(
                Problem.QUESTION_STATE,
                f"it is {question.state}; only what is approved can be published",
                state=question.state.value,
            )
        if not question.leaf and question.approval != self._questions.binding(question):
            raise refuse(Problem.APPROVAL_VOID, "parties or policy have changed since it was approved; submit it again")

    async def _place(self, question: Question) -> Question:
        """The question with its recipe fixed and, if this service holds the key, signed."""
        if question.recipe:
            kept = fixed_of(question)
            if _published_until(kept) > self._clock.now():
                return await self._sign(question, kept)
        asked = asked_of(question)
        if isinstance(asked, Recipe):
            await self._rounds.require(question, asked)
        elif not isinstance(asked, Survey):
            async with self._store.read() as tx:
                await TEXTS[PLAN].require_room(tx)
        drafted = await self.drafted(asked)
        if drafted.refusals:
            raise _refusal_of(drafted.refusals)
        if not isinstance(asked, Survey | Recipe):
            await TEXTS[PLAN].require_place(self._log, asked, drafted)
        token, several = drafted.recipe.token, 1 if drafted.series is None else drafted.series.slots.per_epoch
        self._given += [(token.epoch, token.slot + at) for at in range(several)]  # a reading of the log may miss it yet
        return await self._sign(question, drafted.series or drafted.recipe)

    async def _sign(self, question: Question, fixed: Recipe | Series) -> Question:
        body = canonical_bytes(fixed.body())
        leaf = b"" if self._key is None else await _leaf(fixed, self._key)
        if (body, leaf) == (question.recipe, question.leaf):
            return question
        after = replace(question, recipe=body, recipe_hash=fixed.hash_text, leaf=leaf)
        return await self._store_state(question, replace(after, state=QuestionState.APPROVED))

    async def _send(self, question: Question, *, by_itself: bool = False) -> Question:
        """Send the question's leaf, and return the question once the log has it. Raises ``Abort``; if the log refused
        the leaf, or its interval has begun, the question is freed first. ``by_itself``: no request causes this, so it
        is recorded as an act of the service."""
        act = self._own_act(question) if by_itself else None
        if _published_until(fixed_of(question)) <= self._clock.now():
            return await self._found(question, act)
        try:
            position = await self._taken(SignedLeaf.decode(question.leaf), "the recipe, so the recipe is sent again")
        except Refusal as refusal:
            freed = replace(question, recipe=b"", recipe_hash="", leaf=b"")
            await self._store_state(question, freed, act and replace(act, outcome=refusal.rule[:64]))
            raise abort_of_refusal(refusal) from refusal
        return await self._store_state(
            question, replace(question, state=QuestionState.PUBLISHED, position=position), act
        )

    async def _taken(self, leaf: SignedLeaf, unclear: str) -> int:
        """Send a leaf; returns its index in the log. Raises ``Refusal`` for a rule of the log, and ``Abort`` (503)
        where its answer does not say whether it has ``unclear``, which also says what follows."""
        try:
            return await send_leaf(self._log.transport, self._log.url, leaf)
        except Abort as problem:
            if not problem.type.startswith(REFUSAL_PREFIX):  # not one of the log's rules: perhaps a proxy before it
                raise away("log", problem.detail or problem.title) from problem
            raise Refusal(problem.type.removeprefix(REFUSAL_PREFIX), problem.detail or problem.title) from problem
        except (TransportError, DecodeError) as error:
            raise away("log", f"its answer does not say whether it has {unclear}") from error

    def _own_act(self, question: Question) -> Act:
        words = f"recipe {question.recipe_hash}, sent again"
        return Act("", "question.publish", question.id, int(self._clock.now()), "service", "done", words)

    async def _found(self, question: Question, act: Act | None) -> Question:
        """The question as published, if an earlier attempt reached the log. Raises ``Abort``: 409 if none did, 503
        while one still may."""
        try:
            position = await self._position(question)
        except Abort as problem:
            if problem.status != HTTPStatus.NOT_FOUND:
                raise
            settled = _published_until(fixed_of(question)) + LANDING_SECONDS
            if self._clock.now() < settled:
                words = f"it does not have the recipe yet, but may still get it until {format_utc(settled)}"
                raise refuse(Problem.PEER_AWAY, words, peer="log", settled=settled) from problem
            missed = replace(question, state=QuestionState.MISSED, recipe=b"", recipe_hash="", leaf=b"")
            await self._store_state(question, missed, act and replace(act, outcome="interval-began"))
            words = "the log does not have its recipe, and devices already decide whether to answer; publish it again"
            raise refuse(Problem.INTERVAL_BEGAN, words, state=QuestionState.MISSED.value) from problem
        return await self._store_state(
            question, replace(question, state=QuestionState.PUBLISHED, position=position), act
        )

    async def _position(self, question: Question) -> int:
        """The index of what is fixed for the question in the log. Raises ``Abort`` (404) if the log does not have
        it."""
        if question.becomes_series:
            known = {one.series.hash_text: one.index for one in (await self._log.live()).series}
            if question.recipe_hash not in known:
                raise not_found("series")
            return known[question.recipe_hash]
        async with blaming("log"):
            index, _ = await logged_recipe(self._log.transport, self._log.url, question.recipe_hash)
        return int(index["index"])

    async def _store_state(self, before: Question, after: Question, act: Act | None = None) -> Question:
        async with self._store.transaction() as tx:
            moved = await self._questions.move(tx, before, after)
            if act is not None:
                await audit.record(tx, act)
        if moved.position is not None:
            self._grew(moved.position + 1)
        if act is not None or moved.state is QuestionState.MISSED:  # otherwise the request's own answer reports it
            self._tell(question_event(moved.id, moved.state, moved.revision))
        return moved


def recipe_document(question: Question) -> dict[str, object] | None:
    """The body of the recipe that is fixed for a question, or None; that of a round is fixed from the beginning."""
    fixed = question.recipe.decode() if question.series_hash is None else question.text
    return json.loads(fixed) if fixed else None


async def _leaf(fixed: Recipe | Series, key: Signer) -> bytes:
    """Sign the recipe or series, and return the encoded leaf. Raises ``UsageError``, and ``Abort`` (503) if the PKCS#11
    token cannot sign."""
    try:
        return (await asyncio.to_thread(signed_leaf, fixed, key)).encode()
    except TransportError as error:
        raise away("signing token", str(error)) from error


def fixed_of(question: Question) -> Recipe | Series:
    """The recipe that is fixed for the question; of a search or a training run, the series that it becomes. Raises
    ``DecodeError`` while none is fixed."""
    body = parse_canonical(question.recipe, "recipe")
    return Series.from_body(body) if question.becomes_series else Recipe.from_body(body)


def _published_until(fixed: Recipe | Series) -> int:
    """The POSIX second before which a recipe or series can be published: when its reports begin; of a round, which
    follows on the one before without a gap, for as long as devices decide."""
    is_round = isinstance(fixed, Recipe) and fixed.series is not None
    return math.floor(asked_until(fixed.interval)) if is_round else fixed.interval.start


def _refusal_of(refusals: tuple[Refusal, ...]) -> Abort:
    """The refusal with every rule that refuses; the first one is the problem's type."""
    abort = abort_of_refusal(refusals[0])
    abort.extensions["refusals"] = refusals_document(refusals)
    return abort
