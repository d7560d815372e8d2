"""People of the admin API: keys shown once, sessions, pauses after failures, and a chain of acts."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from openapi_spec_validator import validate

from infra.commands.keys import public_part
from infra.lab.kit.entropy import SeededEntropy
from services.admin.api.calls import ADMIN
from services.admin.app import create_app
from services.admin.handlers.routes import ROUTES
from services.admin.people.people import first_people
from services.admin.questions.events import MOST_LISTENING, MOST_STREAMS
from services.admin.storage import audit
from services.admin.storage.store import AdminTx
from tacit.errors import UsageError
from tacit.service.app import ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest
from tests.http.admin_stage import ADMIN_URL, SURVEY, Stage, key_of, serving

PASSWORD = "correct horse battery staple"
ADMINISTRATOR: dict[str, Any] = {"role": "administrator"}


@pytest.fixture(autouse=True)
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    """argon2id with as little work as it takes."""
    monkeypatch.setattr("services.admin.people.passwords.HASHER", PasswordHasher(1, 8, 1))


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path) as running:
        yield running


async def person(stage: Stage, **members: object) -> str:
    body = {"name": "another", "role": "analyst", **members}
    return str((await stage.call("POST", "/v1/people", body, status=201, **ADMINISTRATOR))[1]["id"])


async def test_a_key_is_shown_once_opens_until_it_is_taken_or_late_and_is_kept_as_a_digest(stage: Stage) -> None:
    who = await person(stage)
    path = f"/v1/people/{who}/keys"
    late = {"label": "notebook", "expires": int(stage.clock.now()) + 60}
    _, made = await stage.call("POST", path, late, status=201, **ADMINISTRATOR)
    _, lasting = await stage.call("POST", path, {}, status=201, headers={"Idempotency-Key": "k"}, **ADMINISTRATOR)
    again = await stage.refused("POST", path, {}, headers={"Idempotency-Key": "k"}, **ADMINISTRATOR)
    assert again == (409, "problem:shown-once")
    for key in (made["key"], lasting["key"]):
        bearer = {"Authorization": f"Bearer {key}"}
        assert (await stage.call("GET", "/v1/session", role=None, headers=bearer))[1]["person"]["id"] == who
        stored = b"".join(path.read_bytes() for path in stage.folder.glob("admin.sqlite3*"))
        assert key.encode() not in stored
    _, listed = await stage.call("GET", path, **ADMINISTRATOR)
    assert sorted(one["label"] for one in listed["keys"]) == ["", "notebook"]
    assert not any("key" in one for one in listed["keys"])
    await stage.clock.advance(60)
    await stage.call("DELETE", f"{path}/{lasting['id']}", status=204, **ADMINISTRATOR)
    for key in (made["key"], lasting["key"], key_of("nobody")):
        bearer = {"Authorization": f"Bearer {key}"}
        assert (await stage.call("GET", "/v1/session", role=None, headers=bearer))[0].status == 401
    assert await stage.refused("DELETE", f"{path}/{lasting['id']}", **ADMINISTRATOR) == (404, "problem:not-found")
    assert await stage.refused("POST", path, {"expires": 1}, **ADMINISTRATOR) == (422, "problem:field")


async def test_a_session_lasts_no_longer_than_the_key_that_it_was_given_for(stage: Stage) -> None:
    who = await person(stage)
    path = f"/v1/people/{who}/keys"
    for end in ("late", "taken"):
        late = {"expires": int(stage.clock.now()) + 90} if end == "late" else {}
        _, key = await stage.call("POST", path, late, status=201, **ADMINISTRATOR)
        answer, _ = await stage.call("POST", "/v1/session", {"key": key["key"]}, role=None, status=201)
        session = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        await stage.clock.advance(70)
        await stage.call("GET", "/v1/session", role=None, headers=session, status=200)
        if end == "taken":
            await stage.call("DELETE", f"{path}/{key['id']}", status=204, **ADMINISTRATOR)
        else:
            await stage.clock.advance(20)
        await stage.call("GET", "/v1/session", role=None, headers=session, status=401)


async def test_a_browser_signs_in_shows_its_token_and_is_signed_out(stage: Stage) -> None:
    answer, document = await stage.call("POST", "/v1/session", {"key": key_of("analyst")}, role=None, status=201)
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    session = {"Cookie": cookie.partition(";")[0]}
    _, shown = await stage.call("GET", "/v1/session", role=None, headers=session, status=200)
    assert (shown["csrf"], shown["person"]["name"]) == (document["csrf"], "analyst-1")
    assert await stage.refused("POST", "/v1/questions", SURVEY, role=None, headers=session) == (403, "problem:csrf")
    allowed = {**session, "X-CSRF-Token": document["csrf"]}
    await stage.call("POST", "/v1/questions", SURVEY, role=None, headers=allowed, status=201)
    await stage.clock.advance(3000)
    await stage.start()
    await stage.call("GET", "/v1/session", role=None, headers=session, status=200)
    await stage.clock.advance(3000)
    await stage.call("DELETE", "/v1/session", role=None, headers=allowed, status=204)
    await stage.call("GET", "/v1/session", role=None, headers=session, status=401)


async def test_a_session_ends_when_it_is_idle_old_or_its_person_is_let_in_no_more(stage: Stage) -> None:
    who = await person(stage, password=PASSWORD)

    async def signed_in() -> dict[str, str]:
        body = {"name": "another", "password": PASSWORD}
        answer, _ = await stage.call("POST", "/v1/session", body, role=None, status=201)
        return {"Cookie": answer.headers["set-cookie"].partition(";")[0]}

    idle = await signed_in()
    await stage.clock.advance(3600)
    await stage.call("GET", "/v1/session", role=None, headers=idle, status=401)
    old = await signed_in()
    for _ in range(12):
        await stage.call("GET", "/v1/session", role=None, headers=old, status=200)
        await stage.clock.advance(3599)
    await stage.clock.advance(12)
    await stage.call("GET", "/v1/session", role=None, headers=old, status=401)
    for change in ({"password": "x" * 12}, {"password": PASSWORD, "disabled": True}):
        session = await signed_in() if "disabled" not in change else None
        if session is None:
            await stage.call("PATCH", f"/v1/people/{who}", {"password": PASSWORD}, status=200, **ADMINISTRATOR)
            session = await signed_in()
        await stage.call("PATCH", f"/v1/people/{who}", change, status=200, **ADMINISTRATOR)
        await stage.call("GET", "/v1/session", role=None, headers=session, status=401)


async def test_failures_lock_an_account_for_growing_pauses_whether_there_is_one_or_not(stage: Stage) -> None:
    await person(stage, password=PASSWORD)

    async def attempt(name: str, password: str) -> int:
        body = {"name": name, "password": password}
        answer, _ = await stage.call("POST", "/v1/session", body, role=None)
        return answer.status

    for name in ("another", "nobody"):
        assert [await attempt(name, "wrong password") for _ in range(6)] == [401] * 5 + [429]
        await stage.clock.advance(2)
        assert [await attempt(name, "wrong password") for _ in range(2)] == [401, 429]
        await stage.clock.advance(2)
        assert await attempt(name, PASSWORD) == 429
        await stage.clock.advance(2)
    assert await attempt("another", PASSWORD) == 201
    assert [await attempt("another", "wrong password") for _ in range(5)] == [401] * 5
    for body in ({}, {"key": "a", "name": "b"}, {"name": "b"}):
        assert (await stage.call("POST", "/v1/session", body, role=None))[0].status == 422


async def test_somebody_can_always_give_keys(stage: Stage) -> None:
    _, page = await stage.call("GET", "/v1/people?limit=2", status=200, **ADMINISTRATOR)
    assert ([one["role"] for one in page["people"]], page["next"]) == (["administrator", "analyst"], "2")
    own = page["people"][0]["id"]
    for change in ({"disabled": True}, {"role": "viewer"}):
        refusal = await stage.refused("PATCH", f"/v1/people/{own}", change, **ADMINISTRATOR)
        assert refusal == (409, "problem:last-administrator")
    await person(stage, role="administrator")
    await stage.call("PATCH", f"/v1/people/{own}", {"role": "viewer"}, status=200, **ADMINISTRATOR)
    assert (await stage.call("GET", "/v1/people", **ADMINISTRATOR))[0].status == 403
    again = {"name": "another", "role": "viewer"}
    assert (await stage.call("POST", "/v1/people", again, role="analyst"))[0].status == 403


async def test_a_changed_or_missing_act_is_noticed(stage: Stage) -> None:
    for number in range(6):
        await stage.draft(name=f"question-{number}")
    assert (await audit.verify(stage.admin.store)).broken is None
    await stage.inner.unmount(ADMIN_URL)
    file = stage.folder / "admin.sqlite3"
    for statement, broken in (
        ("UPDATE audit SET outcome = 'refused' WHERE number = 5", 5),
        ("DELETE FROM audit WHERE number = 3", 3),
        ("UPDATE audit SET who = 'x' WHERE number = 1", 1),
    ):
        with sqlite3.connect(file) as connection:
            connection.execute(statement)
        connection.close()
        admin = await stage.start()
        assert (await audit.verify(admin.store)).broken == broken
        await stage.inner.unmount(ADMIN_URL)


async def test_the_openapi_document_is_valid_and_says_what_is_answered(stage: Stage) -> None:
    _, document = await stage.call("GET", "/openapi.json", role=None, status=200)
    validate(document)
    assert document["openapi"] == "3.1.0"
    listed = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert listed == {(route.method, route.path) for route in ROUTES}
    answer, page = await stage.call("GET", "/docs", role=None, status=200)
    assert b"<script" not in page
    assert all(route.path.encode() in page for route in ROUTES)
    assert len({(await stage.call("GET", "/docs"))[0].headers["x-request-id"], answer.headers["x-request-id"]}) == 2


async def test_who_listens_hears_of_every_change_and_of_nothing_else(stage: Stage) -> None:
    headers = {"Authorization": f"Bearer {key_of('viewer')}"}
    listening = asyncio.ensure_future(stage.inner.request("GET", f"{ADMIN_URL}/v1/events", headers=headers))
    async with asyncio.timeout(10):
        while not stage.admin.events.heard:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
    question = await stage.draft()
    await stage.shown(question)
    await stage.call("POST", f"/v1/questions/{question}/submit", status=200)
    await stage.refused("POST", f"/v1/questions/{question}/approve")
    stage.admin.events.end()
    answer = await listening
    assert answer.headers["content-type"] == "text/event-stream"
    heard = [json.loads(line.removeprefix("data: ")) for line in answer.body.decode().splitlines() if "data:" in line]
    assert [(one["id"], one["state"], one["revision"]) for one in heard] == [
        (question, "draft", 1),
        (question, "submitted", 2),
    ]


async def test_text_that_a_database_refuses_is_in_no_query(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = AdminTx._one

    async def strict(self: AdminTx, query: Any) -> Any:
        assert not any("\0" in str(value) for value in query.compile().params.values())
        return await inner(self, query)

    monkeypatch.setattr(AdminTx, "_one", strict)
    for method, path in (("GET", "/v1/questions/%00"), ("POST", "/v1/questions/a%00/submit")):
        assert await stage.refused(method, path) == (404, "problem:not-found")
    assert (await stage.call("GET", "/v1/audit"))[1]["acts"][-1]["target"] == "a"
    given = {"name": "a\0", "password": PASSWORD}
    assert (await stage.refused("POST", "/v1/session", given, role=None))[0] == 401


async def test_nobody_holds_more_than_a_few_streams_and_a_new_one_ends_the_oldest(stage: Stage) -> None:
    events = stage.admin.events
    with contextlib.ExitStack() as stack:
        other = stack.enter_context(events.listening("other"))
        held = [stack.enter_context(events.listening("one")) for _ in range(MOST_STREAMS + 2)]
        assert [queue.qsize() for queue in held] == [1, 1] + [0] * MOST_STREAMS
        assert (held[0].get_nowait(), other.qsize()) == (None, 0)
        for number in range(MOST_LISTENING):
            stack.enter_context(events.listening(f"person-{number}"))
        assert all(queue.get_nowait() is None for queue in (other, *held[2:]))
    assert not events.heard


async def test_the_first_people_may_be_told_by_the_digests_that_keys_show_prints(tmp_path: Path) -> None:
    text = b"tacit-first"
    write_secret(tmp_path / "key", text)
    shown = public_part(tmp_path / "key")["sha256"]
    write_secret(
        tmp_path / "people.json",
        json.dumps({"people": [{"name": "a", "role": "administrator", "key_sha256": shown}]}).encode(),
    )
    ((_, key),) = first_people(tmp_path / "people.json", 0, SeededEntropy(1))
    assert key.digest == token_digest(text)


@pytest.mark.parametrize(
    "people", ['{"people": []}', '{"people": [{"name": "a", "role": "analyst", "key_sha256": "x"}]}', "[]", "{"]
)
async def test_a_file_of_first_people_without_an_administrator_is_refused_in_one_line(
    stage: Stage, people: str
) -> None:
    write_secret(stage.folder / "first.json", people.encode())
    config = stage.config(people=stage.folder / "first.json", state_dir=stage.folder / "fresh")
    app = create_app(config, ServiceEnv(stage.clock, stage.admin.deps.entropy, stage.network, background=False))
    assert app[ADMIN].collector is None
    with pytest.raises(UsageError, match=r"first\.json: (must be|names no administrator)"):
        await stage.inner.mount("http://127.0.0.1:8099", app)
