"""One server of the test API, in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path

from aiohttp import web

from infra.stacks.deployables import announce
from infra.tools.interop.aggregators import IN_MEMORY, Storage, make_helper, make_leader
from infra.tools.interop.client import make_client
from infra.tools.interop.collector import make_collector
from infra.tools.interop.tasks import Credentials, TaskTransport
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import is_loopback
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.ports import Transport
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import read_database_url
from tacit.service.run import serve
from tacit.version import DapVersion

AGGREGATORS = ("leader", "helper")
ROLES = ("client", *AGGREGATORS, "collector")
WARNING = (
    "interop mode is for tests: it accepts keys and tokens in plain text, counts reports without tokens, follows no "
    "log and forgets everything when it stops. Never give it data of real people."
)


def make(role: str, version: DapVersion, transport: Transport, storage: Storage = IN_MEMORY) -> web.Application:
    """The application of one role. Raises ``UsageError`` for an unknown role, or one that has no ``storage``."""
    if role not in ROLES:
        raise UsageError(f"no role is called {role}; choose one of {', '.join(ROLES)}")
    credentials = Credentials()
    deps = ServiceEnv(SystemClock(), OsEntropy(), TaskTransport(transport, credentials))
    if role == "client":
        return make_client(deps, version)
    if role == "collector":
        return make_collector(deps, version, credentials)
    return (make_leader if role == "leader" else make_helper)(deps, version, credentials, storage)


def storage_of(role: str, database_file: Path | None, *, batch_crypto: bool) -> Storage:
    """The storage that the options of the command ask for. Raises ``UsageError``."""
    if database_file is None:
        made = Storage(batch_crypto=batch_crypto)
    else:
        made = Storage(read_database_url(database_file), batch_crypto)
    if made != IN_MEMORY and role not in AGGREGATORS:
        raise UsageError(f"--database-file and --batch-crypto are for {' and '.join(AGGREGATORS)}")
    return made


async def run_interop(
    role: str, version: DapVersion, listen: Listen, *, insecure_http: bool, storage: Storage = IN_MEMORY
) -> None:
    """Serve one role until the process is told to stop. ``insecure_http`` allows plain HTTP beyond loopback, and to
    peers there. Raises ``UsageError``."""
    if not insecure_http and not is_loopback(listen.host):
        raise UsageError(f"--host {listen.host}: only loopback without --insecure-http, for a network of test machines")
    async with HttpTransport(insecure_http=insecure_http, repeat_posts=True) as transport:
        app = make(role, version, transport, storage)
        print(f"tacit: {WARNING}", file=sys.stderr, flush=True)
        await serve(app, listen, ready=announce, insecure_http=insecure_http)
