"""An admin service beside a real recipe server, with three people, reached without sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import FaultyTransport, InProcessTransport
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS, NOW, RecipeKit
from recipe_server.app import create_app as create_recipe_server
from recipe_server.config import RecipeServerConfig
from services.admin.api.calls import ADMIN, Admin
from services.admin.app import create_app
from services.admin.base.config import AdminConfig
from tacit import media_types
from tacit.adapters.databases.recovery import Recovery
from tacit.codec import b64url
from tacit.ports import HttpResponse
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.driver import Driver
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest
from tacit.tlog.leaves import SignedLeaf

ADMIN_URL = "http://127.0.0.1:8090"
LOG_URL = "http://127.0.0.1:8084"
KIT = RecipeKit()
ROLES = ("administrator", "analyst", "approver", "viewer")
SURVEY: dict[str, Any] = {
    "name": "visits",
    "text": "How many doctor visits?",
    "metric": "mdvis",
    "encoder": {"kind": "boolean"},
    "population": 1000,
}


class Stage:
    """``call`` speaks for a person; ``network`` is what the service itself reaches others by."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = SimClock(float(NOW))
        self.inner = InProcessTransport()
        self.network = FaultyTransport(self.inner, clock=self.clock)
        self.app: web.Application | None = None
        self.starts = 0

    def config(self, **changes: object) -> AdminConfig:
        values: dict[str, object] = {
            "state_dir": self.folder,
            "log": {"url": LOG_URL, "key": KIT.log_policy.log_key.encode()},
            "policy": KIT.policy,
            "parties": self.folder / "parties.json",
            "epoch_seconds": EPOCH_SECONDS,
            "analyst_key": self.folder / "analyst.key",
            "people": self.folder / "people.json",
            "persons": 1,
        }
        return AdminConfig.model_validate(values | changes)

    async def prepare(self) -> None:
        """A recipe server whose log has the token keys of the next two epochs; and the admin service's files."""
        write_signing_key(self.folder / "log.key", KIT.keys["log"])
        write_signing_key(self.folder / "analyst.key", KIT.keys["analyst"])
        write_secret(self.folder / "collector.token", b"results-secret\n")
        parties = {"secure-aggregation": KIT.parties().model_dump(mode="json")}
        (self.folder / "parties.json").write_text(json.dumps(parties))
        people = [
            {"name": f"{role}-1", "role": role, "key_sha256": b64url(token_digest(key_of(role)))} for role in ROLES
        ]
        write_secret(self.folder / "people.json", json.dumps({"people": people}).encode())
        config = RecipeServerConfig.model_validate(
            {
                "state_dir": self.folder,
                "log_name": KIT.log_policy.origin,
                "log_key": self.folder / "log.key",
                "policy": KIT.policy,
                "collector_token": self.folder / "collector.token",
                "accept_late_directories": True,
            }
        )
        deps = ServiceEnv(self.clock, SeededEntropy(1), self.inner, background=False)
        await self.inner.mount(LOG_URL, create_recipe_server(config, deps))
        for epoch in (EPOCH, EPOCH + 1):
            assert (await self.post_leaf(KIT.directory_leaf(epoch, 8))).status == 201

    @property
    def admin(self) -> Admin:
        """The admin service that runs on this stage."""
        assert self.app is not None
        return self.app[ADMIN]

    def drivers(self) -> list[Driver]:
        """What runs beside requests."""
        assert self.app is not None
        return self.app[DRIVERS]

    async def post_leaf(self, leaf: SignedLeaf) -> HttpResponse:
        headers = {"Content-Type": media_types.JSON}
        return await self.inner.request("POST", f"{LOG_URL}/v1/leaves", headers=headers, body=leaf.encode())

    async def start(self, *, recovery: Recovery = Recovery.REFUSE, **changes: object) -> Admin:
        """Start the service, or end it and start it again on what it stored."""
        self.starts += 1
        entropy = SeededEntropy(self.starts).child("admin")
        deps = ServiceEnv(self.clock, entropy, self.network, background=False, recovery=recovery)
        self.app = create_app(self.config(**changes), deps)
        await self.inner.mount(ADMIN_URL, self.app)
        return self.admin

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        role: str | None = "analyst",
        status: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[HttpResponse, Any]:
        """One exchange; ``status``: what must come of it."""
        sent = {} if role is None else {"Authorization": f"Bearer {key_of(role)}"}
        raw = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            sent["Content-Type"] = media_types.JSON
        answer = await self.inner.request(method, ADMIN_URL + path, headers=sent | (headers or {}), body=raw)
        assert status in {None, answer.status}, (answer.status, answer.body)
        kind = answer.headers.get("content-type", "")
        return answer, json.loads(answer.body) if "json" in kind else answer.body

    async def refused(self, method: str, path: str, body: object = None, **options: Any) -> tuple[int, str]:
        """The status and the type of a problem document."""
        answer, problem = await self.call(method, path, body, **options)
        assert answer.status >= 400, answer.body
        assert answer.headers["content-type"] == media_types.PROBLEM_JSON
        return answer.status, str(problem["type"]).removeprefix("urn:tacit:")

    async def draft(self, **members: object) -> str:
        """Create a draft and return its id."""
        _, document = await self.call("POST", "/v1/questions", {**SURVEY, **members}, status=201)
        return str(document["id"])

    async def approved(self, **members: object) -> str:
        """The id of an approved question."""
        question = await self.draft(**members)
        await self.call("POST", f"/v1/questions/{question}/submit", status=200)
        await self.call("POST", f"/v1/questions/{question}/approve", role="approver", status=200)
        return question

    async def shown(self, question: str) -> dict[str, Any]:
        """The question as it is now."""
        _, document = await self.call("GET", f"/v1/questions/{question}", status=200)
        return dict(document)

    async def recipes(self) -> list[str]:
        """Hashes of the recipes in the log."""
        answer = await self.inner.request("GET", f"{LOG_URL}/v1/recipes")
        return [one["hash"] for one in json.loads(answer.body)["recipes"]]


@asynccontextmanager
async def prepared(folder: Path) -> AsyncIterator[Stage]:
    """A stage whose admin service is still to be started."""
    stage = Stage(folder)
    await stage.prepare()
    yield stage
    await stage.inner.close()


@asynccontextmanager
async def serving(folder: Path, **changes: Any) -> AsyncIterator[Stage]:
    """A stage whose admin service runs."""
    async with prepared(folder) as stage:
        await stage.start(**changes)
        yield stage


def key_of(role: str) -> str:
    """A key of the person with this role."""
    return f"tacit-key-of-{role}"
