"""The questions in the admin service's database."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from services.admin.storage.records import QUESTION_STATES, Person, Question, QuestionState
from services.admin.storage.rows import Rows
from services.admin.storage.schema import QUESTIONS


class QuestionsTx(Rows):
    """The part of a transaction that questions use."""

    async def question(self, question_id: str) -> Question | None:
        row = await self._one(sa.select(QUESTIONS).where(QUESTIONS.c.id == question_id))
        return None if row is None else _question(row)

    async def questions(
        self, after: int, limit: int, state: QuestionState | None = None, recipe_hash: str = ""
    ) -> Sequence[Question]:
        """At most ``limit`` questions after number ``after``, in the order in which they were written."""
        query = sa.select(QUESTIONS).where(QUESTIONS.c.number > after).order_by(QUESTIONS.c.number).limit(limit)
        if state is not None:
            query = query.where(QUESTIONS.c.state == state.value)
        if recipe_hash:
            query = query.where(QUESTIONS.c.recipe_hash == recipe_hash)
        return [_question(row) for row in await self._all(query)]

    async def questions_of(self, recipe_hashes: Sequence[str]) -> Mapping[str, str]:
        """Those of these recipes that came from a question here: recipe hash -> the question's id."""
        query = sa.select(QUESTIONS.c.recipe_hash, QUESTIONS.c.id).where(QUESTIONS.c.recipe_hash.in_(recipe_hashes))
        return {row["recipe_hash"]: row["id"] for row in await self._all(query)}

    async def question_of_round(self, series_hash: str, round_index: int) -> Question | None:
        """The question that asks round ``round_index`` (from 0) of the series with this hash, in any state; None if
        there is none."""
        own = (QUESTIONS.c.series_hash == series_hash) & (QUESTIONS.c.round_index == round_index)
        row = await self._one(sa.select(QUESTIONS).where(own))
        return None if row is None else _question(row)

    async def newest_published(self, limit: int) -> Sequence[str]:
        """The recipe hashes of published questions, the newest first."""
        published = QUESTIONS.c.state == QuestionState.PUBLISHED.value
        query = sa.select(QUESTIONS.c.recipe_hash).where(published).order_by(QUESTIONS.c.number.desc()).limit(limit)
        return [row["recipe_hash"] for row in await self._all(query)]

    async def question_counts(self) -> Mapping[str, int]:
        """Number of questions by state, without the states that no question is in."""
        rows = await self._all(sa.select(QUESTIONS.c.state, sa.func.count().label("n")).group_by(QUESTIONS.c.state))
        return {row["state"]: int(row["n"]) for row in rows}

    async def unsent(self, limit: int) -> Sequence[Question]:
        """At most ``limit`` questions whose recipe is signed and not known to be in the log."""
        waiting = (QUESTIONS.c.state == QuestionState.APPROVED.value) & (sa.func.length(QUESTIONS.c.leaf) > 0)
        query = sa.select(QUESTIONS).where(waiting).order_by(QUESTIONS.c.number).limit(limit)
        return [_question(row) for row in await self._all(query)]

    async def running(self, limit: int) -> Sequence[Question]:
        """At most ``limit`` published training runs that are not over."""
        published, goes_on = QUESTIONS.c.state == QuestionState.PUBLISHED.value, QUESTIONS.c.over_at.is_(None)
        query = sa.select(QUESTIONS).where(QUESTIONS.c.trains, published, goes_on)
        return [_question(row) for row in await self._all(query.order_by(QUESTIONS.c.number).limit(limit))]

    async def question_of_series(self, series_hash: str) -> Question | None:
        """The published training run whose series has this hash, or None."""
        own = (QUESTIONS.c.recipe_hash == series_hash) & QUESTIONS.c.trains & QUESTIONS.c.position.is_not(None)
        row = await self._one(sa.select(QUESTIONS).where(own))
        return None if row is None else _question(row)

    async def end_run(self, question_id: str, now: int) -> bool:
        """Note that a training run is over at POSIX second ``now``. Returns False if it was noted before."""
        own = (QUESTIONS.c.id == question_id) & QUESTIONS.c.over_at.is_(None)
        return await self._run(sa.update(QUESTIONS).where(own).values(over_at=now)) == 1

    async def add_question(self, question: Question) -> None:
        """Store a new question, in its first state."""
        QUESTION_STATES.check(None, question.state)
        await self._run(sa.insert(QUESTIONS).values(columns_of(question)))

    async def put_question(self, question: Question, before: Question) -> bool:
        """Replace the question if its revision is unchanged. Returns whether it was."""
        QUESTION_STATES.check(before.state, question.state)
        moved = sa.update(QUESTIONS).where(QUESTIONS.c.id == before.id, QUESTIONS.c.revision == before.revision)
        return await self._run(moved.values(columns_of(question))) == 1

    async def drop_question(self, question: Question) -> bool:
        """Delete the question if its revision is unchanged. Returns whether it was."""
        QUESTION_STATES.check(question.state, None)
        same = (QUESTIONS.c.id == question.id) & (QUESTIONS.c.revision == question.revision)
        return await self._run(sa.delete(QUESTIONS).where(same)) == 1


def columns_of(row: Question | Person) -> dict[str, Any]:
    """The columns of a row, without the number, which the database assigns."""
    values = {name: value for name, value in asdict(row).items() if name != "number"}
    if isinstance(row, Question):
        values |= {"state": row.state.value, "authors": json.dumps(row.authors)}
    return values


def _question(row: Mapping[str, Any]) -> Question:
    return Question(**{**row, "state": QuestionState(row["state"]), "authors": tuple(json.loads(row["authors"]))})
