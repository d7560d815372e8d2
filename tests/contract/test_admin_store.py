"""The admin service's store keeps its promises on every backend: in memory, in a file, in PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import IntegrityError

from services.admin.storage.audit import chained, follows, record, verify
from services.admin.storage.records import Act, Answer, ApiKey, Failures, Person, Question, QuestionState, Session
from services.admin.storage.store import AdminStore
from tacit.errors import Fatal
from tacit.operations.audit_chain import FIRST, Chain
from tests.contract.conftest import Opening

LATE = 2**40
DRAFT = Question("one", QuestionState.DRAFT, 1, '{"é":1}', ("a", "b"), LATE, LATE)
PERSON = Person("p", "Name", "analyst", 5)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
ACTS = st.builds(Act, TEXT, TEXT, TEXT, st.integers(0, 2**53 - 1), TEXT, TEXT, TEXT)


@pytest.fixture
async def store(opening: Opening[AdminStore]) -> AsyncIterator[AdminStore]:
    async with opening(AdminStore) as found:
        yield found


async def test_a_question_moves_as_its_table_says_and_from_what_was_read(store: AdminStore) -> None:
    async with store.transaction() as tx:
        await tx.add_question(DRAFT)
        await tx.add_question(replace(DRAFT, id="two"))
        (first, second) = await tx.questions(0, 9)
        assert (first, second.id) == (replace(DRAFT, number=first.number), "two")
        submitted = replace(first, state=QuestionState.SUBMITTED, revision=2)
        assert await tx.put_question(submitted, first)
        assert not await tx.put_question(submitted, first)
        with pytest.raises(Fatal, match="cannot go from submitted to published"):
            await tx.put_question(replace(submitted, state=QuestionState.PUBLISHED), submitted)
        with pytest.raises(Fatal):
            await tx.drop_question(submitted)
        assert not await tx.drop_question(replace(second, revision=7))
        assert await tx.drop_question(second)
    signed = replace(
        submitted, state=QuestionState.APPROVED, revision=3, approval=b"a" * 32, recipe=b"r", recipe_hash="h", leaf=b"l"
    )
    async with store.transaction() as tx:
        assert await tx.unsent(9) == []
        assert await tx.put_question(signed, submitted)
        assert await tx.unsent(9) == [signed]
        assert await tx.newest_published(9) == []
        assert await tx.put_question(replace(signed, state=QuestionState.PUBLISHED, position=LATE, revision=4), signed)
    async with store.read() as tx:
        assert (await tx.unsent(9), await tx.newest_published(9), await tx.questions_of(["h", "x"])) == (
            [],
            ["h"],
            {"h": "one"},
        )
        assert [one.position for one in await tx.questions(0, 9, QuestionState.PUBLISHED, "h")] == [LATE]
        assert await tx.questions(first.number, 9) == []


async def test_people_keys_sessions_and_failures_are_kept_and_forgotten(store: AdminStore) -> None:
    key, session = ApiKey("k", "p", "", 1, LATE, b"d" * 32), Session("p", 10, 10, b"s" * 32)
    async with store.transaction() as tx:
        await tx.add_person(PERSON)
        await tx.add_key(key)
        await tx.put_session(session)
        await tx.put_session(replace(session, seen=20))
        await tx.put_failures(Failures(b"f" * 32, 1, 5, LATE))
        await tx.put_failures(Failures(b"f" * 32, 2, 6, LATE))
    for twice in (replace(PERSON, id="q"), replace(PERSON, name="Other")):
        with pytest.raises(IntegrityError):
            async with store.transaction() as tx:
                await tx.add_person(twice)
    async with store.transaction() as tx:
        person = (await tx.people(0, 9))[0]
        assert (await tx.key_holder(b"d" * 32), await tx.key_holder(b"e" * 32)) == ((key, person), None)
        assert await tx.keys("p") == [key]
        assert [await tx.names({"p", "q"}), await tx.names(())] == [{"p": PERSON.name}, {}]
        assert await tx.session_holder(b"s" * 32) == (replace(session, seen=20), person)
        assert await tx.session_holder(b"x" * 32) is None
        assert (await tx.active_with_role("analyst"), (await tx.people(0, 9))[0].name) == (1, "Name")
        await tx.put_person(replace(PERSON, disabled=True))
        assert await tx.active_with_role("analyst") == 0
        assert await tx.session(b"s" * 32) == replace(session, seen=20)
        assert [await tx.drop_sessions(began_before=10), await tx.drop_sessions(person_id="p")] == [0, 1]
        assert (await tx.failures(b"f" * 32)) == Failures(b"f" * 32, 2, 6, LATE)
        await tx.drop_failures(last_before=7)
        assert await tx.failures(b"f" * 32) is None
        assert [await tx.drop_key("q", "k"), await tx.drop_key("p", "k"), await tx.drop_key("p", "k")] == [0, 1, 0]


async def test_an_answer_is_given_once_and_acts_are_a_chain(store: AdminStore) -> None:
    answer = Answer(b"k" * 32, b"r" * 32, 5, 201, "{}", None)
    async with store.transaction() as tx:
        await tx.add_answer(answer)
        rows = [await record(tx, Act("p", f"act-{number}", "t", LATE, "loopback", "done")) for number in range(3)]
    assert (rows[0].previous, [row.number for row in rows]) == (FIRST, [1, 2, 3])
    with pytest.raises(IntegrityError):
        async with store.transaction() as tx:
            await tx.add_act(chained(3, FIRST, rows[0].act))
    async with store.transaction() as tx:
        assert [await tx.answer(b"k" * 32), await tx.answer(b"x" * 32)] == [answer, None]
        assert [await tx.drop_answers(5), await tx.drop_answers(6)] == [0, 1]
        assert (await tx.acts(1, 9), await tx.last_act()) == (rows[1:], rows[2])
    assert await verify(store) == Chain(3, rows[2].hash)


@given(st.lists(ACTS, min_size=1, max_size=5), st.data())
def test_no_row_of_a_chain_can_be_another(acts: list[Act], data: st.DataObject) -> None:
    rows, newest = [], FIRST
    for number, act in enumerate(acts, start=1):
        rows.append(chained(number, newest, act))
        newest = rows[-1].hash
    assert follows(Chain(), rows) == Chain(len(rows), newest)
    place = data.draw(st.integers(0, len(rows) - 1))
    other = replace(rows[place], act=data.draw(ACTS))
    changed = [*rows[:place], other, *rows[place + 1 :]]
    assert follows(Chain(), changed).broken == (None if other == rows[place] else place + 1)
    assert follows(Chain(), [*rows[:place], *rows[place + 1 :]]).broken == (
        place + 1 if place + 1 < len(rows) else None
    )


async def test_published_training_runs_go_on_until_they_are_over_or_ended(store: AdminStore) -> None:
    published = replace(DRAFT, state=QuestionState.DRAFT, trains=True, recipe_hash="s", position=LATE)
    states = [QuestionState.SUBMITTED, QuestionState.APPROVED, QuestionState.PUBLISHED]
    async with store.transaction() as tx:
        await tx.add_question(published)
        await tx.add_question(replace(DRAFT, id="two"))
        found = (await tx.questions(0, 9))[0]
        for state in states:
            assert await tx.running(9) == []
            following = replace(found, state=state, revision=found.revision + 1)
            assert await tx.put_question(following, found)
            found = following
    async with store.transaction() as tx:
        assert (await tx.running(9), await tx.running(0)) == ([found], [])
        assert (await tx.question_of_series("s"), await tx.question_of_series("t")) == (found, None)
        assert [await tx.end_run("one", 7), await tx.end_run("one", 8), await tx.end_run("none", 8)] == [1, 0, 0]
    async with store.read() as tx:
        over = replace(found, over_at=7)
        assert (await tx.running(9), await tx.question_of_series("s")) == ([], over)
