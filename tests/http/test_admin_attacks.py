"""What people with a key, or with none, try against the admin service, and what they get."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import pytest
from aiohttp import web
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import Fault, FaultKind, matching
from services.admin.api import routing
from services.admin.app import COMPUTED_OF_ONE
from services.admin.people.lockout import PLACES
from services.admin.people.passwords import Passwords, hash_of_nobody
from services.admin.people.sign_in import BY_ITSELF
from services.admin.questions import publishing
from services.admin.questions.planning import Planner
from tacit.recipe.writing.survey import Survey
from tacit.service.app import read_body
from tests.http.admin_stage import LOG_URL, SURVEY, Stage, key_of, serving

PASSWORD = "correct horse battery staple"
ADMINISTRATOR: dict[str, Any] = {"role": "administrator"}


class Counting(PasswordHasher):
    """argon2id with as little work as it takes, counted."""

    def __init__(self) -> None:
        super().__init__(1, 8, 1)
        self.done: list[str] = []

    def hash(self, password: str | bytes, *, salt: bytes | None = None) -> str:
        self.done.append("hash")
        return super().hash(password, salt=salt)

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 - as its parent calls it
        self.done.append("verify")
        return super().verify(hash, password)


@pytest.fixture(autouse=True)
def hasher(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    monkeypatch.setattr("services.admin.people.passwords.HASHER", counting)
    return counting


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path) as running:
        yield running


async def person(stage: Stage, name: str = "another", **members: object) -> str:
    body = {"name": name, "role": "analyst", "password": PASSWORD, **members}
    return str((await stage.call("POST", "/v1/people", body, status=201, **ADMINISTRATOR))[1]["id"])


async def signed_in(stage: Stage, body: dict[str, str], status: int = 201) -> dict[str, str]:
    answer, document = await stage.call("POST", "/v1/session", body, role=None, status=status)
    if status != 201:
        return {}
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0], "X-CSRF-Token": document["csrf"]}


async def test_who_asks_for_many_comparisons_holds_up_themselves_and_nobody_else(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await person(stage)
    held, computed = threading.Event(), []

    def compare(_self: Planner, survey: Survey) -> dict[str, Any]:
        computed.append(survey.population)
        assert held.wait(60)
        return {"proposal": None, "refusals": [], "alternatives": []}

    monkeypatch.setattr(Planner, "_compare", compare)

    def ask(role: str, population: int) -> asyncio.Task[Any]:
        body = {**SURVEY, "population": population}
        return asyncio.ensure_future(stage.call("POST", "/v1/design", body, role=role))

    flood = [ask("analyst", number) for number in range(1000, 1000 + COMPUTED_OF_ONE + 3)]
    async with asyncio.timeout(30):
        while sum(one.done() for one in flood) < 3 or not computed:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0.01)
    refused = [one.result()[0] for one in flood if one.done()]
    assert [(answer.status, "retry-after" in answer.headers) for answer in refused] == [(503, True)] * 3
    waiting = [one for one in flood if not one.done()]
    other = ask("approver", 5000)
    check = asyncio.ensure_future(stage.call("POST", "/v1/check", SURVEY, role="viewer"))
    await signed_in(stage, {"name": "another", "password": PASSWORD})  # has threads of its own
    assert len(computed) == 1
    held.set()
    assert {(await one)[0].status for one in (*waiting, other, check)} == {200}
    assert computed[2] == 5000, "the second who came is served after one more of the first"
    assert (await ask("analyst", 7000))[0].status == 200


async def test_pauses_outlive_a_restart_and_tell_no_name(stage: Stage) -> None:
    await person(stage)

    async def attempt(name: str) -> int:
        body = {"name": name, "password": "a wrong password"}
        return (await stage.call("POST", "/v1/session", body, role=None))[0].status

    names = ("another", "nobody", "analyst-1")
    for name in names:
        assert [await attempt(name) for _ in range(6)] == [401] * 5 + [429]
    await stage.start()
    assert [await attempt(name) for name in names] == [429] * 3
    await stage.clock.advance(2)
    assert [await attempt(name) for name in names] == [401] * 3


async def test_a_name_that_somebody_has_shares_its_place_as_one_that_nobody_has(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever fills all places locks both kinds, so that none stands out."""
    await person(stage)
    assert PLACES > 10_000
    monkeypatch.setattr("services.admin.people.lockout.PLACES", 1)
    for _ in range(5):
        await signed_in(stage, {"name": "nobody", "password": "x"}, 401)
    for name in ("another", "nobody", "third"):
        await signed_in(stage, {"name": name, "password": PASSWORD}, 429)


