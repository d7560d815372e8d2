"""One server of the test API, in the foreground."""

from __future__ import annotations

import sys

from aiohttp import web

from infra.stacks.deployables import announce
from infra.tools.interop.aggregators import make_helper, make_leader
from infra.tools.interop.client import make_client
from infra.tools.interop.collector import make_collector
from infra.tools.interop.tasks import Credentials, TaskTransport
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import is_loopback
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.errors import UsageError
from tacit.ports import Transport
from tacit.service.app import Deps
from tacit.service.base.config import Listen
from tacit.service.run import serve
from tacit.version import DapVersion

ROLES = ("client", "leader", "helper", "collector")
WARNING = (
    "interop mode is for tests: it accepts keys and tokens in plain text, counts reports without tokens, follows no "
    "log and forgets everything when it stops. Never give it data of real people."
)


def make(role: str, version: DapVersion, transport: Transport) -> web.Application:
    """The application of one role. Raises ``UsageError`` for an unknown role."""
    if role not in ROLES:
        raise UsageError(f"no role is called {role}; choose one of {', '.join(ROLES)}")
    credentials = Credentials()
    deps = Deps(SystemClock(), OsEntropy(), TaskTransport(transport, credentials))
    if role == "client":
        return make_client(deps, version)
    makers = {"leader": make_leader, "helper": make_helper, "collector": make_collector}
    return makers[role](deps, version, credentials)


async def run_interop(role: str, version: DapVersion, listen: Listen, *, insecure_http: bool) -> None:
    """Serve one role until the process is told to stop. ``insecure_http`` allows plain HTTP beyond loopback, and to
    peers there. Raises ``UsageError``."""
    if not insecure_http and not is_loopback(listen.host):
        raise UsageError(f"--host {listen.host}: only loopback without --insecure-http, for a network of test machines")
    async with HttpTransport(insecure_http=insecure_http, repeat_posts=True) as transport:
        app = make(role, version, transport)
        print(f"tacit: {WARNING}", file=sys.stderr, flush=True)
        await serve(app, listen, ready=announce, insecure_http=insecure_http)
