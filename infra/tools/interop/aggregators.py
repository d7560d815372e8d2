"""Leader and Helper of the test API: the services' own applications, with tasks from ``add_task``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from aiohttp import web

from infra.tools.interop.api import MOST_TASKS, command, ready
from infra.tools.interop.documents import AggregatorTask, Endpoint, task_id_of
from infra.tools.interop.tasks import GRACE_SECONDS, BareParty, Credentials, TaskCallers, bare_task, usable
from services.helper import app as helper
from services.helper.store import HelperStore
from services.leader import app as leader
from services.leader.config import LeaderLimits
from services.leader.senders import Senders
from services.leader.store import LeaderStore
from tacit.aggregator.keys import HpkeKey, generate_hpke_key
from tacit.aggregator.parties import PARTIES
from tacit.aggregator.records import TaskRow, TaskState
from tacit.aggregator.store import CommonTx, SqlStore
from tacit.codec import unb64url
from tacit.errors import DecodeError, UsageError
from tacit.messages import HpkeConfig, Role
from tacit.multibuffer.crypto import BatchCrypto
from tacit.multibuffer.library import kernels
from tacit.roles.aggregator import Party
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.service.app import ServiceEnv
from tacit.service.http.live_tokens import NO_TOKEN
from tacit.service.http.source_budget import SourceBudget
from tacit.version import DapVersion


@dataclass(frozen=True)
class Storage:
    """Where an aggregator of the test API keeps reports, and how it opens shares. With a database of PostgreSQL it
    groups uploads and forms jobs as the service does, for measurements under load."""

    url: str = "sqlite+aiosqlite:///:memory:"
    batch_crypto: bool = False

    @property
    def limits(self) -> LeaderLimits:
        """The Leader's limits: a tester waits for each answer, a load does not."""
        return LIMITS if self.url == IN_MEMORY.url else LeaderLimits()

    @property
    def crypto(self) -> JobCrypto:
        """What opens the shares of a job. Raises ``UsageError`` without the kernels that were asked for."""
        if not self.batch_crypto:
            return OPENSSL
        if kernels() is None:
            raise UsageError("--batch-crypto: the multi-buffer kernels do not run here")
        return BatchCrypto(batch_hpke=True)


IN_MEMORY = Storage()
UPLOAD_BYTES_PER_MINUTE = 1 << 30
LIMITS = LeaderLimits(min_job_size=1, max_job_delay=0.2, group_delay=0.0, idle_seconds=0.1, retry_delay=0.5)
"""A tester waits for each answer, so uploads do not wait for others to share a transaction."""
DRAFT_PORT = 8080
"""The port that a test runner assumes."""


def make_leader(
    deps: ServiceEnv, version: DapVersion, credentials: Credentials, storage: Storage = IN_MEMORY
) -> web.Application:
    """A Leader whose tasks come from ``add_task``."""
    key = generate_hpke_key(deps.entropy(1)[0], deps.entropy)
    callers = TaskCallers("leader", credentials)
    parts = leader.Parts(
        name="interop-leader",
        store=LeaderStore(storage.url),
        callers=callers,
        hpke_keys=(key,),
        helper_token=NO_TOKEN,
        senders=Senders(callers, (), SourceBudget(UPLOAD_BYTES_PER_MINUTE, deps.clock, deps.entropy)),
        works=True,
        limits=storage.limits,
        crypto=storage.crypto,
        version=version,
    )
    deps.vouched.alone()
    app = leader.assemble(parts, deps, lambda _app: None)
    app.router.add_routes(Provisioning(app, parts.store, Role.LEADER, key, version, credentials).routes())
    return app


