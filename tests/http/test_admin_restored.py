"""An admin database from the past is noticed, and what an operator accepts of it opens nothing that was closed."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

from infra.lab.kit.network import Fault, FaultKind, matching
from services.admin.storage import audit
from services.admin.storage.store import AdminStore
from tacit.adapters.databases.recovery import Recovery
from tacit.errors import UsageError
from tacit.service.base.secret_files import write_secret
from tests.http.admin_stage import ADMIN_URL, ROLES, SURVEY, Stage, key_of, serving

ADMINISTRATOR: dict[str, Any] = {"role": "administrator"}
OLDER = r"admin\.mark: the database is older .* --accept-rollback"
PASSWORD = "correct horse battery staple"


@pytest.fixture
async def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
    monkeypatch.setattr("services.admin.people.passwords.HASHER", PasswordHasher(1, 8, 1))
    async with serving(tmp_path) as running:
        yield running


async def stop(stage: Stage) -> Path:
    """The database of the service, which has ended."""
    await stage.inner.unmount(ADMIN_URL)
    return stage.folder / "admin.sqlite3"


async def back_up(stage: Stage) -> Path:
    backup = stage.folder / "backup.sqlite3"
    shutil.copy(await stop(stage), backup)
    await stage.start()
    return backup


async def restore(stage: Stage, backup: Path) -> None:
    shutil.copy(backup, await stop(stage))


async def status_of(stage: Stage, key: str) -> int:
    bearer = {"Authorization": f"Bearer {key}"}
    return (await stage.call("GET", "/v1/session", role=None, headers=bearer))[0].status


async def given(stage: Stage, role: str = "approver", name: str = "another") -> tuple[str, str]:
    """A new person's id, and a key of theirs."""
    body = {"name": name, "role": role, "password": PASSWORD}
    _, person = await stage.call("POST", "/v1/people", body, status=201, **ADMINISTRATOR)
    _, key = await stage.call("POST", f"/v1/people/{person['id']}/keys", {}, status=201, **ADMINISTRATOR)
    return person["id"], key["key"]


async def test_a_taken_key_and_a_taken_approval_do_not_come_back_with_an_older_database(stage: Stage) -> None:
    person, key = await given(stage)
    _, draft, question = await stage.draft(name="one"), await stage.draft(name="two"), await stage.approved()
    answer, _ = await stage.call("POST", "/v1/session", {"key": key_of("analyst")}, role=None, status=201)
    session = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
    backup = await back_up(stage)
    await stage.call("PATCH", f"/v1/people/{person}", {"disabled": True}, status=200, **ADMINISTRATOR)
    await restore(stage, backup)
    for _ in range(2):
        with pytest.raises(UsageError, match=OLDER):
            await stage.start()
    with pytest.raises(UsageError, match="set `people` to a file"):
        await stage.start(recovery=Recovery.ACCEPT, people=None)
    with pytest.raises(UsageError, match="set `people` to a file"):
        await stage.start(people=None)
    admin = await stage.start()
    assert [await status_of(stage, one) for one in (key, *map(key_of, ROLES))] == [401, 200, 200, 200, 200]
    assert (await stage.call("GET", "/v1/session", role=None, headers=session))[0].status == 401
    signed_in = {"name": "another", "password": PASSWORD}
    assert (await stage.call("POST", "/v1/session", signed_in, role=None))[0].status == 401
    shown = await stage.shown(question)
    assert (shown["state"], shown["approver"], (await stage.shown(draft))["state"]) == ("submitted", None, "draft")
    _, page = await stage.call("GET", "/v1/people", **ADMINISTRATOR)
    assert {one["name"]: one["disabled"] for one in page["people"]} == {"another": True} | {
        f"{role}-1": False for role in ROLES
    }
    _, acts = await stage.call("GET", "/v1/audit")
    assert [one["source"] for one in acts["acts"] if one["what"] == "store.accept-rollback"] == ["operator"]
    assert (await audit.verify(admin.store)).broken is None


async def test_what_was_accepted_is_closed_once_and_a_second_backup_is_noticed_again(stage: Stage) -> None:
    backup = await back_up(stage)
    await stage.draft()
    await restore(stage, backup)
    await stage.start(recovery=Recovery.ACCEPT)
    _, key = await given(stage)
    question = await stage.approved()
    await stage.start()
    assert (await status_of(stage, key), (await stage.shown(question))["state"]) == (200, "approved")
    later = await back_up(stage)
    await stage.draft()
    await restore(stage, later)
    with pytest.raises(UsageError, match=OLDER):
        await stage.start()


async def test_a_person_gets_the_role_of_the_file_and_a_signed_recipe_is_not_sent_after_an_acceptance(
    stage: Stage,
) -> None:
    question = await stage.approved()
    stage.network.plan = matching("/v1/leaves", Fault(FaultKind.LOSE_REQUEST), times=1)
    assert await stage.refused("POST", f"/v1/questions/{question}/publish") == (503, "problem:peer-away")
    backup = await back_up(stage)
    await stage.draft()
    await restore(stage, backup)
    listed = json.loads((stage.folder / "people.json").read_text())["people"]
    kept = [{**one, "role": "administrator"} for one in listed if one["role"] == "approver"]
    (stage.folder / "people.json").unlink()
    write_secret(stage.folder / "people.json", json.dumps({"people": kept}).encode())
    admin = await stage.start(recovery=Recovery.ACCEPT)
    assert [await status_of(stage, key_of(role)) for role in ROLES] == [401, 401, 200, 401]
    _, me = await stage.call("GET", "/v1/session", role="approver", status=200)
    assert me["person"]["role"] == "administrator"
    assert await admin.publishing.step() == 0
    _, shown = await stage.call("GET", f"/v1/questions/{question}", role="approver")
    assert (shown["state"], shown["hash"], await stage.recipes()) == ("submitted", None, [])


async def test_a_running_service_whose_database_was_replaced_takes_nothing_more(stage: Stage) -> None:
    await stage.draft()
    store = stage.admin.store
    assert isinstance(store, AdminStore)
    assert store.durable is not None
    async with store.durable.transaction() as connection:
        await connection.exec_driver_sql("update tacit_marks set number = 0 where shard = 0")
    for _ in range(2):
        answer, _ = await stage.call("POST", "/v1/questions", SURVEY)
        assert answer.status == 503
    _, page = await stage.call("GET", "/v1/questions", status=200)
    assert len(page["questions"]) == 1


async def test_a_lost_mark_is_begun_anew_where_the_operator_says_that_the_database_is_complete(stage: Stage) -> None:
    question = await stage.approved()
    await stop(stage)
    (stage.folder / "admin.mark").unlink()
    with pytest.raises(UsageError, match="--new-mark"):
        await stage.start()
    await stage.start(recovery=Recovery.NEW_MARK)
    assert (await stage.shown(question))["state"] == "approved"


async def test_a_password_is_hashed_before_the_transaction_begins(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    passwords, seen = stage.admin.passwords, []
    inner = passwords.hashed

    async def hashed(password: str) -> str:
        async with stage.admin.store.transaction():
            seen.append(password)
        return await inner(password)

    monkeypatch.setattr(passwords, "hashed", hashed)
    person, _ = await given(stage)
    await stage.call("PATCH", f"/v1/people/{person}", {"password": "x" * 12}, status=200, **ADMINISTRATOR)
    assert seen == [PASSWORD, "x" * 12]
    assert await stage.refused(
        "POST", "/v1/people", {"name": "third", "role": "viewer", "password": "short"}, **ADMINISTRATOR
    ) == (422, "problem:field")
