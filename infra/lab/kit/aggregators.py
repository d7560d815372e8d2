"""A Leader and a Helper that serve one task in one process, without a log: for tests of the two together.

The applications are real and reach each other through ``InProcessTransport``. Nothing runs in the background; tests
call the drivers' ``step()``.
"""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import FaultyTransport, HalfSent, InProcessTransport
from infra.lab.kit.reports import TaskKit
from tacit import media_types
from tacit.aggregator.keys import (
    HpkeKey,
    PeerSecrets,
    write_hpke_key,
    write_peer_file,
)
from tacit.aggregator.log_follower import FOLLOWER
from tacit.aggregator.parties import PARTIES
from tacit.aggregator.records import TaskRow, TaskState
from tacit.messages import CollectionJobReq, CollectionJobResp, Report, Role, UploadErrors, UploadRequest
from tacit.ports import HttpResponse
from tacit.roles.aggregator import Party
from tacit.roles.collector import AggregateResult, collection_request, open_collection
from tacit.service.app import DRIVERS, SERVICE_ENV, ServiceEnv
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.signing import generate_signing_key
from tacit.tlog.checkpoint import NoteKey
from tacit.tokens.slots import TokenVerifier

PEER_TOKEN = "leader-at-helper"  # noqa: S105 - a test's credential
GATEWAY_TOKEN = "gateway-at-leader"  # noqa: S105
COLLECTOR_TOKEN = "collector-at-aggregators"  # noqa: S105
OPERATOR_TOKEN = "operator-at-aggregators"  # noqa: S105

RETENTION = 30 * 86400.0
"""Seconds after a task's end for which an aggregator keeps it, as configured by default."""

MakeApp = Callable[[Mapping[str, Any], ServiceEnv], web.Application]


def party_of(kit: TaskKit, role: Role) -> Party:
    task = kit.task
    verifier = TokenVerifier(task.token_key_spki, task.slot)
    closes = task.end_seconds + RETENTION
    return Party(task, role, kit.verify_key, kit.key_pairs[role], verifier, closes, kit.state_keys.get(role))


def settings_of(folder: Path, kit: TaskKit, role: Role, storage: str = "memory") -> dict[str, Any]:
    """Write the secret files of the aggregator ``role`` into ``folder``; returns its configuration."""
    entropy = SeededEntropy(b"settings %d" % role)
    write_hpke_key(folder / "hpke.json", HpkeKey(kit.task.hpke_config(role), kit.key_pairs[role]))
    write_peer_file(folder / "peer.json", PeerSecrets("seed-1", kit.verify_key_seed, PEER_TOKEN))
    write_signing_key(folder / "signing", generate_signing_key(entropy))
    write_secret(folder / "collector", COLLECTOR_TOKEN.encode())
    write_secret(folder / "operator", OPERATOR_TOKEN.encode())
    write_secret(folder / "gateway", GATEWAY_TOKEN.encode())
    return {
        **({"gateway_tokens": [str(folder / "gateway")]} if role is Role.LEADER else {}),
        "state_dir": str(folder),
        "storage": storage,
        "operator": f"{role.name.lower()}.example",
        "signing_key": str(folder / "signing"),
        "hpke_keys": [str(folder / "hpke.json")],
        "peer_file": str(folder / "peer.json"),
        "collector_token": str(folder / "collector"),
        "operator_token": str(folder / "operator"),
        "policy": {"aggregators": {}},
        "log": {
            "url": "http://127.0.0.1:8090",
            "key": NoteKey("log.example", generate_signing_key(entropy).public).encode(),
        },
    }


async def mount_serving(network: InProcessTransport, url: str, app: web.Application, party: Party) -> None:
    """Mount an aggregator that serves the task of ``party`` from the start, as if it had found it in a log."""
    app[SERVICE_ENV].vouched.alone()  # no log is there to ask for the time
    app[PARTIES].add(party)
    await network.mount(url, app)
    await serve(app, party)


async def serve(app: web.Application, party: Party) -> None:
    """Make a running aggregator serve the task of ``party``."""
    app[PARTIES].add(party)
    row = TaskRow(party.task.recipe_hash, TaskState.ACTIVE, b"", task_id=party.task.task_id)
    async with app[FOLLOWER].store.transaction() as tx:
        if await tx.task_state(row.recipe_hash) is None:
            await tx.put_task(row)


