"""A stage of an installation of two persons: the administrator and a second one."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tacit.codec import b64url
from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest
from tests.http.admin_stage import Stage, key_of

DELAY = 86400
FIRST: dict[str, Any] = {"role": "administrator"}
SECOND: dict[str, Any] = {"role": "second"}
WAITS, LATER = 202, (403, "problem:counts-later")


async def pair(folder: Path, **changes: Any) -> Stage:
    """Running; close its ``inner``. Keys of "second" and of "carol" are ``key_of`` these names."""
    stage = Stage(folder)
    await stage.prepare()
    listed = json.loads((folder / "people.json").read_text())["people"]
    second = {"name": "second", "role": "administrator", "key_sha256": b64url(token_digest(key_of("second")))}
    (folder / "people.json").unlink()
    write_secret(folder / "people.json", json.dumps({"people": [*listed, second]}).encode())
    await stage.start(persons=2, **changes)
    return stage


def sha256_of(name: str) -> str:
    """Of the key that ``name`` made."""
    return hashlib.sha256(key_of(name).encode()).hexdigest()


async def asked(stage: Stage, method: str, path: str, body: object, **who: Any) -> dict[str, Any]:
    """Ask for a change that then waits for consent, and return it."""
    return dict((await stage.call(method, path, body, status=WAITS, **(who or FIRST)))[1])


async def consent(stage: Stage, change: dict[str, Any], **who: Any) -> None:
    """The second administrator's, unless another one is named."""
    path = f"/v1/changes/{change['id']}/consent"
    await stage.call("POST", path, {"digest": change["digest"]}, status=200, **(who or SECOND))


async def no_consent(stage: Stage, change: dict[str, Any], digest: str = "", **who: Any) -> tuple[int, str]:
    """Try to consent to a change, and return why that is refused."""
    body = {"digest": digest or change["digest"]}
    return await stage.refused("POST", f"/v1/changes/{change['id']}/consent", body, **(who or SECOND))


async def add(stage: Stage, name: str = "carol", role: str = "approver") -> str:
    """The id of a person who was added with a key of their own and consent; they do not count yet."""
    change = await asked(stage, "POST", "/v1/people", {"name": name, "role": role, "key_sha256": sha256_of(name)})
    await consent(stage, change)
    return str(change["person"])


async def person_of(stage: Stage, name: str) -> str:
    """The id of the person with this name."""
    _, page = await stage.call("GET", "/v1/people", status=200, **FIRST)
    return str(next(one["id"] for one in page["people"] if one["name"] == name))


async def submitted(stage: Stage, **members: object) -> str:
    """A question that waits for approval."""
    question = await stage.draft(**members)
    await stage.call("POST", f"/v1/questions/{question}/submit", status=200)
    return question


async def waiting(stage: Stage, role: str = "viewer") -> list[dict[str, Any]]:
    """What ``role`` sees of changes."""
    return list((await stage.call("GET", "/v1/changes", role=role, status=200))[1]["changes"])