def make_helper(
    deps: ServiceEnv, version: DapVersion, credentials: Credentials, storage: Storage = IN_MEMORY
) -> web.Application:
    """A Helper whose tasks come from ``add_task``."""
    key = generate_hpke_key(deps.entropy(1)[0], deps.entropy)
    parts = helper.Parts(
        name="interop-helper",
        store=HelperStore(storage.url),
        callers=TaskCallers("helper", credentials),
        hpke_keys=(key,),
        crypto=storage.crypto,
        version=version,
    )
    deps.vouched.alone()
    app = helper.assemble(parts, deps, lambda _app: None)
    app.router.add_routes(Provisioning(app, parts.store, Role.HELPER, key, version, credentials).routes())
    return app


class Provisioning:
    """The commands of the test API that add tasks to one aggregator while it runs."""

    def __init__(
        self,
        app: web.Application,
        store: SqlStore[Any],
        role: Role,
        key: HpkeKey,
        version: DapVersion,
        credentials: Credentials,
    ) -> None:
        self._parties = app[PARTIES]
        self._store = store
        self._role = role
        self._key = key
        self._version = version
        self._credentials = credentials

    def routes(self) -> list[web.RouteDef]:
        """The routes of every command of the test API."""
        return [
            ready(),
            command("endpoint_for_task", Endpoint, self.endpoint),
            command("add_task", AggregatorTask, self.add_task),
        ]

    async def endpoint(self, request: web.Request, asked: Endpoint) -> dict[str, Any]:
        """Where the task's resources are: below the root. On a port other than the one that a test runner expects, as a
        full URL."""
        self._require_role(asked.role)
        task_id_of(asked.task_id)
        name = None if request.transport is None else request.transport.get_extra_info("sockname")
        port = name[1] if isinstance(name, tuple) else DRAFT_PORT
        return {"endpoint": "/" if port == DRAFT_PORT else f"http://{asked.hostname}:{port}/"}

    async def add_task(self, _request: web.Request, asked: AggregatorTask) -> dict[str, Any]:
        """Serve a task from now on. Raises the errors that ``api.command`` turns into answers."""
        self._require_role(asked.role)
        party = self._party(asked)
        if self._role is Role.LEADER:
            if asked.collector_authentication_token is None:
                raise UsageError("collector_authentication_token is missing")
            callers = {"collector": asked.collector_authentication_token}
        else:
            callers = {"leader": asked.leader_authentication_token}
        if self._parties.find(party.task.task_id) is not None:
            raise UsageError("task_id: a task with this id was added before")
        if len(self._parties.active()) >= MOST_TASKS:
            raise UsageError(f"this process has its {MOST_TASKS} tasks; start another")
        self._parties.add(party)
        self._credentials.add(
            party.task, callers, asked.leader_authentication_token if self._role is Role.LEADER else ""
        )
        await self._keep(party)
        return {}

    async def _keep(self, party: Party) -> None:
        tx: CommonTx
        async with self._store.transaction() as tx:
            await tx.put_task(TaskRow(party.task.recipe_hash, TaskState.ACTIVE, b"", task_id=party.task.task_id))

    def _party(self, asked: AggregatorTask) -> Party:
        verify_key = unb64url(asked.vdaf_verify_key, what="vdaf_verify_key")
        collector = _config(asked.collector_hpke_config)
        configs = {self._role: self._key.config, Role.COLLECTOR: collector}
        task = bare_task(asked.id, asked.configuration(self._version), self._version, configs)
        if len(verify_key) != task.vdaf.VERIFY_KEY_SIZE:
            raise UsageError(f"vdaf_verify_key must have {task.vdaf.VERIFY_KEY_SIZE} bytes")
        return BareParty(task, self._role, verify_key, self._key.key_pair, None, task.end_seconds + GRACE_SECONDS)

    def _require_role(self, role: str) -> None:
        if role != self._role.name.lower():
            raise UsageError(f"role: this server is a {self._role.name.lower()}")


def _config(text: str) -> HpkeConfig:
    """The collector's HPKE configuration. Raises ``UsageError``."""
    try:
        config = HpkeConfig.decode(unb64url(text))
    except DecodeError as error:
        raise UsageError(f"collector_hpke_config: {error}") from error
    if not usable(config):
        raise UsageError("collector_hpke_config: its suite or key is not supported")
    return config