class AggregatorPair:
    """Leader and Helper of ``kit``'s task, with simulated time and a network that tests can break."""

    def __init__(
        self,
        kit: TaskKit,
        folder: Path,
        make_leader: MakeApp,
        make_helper: MakeApp,
        *,
        storage: str = "memory",
        limits: Mapping[str, Any] | None = None,
        databases: Mapping[Role, str] | None = None,
    ) -> None:
        self.kit = kit
        self.task = kit.task
        self.clock = SimClock(float(kit.task.start_seconds))
        self.inner = InProcessTransport()
        self.network = FaultyTransport(self.inner, clock=self.clock)
        self.observer: Any = None
        self._make = {Role.LEADER: make_leader, Role.HELPER: make_helper}
        self._url = {
            Role.LEADER: kit.task.configuration.leader_aggregator_endpoint,
            Role.HELPER: kit.task.configuration.helper_aggregator_endpoint,
        }
        self.settings = {role: settings_of(folder / role.name.lower(), kit, role, storage) for role in self._make}
        self.settings[Role.LEADER]["limits"] = {
            "group_delay": 0.0,
            "min_job_size": 1,
            **(limits or {}),
        }
        for role, url in (databases or {}).items():
            write_secret(folder / role.name.lower() / "database", url.encode())
            self.settings[role] |= {"storage": "file", "database_file": str(folder / role.name.lower() / "database")}
        self._starts = 0
        self.apps: dict[Role, web.Application] = {}

    async def __aenter__(self) -> AggregatorPair:
        for role in self._make:
            await self.start(role)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.inner.close()

    async def start(self, role: Role) -> web.Application:
        """Start an aggregator, or stop it and start it again with what it stored."""
        self._starts += 1
        entropy = SeededEntropy(b"start %d" % self._starts)
        deps = ServiceEnv(self.clock, entropy, self.network, self.observer, background=False)
        await self.inner.unmount(self._url[role])
        app = self._make[role](self.settings[role], deps)
        await mount_serving(self.inner, self._url[role], app, party_of(self.kit, role))
        self.apps[role] = app
        return app

    async def send(
        self,
        role: Role,
        method: str,
        path: str,
        *,
        token: str | None = None,
        message: str | None = None,
        body: bytes = b"",
    ) -> HttpResponse:
        """Send a request below the task's URL at ``role`` (``path`` begins with "/"), bypassing the broken network."""
        headers = {}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        if message is not None:
            headers["Content-Type"] = media_types.dap(message)
        url = f"{self._url[role]}/tasks/{self.task.task_id_text}{path}"
        return await self.inner.request(method, url, headers=headers, body=body)

    async def half_send(self, role: Role, path: str, *, token: str | None, message: str, body: bytes) -> HalfSent:
        """Begin a POST like ``send``, but hold the last byte back; the handler waits for it."""
        headers = {"Content-Type": media_types.dap(message)}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        url = f"{self._url[role]}/tasks/{self.task.task_id_text}{path}"
        begun = self.inner.half_sent("POST", url, headers=headers, body=body)
        for _ in range(20):
            await asyncio.sleep(0)
        return begun

    async def end_retention(self, *roles: Role) -> None:
        """Advance past the time for which the task is kept, and let the aggregators ``roles`` act on it."""
        await self.clock.advance(max(0.0, self.task.end_seconds + RETENTION - self.clock.now()) + 1)
        for role in roles:
            await self.apps[role][FOLLOWER].end_tasks()

    async def get(self, role: Role, path: str, token: str | None = None) -> HttpResponse:
        """GET ``path`` below the aggregator's URL, with ``token`` as a bearer token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return await self.inner.request("GET", self._url[role] + path, headers=headers)

    async def status(self, role: Role) -> dict[str, Any]:
        """Return the task's counts at ``role``, as its operator sees them."""
        answer = await self.get(role, f"/v1/tasks/{self.task.task_id_text}/status", OPERATOR_TOKEN)
        found: dict[str, Any] = json.loads(answer.body)
        return found

    async def upload(self, reports: Iterable[Report]) -> UploadErrors | None:
        """Upload reports in one request; returns what the Leader refuses, None if it takes all. Raises
        ``AssertionError`` for any status but 200."""
        body = UploadRequest(tuple(reports)).encode()
        answer = await self.post_reports(body)
        if answer.status != 200:
            raise AssertionError(f"upload failed with {answer.status}: {answer.body.decode()}")
        return UploadErrors.decode(answer.body) if answer.body else None

    async def post_reports(self, body: bytes, token: str | None = GATEWAY_TOKEN) -> HttpResponse:
        """Upload a request's bytes with the gateway's token, or with another ``token``."""
        return await self.send(Role.LEADER, "POST", "/reports", token=token, message="upload-req", body=body)

    async def work(self, steps: int = 50) -> int:
        """Run the Leader's aggregation and collection drivers until nothing moves. The follower is left alone:
        there is no log here."""
        total = 0
        for _ in range(steps):
            moved = sum([await driver.step() for driver in self.apps[Role.LEADER][DRIVERS][1:]])
            total += moved
            if not moved:
                break
        return total

    async def end_interval(self) -> None:
        """Advance past the end of the task's interval."""
        await self.clock.advance(max(0.0, self.task.end_seconds - self.clock.now()) + 1)

    @functools.cached_property
    def request(self) -> CollectionJobReq:
        """The Collector's request for the task's batch."""
        return collection_request(self.task)

    async def create_collection(self) -> HttpResponse:
        """POST the Collector's request."""
        return await self.send(
            Role.LEADER,
            "POST",
            "/collection_jobs",
            token=COLLECTOR_TOKEN,
            message="collection-job-req",
            body=self.request.encode(),
        )

    async def poll(self, created: HttpResponse) -> HttpResponse:
        """GET the collection job that the response ``created`` names."""
        path = created.headers["location"].partition(self.task.task_id_text)[2]
        return await self.send(Role.LEADER, "GET", path, token=COLLECTOR_TOKEN)

    async def collect(self) -> HttpResponse:
        """Create a collection job, let the Leader work, and poll for the result."""
        created = await self.create_collection()
        if created.status != 201:
            return created
        await self.work()
        return await self.poll(created)

    def opened(self, answer: HttpResponse) -> AggregateResult:
        """The result in ``answer``, opened as the Collector opens it. Raises what ``open_collection`` raises."""
        response = CollectionJobResp.decode(answer.body)
        return open_collection(self.task, self.kit.key_pairs[Role.COLLECTOR], self.request, response)
