"""Approval by passkey: what is signed is what is approved, once, by whoever was invited to register it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from services.admin.people.passkeys import CHALLENGE_SECONDS
from tacit.codec import b64url, unb64url
from tests.http.admin_stage import SURVEY, Stage, key_of, serving
from tests.kit.authenticator import PRESENT, Authenticator

ORIGIN = "http://localhost:8090"
ADMINISTRATOR: dict[str, Any] = {"role": "administrator"}
REFUSED = (403, "problem:passkey")
NEEDED = (403, "problem:passkey-needed")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path, passkeys="required", public_url=ORIGIN) as running:
        yield running


class SignedInBrowser:
    """A browser of somebody who is signed in, with an authenticator."""

    def __init__(self, stage: Stage, headers: dict[str, str]) -> None:
        self.stage = stage
        self.signed_in: dict[str, Any] = {"role": None, "headers": headers}
        self.authenticator = Authenticator(ORIGIN)

    async def register(self, invitation: str, **changes: Any) -> tuple[int, str]:
        body = {"invitation": invitation}
        answer, found = await self.stage.call("POST", "/v1/passkeys/options", body, **self.signed_in)
        if answer.status != 200:
            return answer.status, found["type"].removeprefix("urn:tacit:")
        made = self.authenticator.make(found["options"]) | changes
        answer, told = await self.stage.call("POST", "/v1/passkeys", {**body, "credential": made}, **self.signed_in)
        return answer.status, str(told.get("type", "")).removeprefix("urn:tacit:")

    async def options(self, question: str, act: str = "approve") -> dict[str, Any]:
        path = f"/v1/questions/{question}/assertion"
        _, found = await self.stage.call("POST", path, {"act": act}, status=200, **self.signed_in)
        return dict(found["options"])

    async def act(self, question: str, shown: dict[str, Any] | None, act: str = "approve") -> tuple[int, str]:
        body = {} if shown is None else {"assertion": shown}
        answer, found = await self.stage.call("POST", f"/v1/questions/{question}/{act}", body, **self.signed_in)
        return answer.status, str(found.get("type", "")).removeprefix("urn:tacit:")

    async def approve(self, question: str) -> tuple[int, str]:
        return await self.act(question, self.authenticator.show(await self.options(question)))


async def seat(stage: Stage, role: str) -> SignedInBrowser:
    answer, document = await stage.call("POST", "/v1/session", {"key": key_of(role)}, role=None, status=201)
    cookie = answer.headers["set-cookie"].partition(";")[0]
    return SignedInBrowser(stage, {"Cookie": cookie, "X-CSRF-Token": document["csrf"]})


async def invited(stage: Stage, role: str) -> str:
    _, page = await stage.call("GET", "/v1/people", status=200, **ADMINISTRATOR)
    who = next(one["id"] for one in page["people"] if one["role"] == role)
    _, made = await stage.call("POST", f"/v1/people/{who}/invitation", {}, status=201, **ADMINISTRATOR)
    return str(made["invitation"])


async def approver(stage: Stage) -> SignedInBrowser:
    """An approver who is signed in and has a passkey."""
    found = await seat(stage, "approver")
    assert await found.register(await invited(stage, "approver")) == (201, "")
    return found


async def submitted(stage: Stage, **members: object) -> str:
    question = await stage.draft(**members)
    await stage.call("POST", f"/v1/questions/{question}/submit", status=200)
    return question


async def test_an_approval_needs_a_passkey_over_what_is_approved_and_leaves_its_name(stage: Stage) -> None:
    question = await submitted(stage)
    path = f"/v1/questions/{question}/approve"
    assert await stage.refused("POST", path, role="approver") == NEEDED  # a stolen key
    person = await approver(stage)
    assert await stage.refused("POST", path, {}, role="approver") == NEEDED
    assert await person.act(question, None) == NEEDED  # a stolen session
    options = await person.options(question)
    assert (options["userVerification"], options["rpId"]) == ("required", "localhost")
    shown = person.authenticator.show(options)
    assert await stage.refused("POST", path, {"assertion": shown}, role="approver") == NEEDED
    assert await person.act(question, shown) == (200, "")
    assert (await stage.shown(question))["state"] == "approved"
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **ADMINISTRATOR)
    acts = {(one["what"], one["outcome"]): one["detail"] for one in page["acts"]}
    assert acts["question.approve", "done"].endswith(f"passkey {b64url(person.authenticator.id[:6])}")
    assert ("question.approve", "passkey-needed") in acts
    assert acts["passkey.add", "done"]
    own, _ = (await stage.call("GET", "/v1/passkeys", status=200, **person.signed_in))[1]["passkeys"], None
    assert [one["counter"] for one in own] == [1]


async def test_an_answer_counts_once_for_one_text_one_state_one_act_and_one_person(stage: Stage) -> None:
    person = await approver(stage)
    first, second = await submitted(stage), await submitted(stage, name="second")
    shown = person.authenticator.show(await person.options(first))
    assert await person.act(second, shown) == REFUSED
    assert await person.act(first, shown) == (200, "")

    shown = person.authenticator.show(await person.options(second))
    _, found = await stage.call("GET", f"/v1/questions/{second}", status=200)
    tag = {"If-Match": f'"{found["revision"]}"'}
    await stage.call("PUT", f"/v1/questions/{second}", {**SURVEY, "name": "other"}, status=200, headers=tag)
    await stage.call("POST", f"/v1/questions/{second}/submit", status=200)
    assert await person.act(second, shown) == REFUSED  # another text than the one that was shown
    shown = person.authenticator.show(await person.options(second, "publish"))
    assert await person.act(second, shown) == REFUSED
    shown = person.authenticator.show(await person.options(second))
    await stage.clock.advance(CHALLENGE_SECONDS)
    assert await person.act(second, shown) == REFUSED
    old = person.authenticator.show(await person.options(second))
    await person.options(second)
    assert await person.act(second, old) == REFUSED  # only the newest is waited for
    assert await person.approve(second) == (200, "")
    third = await submitted(stage, name="third")
    shown = person.authenticator.show(await person.options(third))
    other = await seat(stage, "viewer")
    assert await other.act(third, shown) == (403, "problem:forbidden")


async def test_what_an_authenticator_may_not_say_does_not_count(stage: Stage) -> None:
    person = await approver(stage)
    question = await submitted(stage)
    honest = person.authenticator

    async def said(**changes: Any) -> tuple[int, str]:
        kept = {name: getattr(honest, name) for name in changes}
        for name, value in changes.items():
            setattr(honest, name, value)
        try:
            return await person.approve(question)
        finally:
            for name, value in kept.items():
                setattr(honest, name, value)

    assert await said(origin="http://localhost:9999") == REFUSED
    assert await said(origin="https://localhost.evil.example") == REFUSED
    assert await said(rp_id="evil.example") == REFUSED
    assert await said(flags=PRESENT) == REFUSED  # nobody gave a finger or a PIN
    assert await said(flags=0) == REFUSED
    assert await said(said={"crossOrigin": True}) == REFUSED
    assert await said(said={"type": "webauthn.create"}) == REFUSED
    assert await said(said={"challenge": b64url(bytes(32))}) == REFUSED
    assert await said(key=Authenticator(ORIGIN).key) == REFUSED
    assert await said(id=b"unknown") == REFUSED
    junks: list[dict[str, Any]] = [
        {}, {"id": 7}, {"id": "x", "rawId": "x", "type": "public-key", "response": {}}, {"response": []},
    ]  # fmt: skip
    for junk in junks:
        await person.options(question)
        assert await person.act(question, junk) == REFUSED
    shown = honest.show(await person.options(question))
    client = json.loads(unb64url(shown["response"]["clientDataJSON"]))
    shown["response"]["clientDataJSON"] = b64url(json.dumps(client | {"x": 1}).encode())
    assert await person.act(question, shown) == REFUSED
    assert (await stage.shown(question))["state"] == "submitted"
    assert await person.approve(question) == (200, "")
    honest.counter = 0  # as a copy that was made before would say
    assert await person.approve(await submitted(stage, name="next")) == (403, "problem:passkey-counter")


async def test_only_who_is_invited_registers_in_a_browser_and_a_passkey_can_be_taken(stage: Stage) -> None:
    text = await invited(stage, "approver")
    assert await stage.refused("POST", "/v1/passkeys/options", {"invitation": text}, role="approver") == NEEDED
    thief = await seat(stage, "approver")
    assert await thief.register("invite-guessed") == (403, "problem:invitation")
    viewer = await seat(stage, "viewer")
    assert await viewer.register(text) == (403, "problem:invitation")
    thief.authenticator.flags = PRESENT
    assert await thief.register(text) == REFUSED
    thief.authenticator.flags |= 4
    assert await thief.register(text, response={}) == REFUSED
    assert await thief.register(text) == (201, "")
    assert await thief.register(text) == (403, "problem:invitation")
    assert await thief.register(await invited(stage, "approver")) == REFUSED  # the same one again
    _, page = await stage.call("GET", "/v1/people", status=200, **ADMINISTRATOR)
    who = next(one["id"] for one in page["people"] if one["role"] == "approver")
    _, found = await stage.call("GET", f"/v1/people/{who}/passkeys", status=200, **ADMINISTRATOR)
    path = f"/v1/people/{who}/passkeys/{found['passkeys'][0]['id']}"
    assert await stage.refused("DELETE", path, role="approver") == (403, "problem:forbidden")
    question = await submitted(stage)
    shown = thief.authenticator.show(await thief.options(question))
    await stage.call("DELETE", path, status=204, **ADMINISTRATOR)
    assert await stage.refused("DELETE", path, **ADMINISTRATOR) == (404, "problem:not-found")
    assert await thief.act(question, shown) == REFUSED


async def test_where_passkeys_are_optional_those_who_have_one_need_it(stage: Stage) -> None:
    await stage.start(passkeys="optional", public_url=ORIGIN)
    first, second = await submitted(stage), await submitted(stage, name="second")
    await stage.call("POST", f"/v1/questions/{first}/approve", role="approver", status=200)
    person = await approver(stage)
    assert await stage.refused("POST", f"/v1/questions/{second}/approve", role="approver") == NEEDED
    assert await person.approve(second) == (200, "")
    await stage.start()
    assert await stage.refused("POST", "/v1/passkeys/options", {"invitation": "x"}, role="approver") == (
        404, "problem:not-found",
    )  # fmt: skip
    third = await submitted(stage, name="third")
    await stage.call("POST", f"/v1/questions/{third}/approve", role="approver", status=200)


async def test_publishing_needs_one_too_where_the_configuration_says_so(stage: Stage) -> None:
    await stage.start(passkeys="required", passkeys_publish=True, public_url=ORIGIN)
    person = await approver(stage)
    question = await submitted(stage)
    assert await person.approve(question) == (200, "")
    assert await stage.refused("POST", f"/v1/questions/{question}/publish") == NEEDED
    assert await person.act(question, person.authenticator.show(await person.options(question)), "publish") == REFUSED
    assert await stage.recipes() == []
    shown = person.authenticator.show(await person.options(question, "publish"))
    assert await person.act(question, shown, "publish") == (200, "")
    assert len(await stage.recipes()) == 1
    with pytest.raises(ValueError, match="passkeys need public_url"):
        await stage.start(passkeys="required")