def test_a_comparison_with_the_hash_of_nobody_is_a_whole_one_and_fits_no_password() -> None:
    hasher = PasswordHasher(1, 8, 1)
    for seed in range(20):  # some hashes have characters that only one of two base64 alphabets has
        hashed = hash_of_nobody(SeededEntropy(seed))
        assert not hasher.check_needs_rehash(hashed)
        with pytest.raises(VerifyMismatchError):
            hasher.verify(hashed, PASSWORD)


async def test_sign_in_does_the_same_work_for_every_name_from_the_first_on(stage: Stage, hasher: Counting) -> None:
    await person(stage, "disabled")
    gone = await person(stage, "gone")
    await stage.call("PATCH", f"/v1/people/{gone}", {"disabled": True}, status=200, **ADMINISTRATOR)
    await stage.start()
    for name in ("nobody", "another", "gone", "analyst-1", "a\0b"):
        hasher.done.clear()
        await signed_in(stage, {"name": name, "password": "a wrong password"}, 401)
        assert hasher.done == ["verify"]


async def test_a_browser_that_is_left_open_is_idle_all_the_same(stage: Stage) -> None:
    session = await signed_in(stage, {"key": key_of("viewer")})
    listening = asyncio.ensure_future(stage.inner.request("GET", "http://127.0.0.1:8090/v1/events", headers=session))
    async with asyncio.timeout(30):
        while not stage.admin.events.heard:  # noqa: ASYNC110 - nothing tells
            await asyncio.sleep(0)
    for _ in range(11):
        await stage.clock.advance(300)
        by_itself = {**session, BY_ITSELF: "1"}
        await stage.call("GET", "/", role=None, headers=by_itself, status=200)
        await stage.draft()  # of which the stream tells, and looks whether its listener may still hear
    await stage.clock.advance(300)
    await stage.draft()
    answer = await asyncio.wait_for(listening, 60)
    assert answer.body.count(b"event: question") >= 11
    assert (await stage.call("GET", "/", role=None, headers=by_itself))[0].status == 303
    assert (await stage.call("GET", "/v1/session", role=None, headers=session))[0].status == 401
    again = await signed_in(stage, {"key": key_of("viewer")})
    for _ in range(5):
        await stage.clock.advance(3000)
        await stage.call("GET", "/v1/session", role=None, headers=again, status=200)


async def test_cookies_are_bound_to_https_and_to_this_host_where_a_proxy_ends_tls(stage: Stage) -> None:
    for url, secure in (("https://admin.example.org", True), ("http://127.0.0.1:8090", False), (None, False)):
        await stage.start(public_url=url)
        answer, _ = await stage.call("POST", "/v1/session", {"key": key_of("viewer")}, role=None, status=201)
        parts = [part.strip() for part in answer.headers["set-cookie"].split(";")]
        assert ("Secure" in parts, parts[0].startswith("__Host-tacit_session=")) == (secure, secure)
        assert {"Path=/", "HttpOnly", "SameSite=Strict"} <= set(parts)
        assert not any(part.startswith("Domain") for part in parts)
        form, _ = await stage.call("GET", "/sign-in", role=None, status=200)
        assert ("Secure" in form.headers["set-cookie"]) is secure
        _, document = await stage.call("GET", "/openapi.json", role=None)
        assert document["components"]["securitySchemes"]["session"]["name"] == parts[0].partition("=")[0]
        session = {"Cookie": parts[0]}
        await stage.call("GET", "/v1/session", role=None, headers=session, status=200)
        planted = {"Cookie": parts[0].removeprefix("__Host-")}  # as a page of a sibling host, or of http, could set it
        found, _ = await stage.call("GET", "/v1/session", role=None, headers=planted)
        assert found.status == (401 if secure else 200)


