"""What one administrator tries in order to be two persons, and what comes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

from services.admin.people.consent import CHANGE_SECONDS
from tacit.codec import b64url
from tacit.service.base.secret_files import write_secret
from tests.http.admin_pair import (
    DELAY,
    FIRST,
    LATER,
    SECOND,
    add,
    asked,
    consent,
    no_consent,
    pair,
    person_of,
    sha256_of,
    submitted,
    waiting,
)
from tests.http.admin_stage import Stage

PASSWORD = "correct horse battery staple"
STALE, OWN = (409, "problem:change-stale"), (403, "problem:own-change")


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """argon2id with as little work as it takes."""
    monkeypatch.setattr("services.admin.people.passwords.HASHER", PasswordHasher(1, 8, 1))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    running = await pair(tmp_path)
    yield running
    await running.inner.close()


@pytest.fixture(params=["sqlite", "postgresql"])
async def either(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    changes: dict[str, Any] = {}
    if request.param == "postgresql":
        url = request.getfixturevalue("make_postgres_url")()
        write_secret(tmp_path / "database.url", url.replace("+asyncpg", "").encode())
        changes["database_file"] = tmp_path / "database.url"
    running = await pair(tmp_path, **changes)
    yield running
    await running.inner.close()


async def opens(stage: Stage, name: str) -> bool:
    return (await stage.call("GET", "/v1/session", role=name))[0].status == 200


async def approve(stage: Stage, question: str, role: str) -> tuple[int, str]:
    answer, problem = await stage.call("POST", f"/v1/questions/{question}/approve", role=role)
    return answer.status, "" if answer.status == 200 else str(problem["type"]).removeprefix("urn:tacit:")


async def test_one_administrator_alone_makes_no_approver_and_lets_nobody_in_as_one(stage: Stage) -> None:
    approver = await person_of(stage, "approver-1")
    body = {"name": "carol", "role": "approver", "key_sha256": sha256_of("carol")}
    change = await asked(stage, "POST", "/v1/people", body)
    key = await asked(stage, "POST", f"/v1/people/{approver}/keys", {"sha256": sha256_of("mallory")})
    promoted = await asked(
        stage, "PATCH", f"/v1/people/{await person_of(stage, 'analyst-1')}", {"role": "administrator"}
    )
    for one in (change, key, promoted):
        assert await no_consent(stage, one, **FIRST) == OWN
    assert not await opens(stage, "carol")
    assert not await opens(stage, "mallory")
    _, page = await stage.call("GET", "/v1/people", status=200, **FIRST)
    assert "carol" not in [one["name"] for one in page["people"]]
    assert (await stage.call("GET", "/v1/session", role="analyst"))[1]["person"]["role"] == "analyst"
    for other in ("analyst", "approver", "viewer"):
        assert await no_consent(stage, change, role=other) == (403, "problem:forbidden")


async def test_a_consented_approver_counts_after_the_delay_in_which_everybody_sees_it(either: Stage) -> None:
    stage = either
    person = await add(stage)
    question = await submitted(stage)
    for role in ("viewer", "analyst", "approver", "administrator", "carol"):
        (one,) = await waiting(stage, role)
        assert (one["name"], one["role"], one["state"], one["person"]) == ("carol", "approver", "done", person)
        assert (one["asked_by_name"], one["consented_by_name"]) == ("administrator-1", "second")
        assert one["counts_from"] == int(stage.clock.now()) + DELAY
        assert sha256_of("carol") in one["words"]
    await stage.clock.advance(DELAY - 1)
    assert await approve(stage, question, "carol") == LATER
    await stage.clock.advance(1)
    assert await approve(stage, question, "carol") == (200, "")
    assert await waiting(stage) == []
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, role="analyst")
    done = [(one["who"], one["what"], one["outcome"]) for one in page["acts"] if "carol" in one["detail"]]
    assert done == [("administrator-1", "person.add", "done"), ("second", "change.consent", "done")]


async def test_no_administrator_ever_sees_what_lets_an_approver_in(stage: Stage) -> None:
    approver = await person_of(stage, "approver-1")
    for method, path, body in (
        ("POST", f"/v1/people/{approver}/keys", {"label": "laptop"}),
        ("PATCH", f"/v1/people/{approver}", {"password": PASSWORD}),
        ("POST", "/v1/people", {"name": "carol", "role": "administrator", "password": PASSWORD}),
    ):
        assert await stage.refused(method, path, body, **FIRST) == (422, "problem:field")
    assert await waiting(stage) == []


async def test_a_detour_by_a_role_without_power_leaves_nothing_that_opens_an_approver(stage: Stage) -> None:
    path = f"/v1/people/{await person_of(stage, 'approver-1')}"
    await stage.call("PATCH", path, {"role": "analyst"}, status=200, **FIRST)
    assert await approve(stage, await submitted(stage), "approver") == (403, "problem:forbidden")
    await stage.call("PATCH", path, {"password": PASSWORD}, status=200, **FIRST)
    _, key = await stage.call("POST", f"{path}/keys", {}, status=201, **FIRST)
    signed_in, _ = await stage.call(
        "POST", "/v1/session", {"name": "approver-1", "password": PASSWORD}, role=None, status=201
    )
    change = await asked(stage, "PATCH", path, {"role": "approver"})
    assert "role analyst to approver" in change["words"]
    assert "earlier keys and sessions end" in change["words"]
    await consent(stage, change)
    cookie = {"Cookie": signed_in.headers["set-cookie"].partition(";")[0]}
    for shown in (cookie, {"Authorization": f"Bearer {key['key']}"}):
        assert (await stage.call("GET", "/v1/session", role=None, headers=shown))[0].status == 401
    assert not await opens(stage, "approver")
    body = {"name": "approver-1", "password": PASSWORD}
    assert (await stage.call("POST", "/v1/session", body, role=None))[0].status == 401
    _, page = await stage.call("GET", "/v1/people", status=200, **FIRST)
    assert not next(one for one in page["people"] if one["name"] == "approver-1")["has_password"]


async def test_power_is_taken_at_once_and_given_back_with_consent_alone(stage: Stage) -> None:
    path = f"/v1/people/{await person_of(stage, 'approver-1')}"
    await stage.call("PATCH", path, {"disabled": True}, status=200, **FIRST)
    assert not await opens(stage, "approver")
    change = await asked(stage, "PATCH", path, {"disabled": False})
    assert not await opens(stage, "approver")
    await consent(stage, change)
    assert await opens(stage, "approver")
    assert await approve(stage, await submitted(stage), "approver") == LATER
    (key,) = (await stage.call("GET", f"{path}/keys", **FIRST))[1]["keys"]
    await stage.call("DELETE", f"{path}/keys/{key['id']}", status=204, **FIRST)
    assert not await opens(stage, "approver")
    own = f"/v1/people/{await person_of(stage, 'second')}"
    await stage.call("PATCH", own, {"disabled": True}, status=200, **FIRST)
    assert not await opens(stage, "second")


async def test_an_account_made_before_neither_asks_nor_consents_until_it_counts(stage: Stage) -> None:
    await add(stage, "carol", "administrator")
    body = {"name": "dave", "role": "approver", "key_sha256": sha256_of("dave")}
    assert await stage.refused("POST", "/v1/people", body, role="carol") == LATER
    change = await asked(stage, "POST", "/v1/people", body)
    assert await no_consent(stage, change, role="carol") == LATER
    assert (await stage.call("GET", "/v1/changes"))[1]["rule"]["administrators"] == 2
    await stage.clock.advance(DELAY)
    await consent(stage, change, role="carol")
    own = await asked(
        stage, "POST", f"/v1/people/{await person_of(stage, 'second')}/keys", {"sha256": sha256_of("new")}
    )
    await consent(stage, own)
    other = await asked(stage, "PATCH", f"/v1/people/{await person_of(stage, 'analyst-1')}", {"role": "approver"})
    assert await no_consent(stage, other) == LATER, "whoever was changed just now does not consent"


async def test_what_a_removed_administrator_asked_for_is_not_done(stage: Stage) -> None:
    body = {"name": "carol", "role": "approver", "key_sha256": sha256_of("carol")}
    change = await asked(stage, "POST", "/v1/people", body, **SECOND)
    await stage.call("PATCH", f"/v1/people/{await person_of(stage, 'second')}", {"disabled": True}, **FIRST, status=200)
    assert await no_consent(stage, change, **FIRST) == STALE
    await stage.call("POST", f"/v1/changes/{change['id']}/refuse", {}, status=204, **FIRST)
    assert await waiting(stage) == []
    assert not await opens(stage, "carol")


async def test_consent_is_for_the_change_that_was_read_and_for_the_person_as_they_were(stage: Stage) -> None:
    approver = f"/v1/people/{await person_of(stage, 'approver-1')}"
    analyst = f"/v1/people/{await person_of(stage, 'analyst-1')}"
    key = await asked(stage, "POST", f"{approver}/keys", {"sha256": sha256_of("new")})
    role = await asked(stage, "PATCH", analyst, {"role": "approver"})
    for digest in (role["digest"], b64url(bytes(32)), "not a digest", "\0"):
        assert await no_consent(stage, key, digest) == (412, "problem:changed")
    await stage.call("POST", f"{analyst}/keys", {}, status=201, **FIRST)
    assert await no_consent(stage, role) == STALE, "a key was given behind the second administrator's back"
    await stage.call("PATCH", approver, {"role": "viewer"}, status=200, **FIRST)
    assert await no_consent(stage, key) == STALE
    assert not await opens(stage, "new")
    assert await opens(stage, "analyst")


async def test_a_change_that_waits_is_one_of_its_person_and_ends_after_a_week(stage: Stage) -> None:
    body = {"name": "carol", "role": "approver", "key_sha256": sha256_of("carol")}
    change = await asked(stage, "POST", "/v1/people", body)
    again = await stage.refused("POST", "/v1/people", {"name": "carol", "role": "administrator"}, **SECOND)
    assert again == (409, "problem:change-waits")
    await stage.clock.advance(CHANGE_SECONDS)
    assert await no_consent(stage, change) == (404, "problem:not-found")
    assert await waiting(stage) == []
    change = await asked(stage, "POST", "/v1/people", body)
    await stage.call("POST", f"/v1/changes/{change['id']}/refuse", {}, status=204, **SECOND)
    assert await no_consent(stage, change) == (404, "problem:not-found")
    await stage.call("POST", "/v1/people", {"name": "carol", "role": "viewer"}, status=201, **FIRST)
    assert await stage.refused("POST", "/v1/people", body, **FIRST) == (409, "problem:name-taken")


async def test_a_name_or_key_that_was_taken_meanwhile_makes_the_change_stale(stage: Stage) -> None:
    body = {"name": "carol", "role": "approver", "key_sha256": sha256_of("carol")}
    change = await asked(stage, "POST", "/v1/people", body)
    await stage.call("POST", "/v1/people", {"name": "carol", "role": "viewer"}, status=201, **FIRST)
    assert await no_consent(stage, change) == STALE
    approver = f"/v1/people/{await person_of(stage, 'approver-1')}/keys"
    taken = await stage.refused("POST", approver, {"sha256": sha256_of("analyst")}, **FIRST)
    assert taken == (409, "problem:key-taken")
    change = await asked(stage, "POST", approver, {"sha256": sha256_of("new")})
    viewer = f"/v1/people/{await person_of(stage, 'viewer-1')}/keys"
    await stage.call("POST", viewer, {"sha256": sha256_of("new")}, status=201, **FIRST)
    assert await no_consent(stage, change) == STALE
    assert (await stage.call("GET", "/v1/session", role="new"))[1]["person"]["name"] == "viewer-1"


async def test_one_consent_sent_many_times_at_once_counts_once(either: Stage) -> None:
    stage = either
    body = {"name": "carol", "role": "approver", "key_sha256": sha256_of("carol")}
    change = await asked(stage, "POST", "/v1/people", body)
    path = f"/v1/changes/{change['id']}"
    sent = {"digest": change["digest"]}
    answers = await asyncio.gather(
        *(stage.call("POST", f"{path}/consent", sent, **SECOND) for _ in range(6)),
        *(stage.call("POST", f"{path}/consent", sent, **FIRST) for _ in range(2)),
        stage.call("POST", f"{path}/refuse", {}, **FIRST),
    )
    good = [answer.status for answer, _ in answers if answer.status < 300]
    assert len(good) == 1
    assert await opens(stage, "carol") is (good == [200])
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **FIRST)
    done = [one["what"] for one in page["acts"] if one["what"].startswith("change.") and one["outcome"] == "done"]
    assert len(done) == 1


async def test_an_approval_of_before_a_change_remains_and_the_log_holds_what_let_its_approver_in(stage: Stage) -> None:
    question = await stage.approved()
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **FIRST)
    first = next(one["detail"] for one in page["acts"] if one["what"] == "question.approve")
    approver = f"/v1/people/{await person_of(stage, 'approver-1')}"
    await consent(stage, await asked(stage, "POST", f"{approver}/keys", {"sha256": sha256_of("new")}))
    assert await approve(stage, await submitted(stage, name="second"), "approver") == LATER
    _, published = await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
    assert published["state"] == "published"
    await stage.clock.advance(DELAY)
    third = await submitted(stage, name="third")
    assert await approve(stage, third, "approver") == (200, "")
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **FIRST)
    last = [one["detail"] for one in page["acts"] if (one["what"], one["outcome"]) == ("question.approve", "done")][-1]
    assert first.partition("ways in ")[2] != last.partition("ways in ")[2] != ""


async def test_analysts_and_viewers_need_no_consent(stage: Stage) -> None:
    _, made = await stage.call("POST", "/v1/people", {"name": "ann", "role": "viewer"}, status=201, **FIRST)
    path = f"/v1/people/{made['id']}"
    await stage.call("PATCH", path, {"role": "analyst", "password": PASSWORD}, status=200, **FIRST)
    await stage.call("POST", f"{path}/keys", {}, status=201, **FIRST)
    assert await waiting(stage) == []


@pytest.mark.parametrize("name", ["approver-1 ", "approver  1", " approver-1", "approver-1\u00a0", "a" * 65])
async def test_no_name_looks_like_another_by_its_spaces(stage: Stage, name: str) -> None:
    assert (await stage.refused("POST", "/v1/people", {"name": name, "role": "viewer"}, **FIRST))[0] == 422
