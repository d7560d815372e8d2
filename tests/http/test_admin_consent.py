"""Consent in an installation: invitations, the operator's hand, pages, client and commands."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infra.backing.stopped_admin import let_in
from infra.cli import run
from infra.lab.kit.entropy import SeededEntropy
from services.admin.app import create_app
from tacit.adapters.databases.recovery import Recovery
from tacit.client import AsyncOperator, Change, ConflictError, ForbiddenError, Person
from tacit.errors import UsageError
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import write_secret
from tacit.service.run import started
from tests.http.admin_pair import (
    DELAY,
    FIRST,
    LATER,
    SECOND,
    asked,
    consent,
    no_consent,
    pair,
    person_of,
    sha256_of,
    submitted,
    waiting,
)
from tests.http.admin_stage import ADMIN_URL, Stage, key_of, serving
from tests.http.test_admin_pages import Browser, Html, signed_in
from tests.http.test_admin_passkeys import ORIGIN, seat


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    running = await pair(tmp_path)
    yield running
    await running.inner.close()


async def approval(stage: Stage) -> tuple[int, str]:
    """What becomes of the first approver's."""
    question = await submitted(stage)
    answer, problem = await stage.call("POST", f"/v1/questions/{question}/approve", role="approver")
    return answer.status, "" if answer.status == 200 else str(problem["type"]).removeprefix("urn:tacit:")


async def test_an_invitation_is_worth_nothing_before_consent_and_its_passkey_counts_later(tmp_path: Path) -> None:
    stage = await pair(tmp_path, passkeys="optional", public_url=ORIGIN)
    person = await seat(stage, "approver")
    approver = f"/v1/people/{await person_of(stage, 'approver-1')}"
    change = await asked(stage, "POST", f"{approver}/invitation", {})
    assert (await person.register(change["invitation"]))[0] == 403
    assert "invitation" not in (await waiting(stage))[0]
    await consent(stage, change)
    await stage.clock.advance(DELAY)
    assert await approval(stage) == (200, "")
    person = await seat(stage, "approver")
    assert await person.register(change["invitation"]) == (201, "")
    (noted,) = await waiting(stage)
    assert (noted["kind"], noted["asked_by_name"]) == ("passkey", "")
    question = await submitted(stage, name="second")
    assert await person.act(question, person.authenticator.show(await person.options(question))) == LATER
    await stage.clock.advance(DELAY)
    again = await seat(stage, "approver")
    again.authenticator = person.authenticator
    assert await again.act(question, again.authenticator.show(await again.options(question))) == (200, "")
    (own,) = (await stage.call("GET", f"{approver}/passkeys", status=200, **FIRST))[1]["passkeys"]
    await stage.call("DELETE", f"{approver}/passkeys/{own['id']}", status=204, **FIRST)
    assert await approval(stage) == LATER, "a key alone approves again, and all see it first"
    await stage.inner.close()


async def test_a_weaker_configuration_holds_once_the_delay_of_before_has_passed(stage: Stage) -> None:
    carol = {"name": "carol", "role": "approver"}
    for persons, delay in ((1, DELAY), (2, 0), (1, DELAY)):
        await stage.start(persons=persons, approver_delay_seconds=delay)
        _, shown = await stage.call("GET", "/v1/changes", role="viewer", status=200)
        assert shown["rule"]["persons"] == 2
        assert shown["rule"]["approver_delay_seconds"] == DELAY
        assert shown["rule"]["until"] == int(stage.clock.now()) + DELAY
        await stage.clock.advance(DELAY - 1)
        change = await asked(stage, "POST", "/v1/people", carol)
        await stage.call("POST", f"/v1/changes/{change['id']}/refuse", {}, status=204, **SECOND)
    await stage.clock.advance(1)
    assert (await stage.call("GET", "/v1/changes"))[1]["rule"]["until"] is None
    await stage.call("POST", "/v1/people", carol, status=201, **FIRST)
    await stage.start(persons=2)
    await asked(stage, "PATCH", f"/v1/people/{await person_of(stage, 'carol')}", {"role": "administrator"})
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **FIRST)
    rows = [(one["who"], one["source"], one["detail"]) for one in page["acts"] if one["what"] == "consent.rule"]
    assert [row[:2] for row in rows] == [("", "operator")] * 4
    assert rows[0][2].startswith("2 persons, 86400 s before, 1 person from ")