@pytest.mark.parametrize("url", ["ftp://x", "https://x/path", "x", "https://a b", "https://x/\nSet-Cookie: a"])
def test_a_public_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="must be the http"):
        Stage(tmp_path).config(public_url=url)


async def test_a_request_under_a_known_key_with_another_entity_tag_is_another_request(stage: Stage) -> None:
    question = await stage.draft()
    path = f"/v1/questions/{question}/submit"
    first = {"Idempotency-Key": "k", "If-Match": '"1"'}
    done, _ = await stage.call("POST", path, {}, headers=first, status=200)
    again, _ = await stage.call("POST", path, {}, headers=first, status=200)
    assert (again.body, again.headers["idempotency-replayed"]) == (done.body, "true")
    other = {"Idempotency-Key": "k", "If-Match": '"9"'}
    assert await stage.refused("POST", path, {}, headers=other) == (422, "problem:idempotency-key")


@pytest.mark.parametrize("by", ["key", "session", "role"])
@pytest.mark.parametrize(("method", "path"), [("POST", "/v1/questions"), ("POST", "/v1/check")])
async def test_what_was_taken_while_a_body_was_on_its_way_opens_nothing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, method: str, path: str, by: str
) -> None:
    who = await person(stage)
    _, key = await stage.call("POST", f"/v1/people/{who}/keys", {}, status=201, **ADMINISTRATOR)
    headers = {"Authorization": f"Bearer {key['key']}"}
    if by == "session":
        headers = await signed_in(stage, {"name": "another", "password": PASSWORD})

    async def slowly(request: web.Request, limit: int) -> bytes:
        monkeypatch.setattr(routing, "read_body", read_body)
        if by == "key":
            await stage.call("DELETE", f"/v1/people/{who}/keys/{key['id']}", status=204, **ADMINISTRATOR)
        else:
            change = {"disabled": True} if by == "session" or path == "/v1/check" else {"role": "viewer"}
            await stage.call("PATCH", f"/v1/people/{who}", change, status=200, **ADMINISTRATOR)
        return await read_body(request, limit)

    monkeypatch.setattr(routing, "read_body", slowly)
    answer, _ = await stage.call(method, path, SURVEY, role=None, headers=headers)
    assert answer.status == (403 if by == "role" and path == "/v1/questions" else 401)
    _, page = await stage.call("GET", "/v1/questions", status=200)
    assert page["questions"] == []


@pytest.mark.parametrize("change", [{"password": "another long password"}, {"disabled": True}])
async def test_a_password_that_was_changed_while_it_was_looked_at_begins_no_session(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    who = await person(stage)
    inner = Passwords.fits

    async def slowly(self: Passwords, source: str, password: str, kept: str) -> bool:
        found = await inner(self, source, password, kept)
        await stage.call("PATCH", f"/v1/people/{who}", change, status=200, **ADMINISTRATOR)
        return found

    monkeypatch.setattr(Passwords, "fits", slowly)
    body = {"name": "another", "password": PASSWORD}
    await stage.call("POST", "/v1/session", body, role=None, status=401)


async def test_a_publish_that_is_still_under_way_is_not_called_missed(stage: Stage) -> None:
    """Its bytes come to the log after it was asked whether it has them."""
    question = await stage.approved()
    path = f"/v1/questions/{question}/publish"
    stage.network.plan = matching("/v1/leaves", Fault(FaultKind.LOSE_REQUEST), times=1)
    assert await stage.refused("POST", path) == (503, "problem:peer-away")
    waiting = await stage.shown(question)
    async with stage.admin.store.read() as tx:
        kept = await tx.question(question)
    assert kept is not None
    await stage.clock.advance(waiting["recipe"]["interval"]["start"] - stage.clock.now())
    assert await stage.refused("POST", path) == (503, "problem:peer-away")
    headers = {"Content-Type": "application/json"}
    late = await stage.inner.request("POST", f"{LOG_URL}/v1/leaves", headers=headers, body=kept.leaf)
    assert late.status == 201
    await stage.clock.advance(publishing.LANDING_SECONDS)
    _, done = await stage.call("POST", path, status=200)
    assert (done["state"], await stage.recipes()) == ("published", [waiting["hash"]])
