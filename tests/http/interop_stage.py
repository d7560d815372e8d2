"""The four servers of the test API on loopback, and what a test runner sends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from infra.tools.interop import collector
from infra.tools.interop.run import ROLES, make
from tacit import media_types
from tacit.adapters.network.http import HttpTransport
from tacit.codec import b64url
from tacit.ports import HttpResponse
from tacit.service.base.config import Listen
from tacit.service.run import started
from tacit.version import VERSIONS

COUNT = {"type": "Prio3Count"}
POLLS = 600
PAUSE = 0.1


@dataclass
class Bench:
    """The servers by role, and one task of theirs. ``members``: what all requests about the task have in common."""

    profile: str
    urls: dict[str, str]
    http: HttpTransport
    task_id: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    verify_key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    leader_token: str = "leader token, of the task"
    collector_token: str = "collector-token"
    members: dict[str, Any] = field(default_factory=dict)

    async def post(self, role: str, name: str, body: object, media_type: str = media_types.JSON) -> HttpResponse:
        """One command, as it is answered."""
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        url = f"{self.urls[role]}/internal/test/{name}"
        return await self.http.request("POST", url, headers={"Content-Type": media_type}, body=raw)

    async def told(self, role: str, name: str, body: object) -> dict[str, Any]:
        """The document of an answer with status 200."""
        answer = await self.post(role, name, body)
        assert answer.status == 200, answer.body
        found: dict[str, Any] = json.loads(answer.body)
        return found

    async def describe(self, vdaf: dict[str, Any], *, batch_mode: int = 1, batch: int = 3, precision: int = 60) -> None:
        """Ask for endpoints; from then on ``members`` are those of a task of ``vdaf``."""
        found = {}
        for role in ("leader", "helper"):
            asked = {"task_id": b64url(self.task_id), "role": role, "hostname": "127.0.0.1"}
            answer = await self.told(role, "endpoint_for_task", asked)
            assert answer["status"] == "success"
            found[role] = answer["endpoint"]
        self.members = {
            "task_id": b64url(self.task_id),
            **found,
            "vdaf": vdaf,
            "batch_mode": batch_mode,
            "min_batch_size": batch,
            "time_precision": precision,
        }

    def of_aggregator(self, role: str, collector_config: str) -> dict[str, Any]:
        """``add_task`` of an aggregator."""
        return {
            **self.members,
            "role": role,
            "vdaf_verify_key": b64url(self.verify_key),
            "leader_authentication_token": self.leader_token,
            **({"collector_authentication_token": self.collector_token} if role == "leader" else {}),
            "collector_hpke_config": collector_config,
        }

    async def add_task(self) -> None:
        """Tell collector, leader and helper of the task."""
        asked = {**self.members, "collector_authentication_token": self.collector_token}
        answer = await self.told("collector", "add_task", asked)
        assert answer["status"] == "success", answer
        for role in ("leader", "helper"):
            told = await self.told(role, "add_task", self.of_aggregator(role, answer["collector_hpke_config"]))
            assert told == {"status": "success"}

    async def upload(self, measurement: object, **more: object) -> dict[str, Any]:
        """Let the client upload one report."""
        return await self.told("client", "upload", {**self.members, "measurement": measurement, **more})

    def query(self, *, hours: int = 1) -> dict[str, Any]:
        """All whole hours around now, or the next leader-selected batch."""
        if self.members["batch_mode"] == 2:
            return {"type": 2}
        start = int(time.time()) // 3600 * 3600 - 3600
        return {"type": 1, "batch_interval_start": start, "batch_interval_duration": (hours + 2) * 3600}

    async def start(self, query: dict[str, Any] | None = None) -> dict[str, Any]:
        """Start a collection and return the answer with its handle."""
        asked = {"task_id": b64url(self.task_id), "agg_param": "", "query": query or self.query()}
        return await self.told("collector", "collection_start", asked)

    async def result(self, handle: str) -> dict[str, Any]:
        """Poll a collection until it ends, and return how it ended."""
        for _ in range(POLLS):
            found = await self.told("collector", "collection_poll", {"handle": handle})
            if found["status"] != "in progress":
                return found
            await asyncio.sleep(PAUSE)
        raise AssertionError("the collection did not end")


@contextlib.asynccontextmanager
async def bench(profile: str) -> AsyncIterator[Bench]:
    """All four servers, each with connections of its own; the collector looks after results more often than it is
    told to."""
    async with contextlib.AsyncExitStack() as stack:
        often = partial(collector._Pace, poll_seconds=PAUSE, max_poll_seconds=PAUSE)
        stack.enter_context(pytest.MonkeyPatch.context()).setattr(collector, "_Pace", often)
        urls = {}
        for role in ROLES:
            transport = await stack.enter_async_context(HttpTransport(repeat_posts=True))
            app = make(role, VERSIONS[profile], transport)
            urls[role] = (await stack.enter_async_context(started(app, Listen()))).url
        yield Bench(profile, urls, await stack.enter_async_context(HttpTransport()))