async def test_whoever_an_older_database_lets_in_counts_after_the_delay(stage: Stage) -> None:
    await stage.inner.unmount(ADMIN_URL)
    copy = (stage.folder / "admin.sqlite3").read_bytes()
    await stage.start(persons=2)
    await stage.approved()
    await stage.inner.unmount(ADMIN_URL)
    (stage.folder / "admin.sqlite3").write_bytes(copy)
    await stage.start(persons=2, recovery=Recovery.ACCEPT)
    assert {one["kind"] for one in await waiting(stage)} == {"operator"}
    assert await approval(stage) == LATER
    assert await stage.refused("POST", "/v1/people", {"name": "carol", "role": "approver"}, **FIRST) == LATER
    await stage.clock.advance(DELAY)
    assert await approval(stage) == (200, "")


async def test_the_operator_of_the_host_lets_another_administrator_in_for_all_to_see(stage: Stage) -> None:
    second = await person_of(stage, "second")
    await stage.call("PATCH", f"/v1/people/{second}", {"disabled": True}, status=200, **FIRST)
    change = await asked(stage, "POST", "/v1/people", {"name": "carol", "role": "approver"})
    assert (await stage.call("GET", "/v1/changes"))[1]["rule"]["administrators"] == 1
    await stage.inner.unmount(ADMIN_URL)
    own = {"persons": 2, "parties": "parties.json", "people": "people.json", "analyst_key": "analyst.key"}
    document = {**stage.config().model_dump(mode="json", exclude_none=True), **own, "state_dir": "."}
    file = stage.folder / "admin.json"
    file.write_text(json.dumps({name: document[name] for name in ("state_dir", "log", "policy", *own)}))
    with pytest.raises(UsageError, match="already in use"):
        await let_in(file, "dave", sha256_of("analyst"), stage.clock, SeededEntropy(8))
    for name in ("dave", "second"):
        await let_in(file, name, sha256_of(f"{name}-new"), stage.clock, SeededEntropy(9).child(name))
    await stage.start(persons=2)
    assert (await stage.call("GET", "/v1/session", role="second"))[0].status == 401, "its key of before opens no more"
    for name in ("dave", "second"):
        assert await no_consent(stage, change, role=f"{name}-new") == LATER
    shown = [one for one in await waiting(stage) if one["kind"] == "operator"]
    assert sorted(one["name"] for one in shown) == ["dave", "second"]
    _, page = await stage.call("GET", "/v1/audit?limit=200", status=200, **FIRST)
    assert [(one["who"], one["source"]) for one in page["acts"] if one["what"] == "person.recover"] == [
        ("", "operator")
    ] * 2
    await stage.clock.advance(DELAY)
    await consent(stage, change, role="dave-new")


async def test_the_overview_shows_a_change_to_all_and_asks_consent_of_the_second_alone(stage: Stage) -> None:
    first = await signed_in(stage, "administrator")
    await first.get("/people")
    answer = await first.post("/people", name="carol", role="approver", key_sha256=sha256_of("carol"))
    assert (answer.status, answer.headers["location"]) == (303, "/")
    await first.get("/")
    assert not Html(first.page).wrong
    assert "Before you consent" in first.page
    assert "Withdraw" in first.page
    assert "/consent" not in first.page
    for role in ("viewer", "analyst", "approver"):
        other = await signed_in(stage, role)
        await other.get("/")
        assert "carol" in other.page
        assert sha256_of("carol") in other.page
        assert "/consent" not in other.page
    second = Browser(stage)
    await second.get("/sign-in")
    await second.post("/sign-in", key=key_of("second"))
    await second.get("/")
    action = re.search(r'action="(/changes/[0-9a-f]+/consent)"', second.page)
    digest = re.search(r'name="digest" value="([^"]+)"', second.page)
    assert action is not None
    assert digest is not None
    assert (await second.post(action[1], digest="wrong")).status == 412
    await second.get("/")
    assert (await second.post(action[1], digest=digest[1])).status == 303
    await second.get("/")
    assert not Html(second.page).wrong
    assert "second consented; counts from" in second.page
    assert "Before you consent" not in second.page
    await first.get(f"/people/{await person_of(stage, 'carol')}")
    assert "Approvals and consents of carol count from" in first.page
    assert not Html(first.page).wrong


