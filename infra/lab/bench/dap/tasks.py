"""The DAP task of a measurement: read from a file, or entered at both aggregators by the interoperation test API."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from infra.tools.interop.client import hpke_config
from infra.tools.interop.documents import TaskMembers, read
from infra.tools.interop.tasks import AUTH_HEADER, bare_task
from tacit import media_types
from tacit.adapters.system import OsEntropy
from tacit.aggregator.keys import HpkeKey, generate_hpke_key, read_hpke_key
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.messages import TASK_ID_SIZE, BatchMode, Role
from tacit.ports import Transport
from tacit.roles.client import AGGREGATORS
from tacit.service.http.token_files import first_token
from tacit.task import Task
from tacit.version import DapVersion

VERIFY_KEY_SIZE = 32


@dataclass(frozen=True)
class Collecting:
    """What a collector needs: its HPKE key, and the token that the leader expects, as a bearer token or, of a task of
    the test API, in the header that its draft names."""

    key: HpkeKey
    token: str = field(repr=False)
    of_test_api: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """The header that shows the collector's token: that of the interoperation test API, or a bearer token."""
        return {AUTH_HEADER: self.token} if self.of_test_api else {"Authorization": f"Bearer {self.token}"}

    @classmethod
    def of_files(cls, key: Path | None, token: Path | None) -> Collecting | None:
        """Read both files (0600; the key in the form of a collector's), None without them. Raises ``UsageError``."""
        if (key is None) != (token is None):
            raise UsageError("--collector-key and --collector-token go together")
        return None if key is None or token is None else cls(read_hpke_key(key), first_token(token))


@dataclass(frozen=True)
class DapTask:
    """A task as its client knows it, and as its collector does where there is one."""

    task: Task
    collecting: Collecting | None

    @property
    def uploads(self) -> str:
        """The URL that takes reports."""
        return self.task.url(Role.LEADER, "reports")


async def known_task(
    transport: Transport, members: object, version: DapVersion, collecting: Collecting | None
) -> DapTask:
    """The task that ``members`` describe (a document of the test API); its aggregators' keys are fetched."""
    asked = read(TaskMembers, members)
    configuration = asked.configuration(version)
    configs = {role: await hpke_config(transport, configuration, role) for role in AGGREGATORS}
    if collecting is not None:
        configs[Role.COLLECTOR] = collecting.key.config
        if configuration.batch_mode is not BatchMode.TIME_INTERVAL:
            raise UsageError("a collection is only measured of a task whose batch mode is 1 (time interval)")
    return DapTask(bare_task(asked.id, configuration, version, configs), collecting)


async def fresh_task(
    transport: Transport, urls: Mapping[Role, str], shape: Mapping[str, Any], version: DapVersion
) -> DapTask:
    """Enter a new task at the test API's servers ``urls``; ``shape``: members that say what it counts. Raises
    ``UsageError`` with a server's own words."""
    task_id, collector = secrets.token_bytes(TASK_ID_SIZE), secrets.token_urlsafe(16)
    key = generate_hpke_key(secrets.randbelow(256), OsEntropy())
    members: dict[str, Any] = {"task_id": b64url(task_id), "batch_mode": 1, **shape}
    for role, url in urls.items():
        asked = {"task_id": b64url(task_id), "role": role.name.lower(), "hostname": "127.0.0.1"}
        members[role.name.lower()] = urljoin(url, (await _told(transport, url, "endpoint_for_task", asked))["endpoint"])
    shared = {
        **members,
        "vdaf_verify_key": b64url(secrets.token_bytes(VERIFY_KEY_SIZE)),
        "leader_authentication_token": secrets.token_urlsafe(16),
        "collector_hpke_config": b64url(key.config.encode()),
    }
    for role, url in urls.items():
        own = {"collector_authentication_token": collector} if role is Role.LEADER else {}
        await _told(transport, url, "add_task", {**shared, **own, "role": role.name.lower()})
    return await known_task(transport, members, version, Collecting(key, collector, of_test_api=True))


async def _told(transport: Transport, url: str, name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Send one command of the test API; returns its answer."""
    answer = await transport.request(
        "POST",
        urljoin(url, f"/internal/test/{name}"),
        headers={"Content-Type": media_types.JSON},
        body=json.dumps(body).encode(),
    )
    try:
        found: dict[str, Any] = json.loads(answer.body)
        if found["status"] == "success":
            return found
        reason = str(found.get("error", found["status"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        reason = f"status {answer.status}"
    raise UsageError(f"{name} at {url}: {reason}")
