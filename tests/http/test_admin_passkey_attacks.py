"""Attacks on approval by passkey, on both databases: answers of others, of before, twice at once, of the removed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tacit.service.base.secret_files import write_secret
from tests.http.admin_stage import Stage
from tests.http.test_admin_passkeys import (
    ADMINISTRATOR,
    NEEDED,
    ORIGIN,
    REFUSED,
    SignedInBrowser,
    approver,
    invited,
    seat,
    submitted,
)


@pytest.fixture(params=["sqlite", "postgresql"])
async def stage(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    running = Stage(tmp_path)
    await running.prepare()
    changes: dict[str, Any] = {"passkeys": "required", "public_url": ORIGIN}
    if request.param == "postgresql":
        url = request.getfixturevalue("make_postgres_url")()
        write_secret(tmp_path / "database.url", url.replace("+asyncpg", "").encode())
        changes["database_file"] = tmp_path / "database.url"
    await running.start(**changes)
    yield running
    await running.inner.close()


async def person_of(stage: Stage, role: str) -> str:
    _, page = await stage.call("GET", "/v1/people", status=200, **ADMINISTRATOR)
    return str(next(one["id"] for one in page["people"] if one["role"] == role))


async def change(stage: Stage, person: str, **members: object) -> None:
    await stage.call("PATCH", f"/v1/people/{person}", members, status=200, **ADMINISTRATOR)


async def test_one_answer_sent_many_times_at_once_counts_once(stage: Stage) -> None:
    person = await approver(stage)
    question = await submitted(stage)
    shown = person.authenticator.show(await person.options(question))
    answers = await asyncio.gather(*(person.act(question, shown) for _ in range(8)))
    assert answers.count((200, "")) == 1, answers
    assert all(status in {403, 409, 412} for status, _ in answers if status != 200), answers
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **ADMINISTRATOR)
    assert sum((one["what"], one["outcome"]) == ("question.approve", "done") for one in page["acts"]) == 1
    own = (await stage.call("GET", "/v1/passkeys", status=200, **person.signed_in))[1]["passkeys"]
    assert [one["counter"] for one in own] == [person.authenticator.counter]


async def test_an_answer_of_another_person_approves_nothing_in_either_seat(stage: Stage) -> None:
    first = await approver(stage)
    analyst = await person_of(stage, "analyst")
    await change(stage, analyst, role="approver")
    second = await seat(stage, "analyst")
    second.authenticator.id = b"credential-2"
    _, made = await stage.call("POST", f"/v1/people/{analyst}/invitation", {}, status=201, **ADMINISTRATOR)
    assert await second.register(made["invitation"]) == (201, "")
    draft = {"name": "third", "text": "?", "metric": "m", "encoder": {"kind": "boolean"}, "population": 1000}
    _, found = await stage.call("POST", "/v1/questions", draft, status=201, role="approver")
    question = found["id"]
    await stage.call("POST", f"/v1/questions/{question}/submit", status=200)
    mine, theirs = await first.options(question), await second.options(question)
    assert mine["challenge"] != theirs["challenge"]
    assert await second.act(question, first.authenticator.show(mine)) == REFUSED
    assert await second.act(question, second.authenticator.show(mine)) == REFUSED  # over a challenge of another
    assert await second.act(question, first.authenticator.show(theirs)) == REFUSED
    assert await first.act(question, second.authenticator.show(theirs)) in {REFUSED, (403, "problem:own-draft")}
    assert (await stage.shown(question))["state"] == "submitted"
    assert await second.act(question, second.authenticator.show(theirs)) == (200, "")


async def test_whoever_is_disabled_or_loses_the_role_after_the_question_was_shown_approves_nothing(
    stage: Stage,
) -> None:
    person = await approver(stage)
    question = await submitted(stage)
    who = await person_of(stage, "approver")
    shown = person.authenticator.show(await person.options(question))
    await change(stage, who, role="viewer")
    assert await person.act(question, shown) == (403, "problem:forbidden")
    await change(stage, who, role="approver", disabled=True)
    assert (await person.act(question, shown))[0] == 401
    await change(stage, who, disabled=False)
    assert (await person.act(question, shown))[0] == 401  # the session is gone for good
    assert (await stage.shown(question))["state"] == "submitted"
    again = await seat(stage, "approver")
    again.authenticator = person.authenticator
    assert await again.approve(question) == (200, "")


async def test_a_registration_is_worth_nothing_in_another_session_and_not_twice(stage: Stage) -> None:
    victim, thief = await seat(stage, "approver"), await seat(stage, "viewer")
    invitation, other = await invited(stage, "approver"), await invited(stage, "viewer")
    _, asked = await stage.call(
        "POST", "/v1/passkeys/options", {"invitation": invitation}, status=200, **victim.signed_in
    )
    made = thief.authenticator.make(asked["options"])  # the thief saw what the victim's browser was asked

    async def registered(who: SignedInBrowser, text: str) -> tuple[int, str]:
        body = {"invitation": text, "credential": made}
        answer, found = await stage.call("POST", "/v1/passkeys", body, **who.signed_in)
        return answer.status, str(found.get("type", "")).removeprefix("urn:tacit:")

    assert await registered(thief, other) == REFUSED
    assert await registered(thief, invitation) == (403, "problem:invitation")
    assert await registered(victim, other) == (403, "problem:invitation")
    assert (
        await stage.refused("POST", "/v1/passkeys", {"invitation": invitation, "credential": made}, role="approver")
        == NEEDED
    )
    without_csrf = {"Cookie": victim.signed_in["headers"]["Cookie"]}
    answer, _ = await stage.call(
        "POST", "/v1/passkeys", {"invitation": invitation, "credential": made}, role=None, headers=without_csrf
    )
    assert answer.status == 403
    assert await registered(victim, invitation) == (201, "")
    assert await registered(victim, invitation) == (403, "problem:invitation")
    assert await registered(victim, await invited(stage, "approver")) == REFUSED
    own = (await stage.call("GET", "/v1/passkeys", status=200, **thief.signed_in))[1]["passkeys"]
    assert own == []


async def test_one_invitation_used_many_times_at_once_registers_one_passkey(stage: Stage) -> None:
    person = await seat(stage, "approver")
    invitation = await invited(stage, "approver")
    _, asked = await stage.call(
        "POST", "/v1/passkeys/options", {"invitation": invitation}, status=200, **person.signed_in
    )

    async def registered(number: int) -> int:
        own = SignedInBrowser(stage, person.signed_in["headers"])
        own.authenticator.id = b"credential-%d" % number
        body = {"invitation": invitation, "credential": own.authenticator.make(asked["options"])}
        answer, _ = await stage.call("POST", "/v1/passkeys", body, **person.signed_in)
        return answer.status

    answers = await asyncio.gather(*(registered(number) for number in range(6)))
    assert sorted(answers) == [201, *[403] * 5]
    own = (await stage.call("GET", "/v1/passkeys", status=200, **person.signed_in))[1]["passkeys"]
    assert len(own) == 1


async def test_a_passkey_that_is_taken_while_it_is_shown_approves_before_or_not_at_all(stage: Stage) -> None:
    person = await approver(stage)
    who = await person_of(stage, "approver")
    for number in range(4):
        question = await submitted(stage, name=f"q{number}")
        shown = person.authenticator.show(await person.options(question))
        own = (await stage.call("GET", "/v1/passkeys", status=200, **person.signed_in))[1]["passkeys"]
        path = f"/v1/people/{who}/passkeys/{own[0]['id']}"
        acted, (taken, _) = await asyncio.gather(
            person.act(question, shown), stage.call("DELETE", path, **ADMINISTRATOR)
        )
        assert taken.status == 204
        assert acted in {(200, ""), REFUSED}
        assert (await stage.shown(question))["state"] == ("approved" if acted == (200, "") else "submitted")
        assert (await stage.call("GET", "/v1/passkeys", status=200, **person.signed_in))[1]["passkeys"] == []
        assert await person.register(await invited(stage, "approver")) == (201, "")


async def test_nobody_is_signed_in_by_what_a_passkey_shows_to_another_site(stage: Stage) -> None:
    person = await seat(stage, "approver")
    for lie in ({"origin": "https://localhost:8090"}, {"origin": f"{ORIGIN}.evil.example"}, {"origin": f"{ORIGIN}/"},
                {"crossOrigin": True}, {"type": "webauthn.get"}, {"origin": ["x"]}, {"challenge": 7}):  # fmt: skip
        person.authenticator.said = dict(lie)
        assert await person.register(await invited(stage, "approver")) == REFUSED, lie
    person.authenticator.said = {}
    person.authenticator.rp_id = "evil.example"
    assert await person.register(await invited(stage, "approver")) == REFUSED