async def test_a_one_person_installation_says_that_it_is_one(tmp_path: Path) -> None:
    async with serving(tmp_path) as stage:
        viewer = await signed_in(stage, "viewer")
        await viewer.get("/")
        assert "This is a one-person installation." in viewer.page
        assert not Html(viewer.page).wrong
        _, made = await stage.call("POST", "/v1/people", {"name": "carol", "role": "approver"}, status=201, **FIRST)
        assert made["counts_from"] is None


def speaking(stage: Stage, name: str) -> AsyncOperator:
    return AsyncOperator(
        ADMIN_URL, key=key_of(name), transport=stage.inner, clock=stage.clock, entropy=SeededEntropy(3).child(name)
    )


async def test_the_client_asks_reads_consents_and_refuses(stage: Stage) -> None:
    first, second = speaking(stage, "administrator"), speaking(stage, "second")
    change = await first.people.add("carol", "approver", key_sha256=sha256_of("carol"))
    assert isinstance(change, Change)
    with pytest.raises(ForbiddenError, match="you asked for this change yourself"):
        await first.people.consent(change)
    with pytest.raises(ConflictError):
        await first.people.add("carol", "administrator")
    found = await second.people.changes()
    assert (found.rule.persons, found.rule.administrators) == (2, 2)
    done = await second.people.consent(found.changes[0])
    assert done.counts_from == int(stage.clock.now()) + DELAY
    key = await first.people.give_key(done.person, "laptop", sha256=sha256_of("laptop"))
    role = await second.people.change(await person_of(stage, "analyst-1"), role="approver")
    for one in (key, role):
        assert isinstance(one, Change)
        await second.people.refuse(one)
    viewer = await first.people.add("ann", "viewer")
    assert isinstance(viewer, Person)
    given = await first.people.give_key(viewer, sha256=sha256_of("ann"))
    assert not isinstance(given, Change)
    assert given.key is None


@pytest.mark.false_alarm(0, "the client draws names of requests and pauses; nothing depends on them", runs=3)
async def test_two_administrators_make_an_approver_on_the_command_line(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    deps = ServiceEnv(stage.clock, SeededEntropy(7), stage.network, background=False)
    await stage.inner.unmount(ADMIN_URL)
    lines: dict[str, list[str]] = {}
    async with started(create_app(stage.config(persons=2), deps), Listen(), grace_seconds=2) as listening:
        for name in ("administrator", "second"):
            write_secret(stage.folder / f"{name}.key", key_of(name).encode())
            lines[name] = ["--url", listening.url, "--key-file", str(stage.folder / f"{name}.key")]

        async def said(who: str, *words: str, code: int = 0) -> str:
            assert await asyncio.to_thread(run, ["admin", "people", *words, *lines[who]]) == code
            out = capsys.readouterr()
            return out.out + out.err

        key = sha256_of("carol")
        text = await said("administrator", "add", "carol", "--role", "approver", "--key-sha256", key)
        (change,) = re.findall(r"tacit admin people consent ([0-9a-f]+)", text)
        assert "You asked for this change yourself" in await said("administrator", "consent", change, code=1)
        listed: Any = json.loads(await said("second", "changes", "--json"))
        assert [one["id"] for one in listed["changes"]] == [change]
        assert "need two administrators; they count 86400 s after" in await said("second", "changes")
        assert "counts from" in await said("second", "consent", change)
        assert "no change" in await said("second", "refuse", change, code=1)
        text = await said("administrator", "add", "dave", "--role", "approver")
        (change,) = re.findall(r"tacit admin people consent ([0-9a-f]+)", text)
        assert "refused" in await said("second", "refuse", change)
        assert "need two administrators" in await said("administrator", "list")
