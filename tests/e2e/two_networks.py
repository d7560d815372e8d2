"""The scenario of ``test_two_networks``, run inside the first of two network namespaces.

Here: PostgreSQL, Redis, Mosquitto, every service but the helper, and a fleet. In the other network: the helper, which
is reached over TLS, and a worker of the leader, which shares database, stream and announcements over the link. At
first the worker over there is the only one; once it has counted a part it is killed with SIGKILL and one here takes
over. Prints one JSON document; a start that fails says so on stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from infra.backing.backends import BACKENDS, Wanted, backends
from infra.backing.mosquitto import MosquittoServer
from infra.backing.postgres import SUPERUSER, PostgresServer
from infra.backing.redis import RedisServer, RedisUser
from infra.base.free_ports import free_ports
from infra.base.remembered_servers import amend_config
from infra.lab.fleet.origin import origin_of
from infra.lab.fleet.run import Data, Load, open_fleet
from infra.lab.kit.recipes import survey_from
from infra.stacks.api import verified_log
from infra.stacks.command_options import policy_of
from infra.stacks.layout import Layout, load_layout, signing_key_of
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.stacks.processes import serve_command
from services.leader.schema import COMMON
from tacit.adapters.databases.sql import engine_of
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import OsEntropy
from tacit.operations.calls import call, list_pages
from tacit.recipe.encoder_specs import Categories
from tacit.recipe.model import Question, Recipe, TokenSlot
from tacit.recipe.writing.builder import propose
from tacit.service.base.secret_files import read_database_url, read_secret, write_secret
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.kit.processes import ReadyProcess

HERE, THERE = "10.77.0.1", "10.77.0.2"
LOOPBACK = "127.0.0.1"
NEAR = ("recipe_server", "issuer", "attester", "gateway", "relay", "leader", "collector")
DEVICES, RATE, PER_SECOND = 800, Decimal("0.5"), 40.0
INTERVAL_SECONDS = 30
PATIENCE = 60.0
LEASE_SECONDS = 3.0
LIMITS = {"job_size": 16, "min_job_size": 4, "max_job_delay": 0.2, "lease_seconds": LEASE_SECONDS, "idle_seconds": 0.2}


@dataclass
class Site:
    """The stack, the other network's name, and what has been started."""

    layout: Layout
    there: str
    processes: contextlib.ExitStack
    folder: Path

    def start(self, name: str, config: Path, *, there: bool = False) -> dict[str, Any]:
        """Start one process in this network or in the other one; returns its ready line."""
        enter = ["ip", "netns", "exec", self.there] if there else []
        command = [*enter, *serve_command(name, "--config", str(config)), "--stop-with-stdin"]
        log = self.folder / f"{'there' if there else 'here'}-{config.stem}-{name}.log"
        process = ReadyProcess(command, log, piped_stdin=True)
        return self.processes.enter_context(process).ready()

    def counts(self, party: str, recipe: str) -> dict[str, Any]:
        """What an aggregator says of the recipe's task, or nothing yet."""
        bearer = self.layout.operator_token(party)

        async def ask() -> dict[str, Any]:
            async with HttpTransport() as http:
                rows = await list_pages(http, f"{self.layout.urls[party]}/v1/recipes", "recipes", bearer=bearer)
                found = [row for row in rows if row["recipe_hash"] == recipe and row["state"] == "active"]
                if not found:
                    return {}
                url = f"{self.layout.urls[party]}/v1/tasks/{found[0]['task_id']}/status"
                return dict(await call(http, "GET", url, bearer=bearer))

        return asyncio.run(ask())

    def counted(self) -> int:
        """Contributions in the leader's buckets."""
        url = read_database_url(self.layout.configs["leader"].parent / "database.url")
        table = COMMON.buckets

        async def ask() -> int:
            engine = engine_of(url)
            try:
                async with engine.connect() as connection:
                    return int((await connection.execute(sa.select(sa.func.sum(table.c.count)))).scalar() or 0)
            finally:
                await engine.dispose()

        return asyncio.run(ask())


def until(what: str, found: Callable[[], Any]) -> Any:
    """What ``found`` gives, once that is something true."""
    deadline = time.monotonic() + PATIENCE
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited in vain until {what}")
        time.sleep(0.05)
    return answer


@contextlib.contextmanager
def servers(folder: Path, layout: Layout) -> Iterator[None]:
    """PostgreSQL, Redis and Mosquitto, which both networks can reach; the stack is told of them as an operator's."""
    ports = free_ports(3)
    postgres = PostgresServer.create(folder / "postgres", ports[0], secrets.token_hex(16))
    postgres.extra = {"fsync": "off", "listen_addresses": f"{LOOPBACK},{HERE}"}
    with (folder / "postgres" / "data" / "pg_hba.conf").open("a") as rules:
        rules.write(f"host all all {THERE}/32 scram-sha-256\n")
    user = RedisUser("tacit", secrets.token_hex(16), "tacit")
    redis = RedisServer.create(folder / "redis", ports[1], {user.name: user})
    _amend(redis.folder / "redis.conf", f"bind {LOOPBACK}", f"bind {LOOPBACK} {HERE}")
    password = secrets.token_hex(16)
    broker = MosquittoServer.create(folder / "broker", ports[2], {"recipe_server": password}, OsEntropy())
    listener = f"listener {ports[2]} "
    _amend(broker.folder / "mosquitto.conf", listener + LOOPBACK, f"{listener}{LOOPBACK}\n{listener}{HERE}")
    urls = {
        "postgres": f"{postgres.url_of(SUPERUSER, postgres.password, 'postgres')}?sslmode=disable&insecure_tls=true",
        "redis": redis.url_of(user),
        "mosquitto": f"mqtt://recipe_server:{password}@{LOOPBACK}:{ports[2]}",
    }
    for name, url in urls.items():
        write_secret(folder / f"{name}.url", url.encode())
    with contextlib.ExitStack() as stack:
        for server in (postgres, redis, broker):
            stack.callback(server.crash)
            server.start()
        wanted = Wanted(frozenset(BACKENDS), {name: folder / f"{name}.url" for name in urls})
        stack.enter_context(backends(layout, wanted, OsEntropy()))
        yield


def _amend(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    if old not in text:
        raise ValueError(f"{path.name} does not say {old}")
    path.write_text(text.replace(old, new))


def lay_out(folder: Path) -> Layout:
    """A stack whose helper is at an address of the other network, over TLS."""
    now = time.time()
    epoch = next(length for length in range(3600, 7200, 60) if length - now % length > 900)
    options = StackOptions(epoch_seconds=epoch, batch_floor=20, poll_seconds=0.5, idle_seconds=0.2, slots_per_epoch=1)
    state = folder / "stack"
    near = create_layout(state, options, OsEntropy(), now).urls["helper"]
    far = near.replace("http://", "https://").replace(LOOPBACK, THERE)
    for path in state.rglob("*.json"):
        text = path.read_text()
        if near in text:
            path.write_text(text.replace(near, far))
    layout = load_layout(state)
    body = json.loads(layout.configs["leader"].read_text())
    trusted = str(folder / "authority" / "ca.pem")
    amend_config(layout.configs["leader"], peer_ca=trusted, limits={**body["limits"], **LIMITS})
    listen = json.loads(layout.configs["recipe_server"].read_text())["listen"]
    amend_config(layout.configs["recipe_server"], listen={**listen, "host": "0.0.0.0"}, insecure_http=True)  # noqa: S104
    return layout


def carried_over(layout: Layout, folder: Path) -> tuple[Path, Path]:
    """The configurations of the helper and of a worker of the leader, in folders as another machine would have them:
    what is on loopback here has another address there."""
    for name in ("helper", "leader"):
        shutil.copytree(layout.configs[name].parent, folder / "there" / name)
    for path in (folder / "there").rglob("*.url"):
        write_secret(path, read_secret(path).replace(LOOPBACK.encode(), HERE.encode()))
    configs = [folder / "there" / name / "config.json" for name in ("helper", "leader")]
    for name, config in zip(("helper", "leader"), configs, strict=True):
        body = json.loads(config.read_text())
        log = {**body["log"], "url": body["log"]["url"].replace(LOOPBACK, HERE)}
        listen = {**body["listen"], "host": THERE}
        if name == "helper":
            files = folder / "authority" / "helper"
            listen |= {"tls_cert": str(files / "tls.pem"), "tls_key": str(files / "tls.key")}
        amend_config(config, log=log, listen=listen, insecure_http=True)
    amend_config(configs[1], roles=["worker"])
    return configs[0], configs[1]


def publish(site: Site) -> Recipe:
    """A recipe that asks from now on, in the log and taken up by both aggregators."""
    layout, recipe = site.layout, _recipe(site.layout)
    leaf = sign_leaf(LeafType.RECIPE, recipe.body(), recipe.parties.analyst.operator, signing_key_of(layout))

    async def post() -> None:
        async with HttpTransport() as http:
            await call(http, "POST", f"{layout.urls['recipe_server']}/v1/leaves", body=leaf.encode())

    asyncio.run(post())
    for party in ("leader", "helper"):
        until(f"the {party} takes part", functools.partial(site.counts, party, recipe.hash_text))
    return recipe


def has_keys(layout: Layout) -> bool:
    """Whether the log shows the issuer's keys of this epoch."""
    epoch = int(time.time() // layout.options.epoch_seconds)

    async def ask() -> bool:
        async with HttpTransport() as http:
            live = await verified_log(http, layout, policy_of(layout.policy_path))
            return live.directory(layout.parties.issuer.name, epoch) is not None

    return asyncio.run(ask())


def _recipe(layout: Layout) -> Recipe:
    now = int(time.time())
    labels = ("a", "b", "c", "d")
    encoder = Categories(kind="categories", categories=labels)
    return propose(
        survey_from(
            name="two-networks",
            question=Question(text="Which of four?", metric="four", encoder=encoder, statistic="histogram"),
            population=DEVICES,
            token=TokenSlot(issuer=layout.parties.issuer.name, epoch=now // layout.options.epoch_seconds, slot=0),
            start=now + 4,
            duration=INTERVAL_SECONDS,
            rate=RATE,
            min_batch_size=int(DEVICES * RATE) // 2,
            time_precision=1,
        ),
        layout.parties,
    )


async def run_fleet(site: Site, recipe: Recipe, worker: int) -> dict[str, Any]:
    """Send, kill the worker over there in the midst of it, start one here, and let the oracle judge."""
    load = Load(devices=DEVICES, rate=PER_SECOND, direct=True)
    fleet = await asyncio.to_thread(open_fleet, origin_of(site.layout, None, None), recipe.name, load, Data())
    sending = asyncio.ensure_future(asyncio.to_thread(fleet.run, lambda _snapshots: None, oracle=True))
    quarter = int(DEVICES * RATE) // 4
    counted = await asyncio.to_thread(
        until, "a quarter is counted", lambda: found if (found := site.counted()) >= quarter else 0
    )
    os.kill(worker, signal.SIGKILL)
    near = site.layout.configs["leader"].parent / "near-worker.json"
    body = json.loads(site.layout.configs["leader"].read_text())
    own = {name: {**body[name], "port": port} for name, port in zip(("listen", "metrics"), free_ports(2), strict=True)}
    near.write_text(json.dumps({**body, "roles": ["worker"], **own}))
    await asyncio.to_thread(site.start, "leader", near)
    result, verdict = await sending
    findings = [] if verdict is None else verdict.findings
    return {
        "sampled": result.sampled,
        "findings": {one.what: [one.expected, one.found] for one in findings},
        "remarks": [] if verdict is None else verdict.remarks,
        "counted_there": counted,
        "counted": await asyncio.to_thread(site.counted),
    }


def main(arguments: Sequence[str]) -> None:
    """``two_networks.py FOLDER OTHER_NETWORK``."""
    folder, there = Path(arguments[0]), arguments[1]
    layout = lay_out(folder)
    with servers(folder, layout), contextlib.ExitStack() as processes:
        site = Site(layout, there, processes, folder)
        helper, worker = carried_over(layout, folder)
        amend_config(layout.configs["leader"], roles=["upload"])
        for name in NEAR:
            site.start(name, layout.configs[name])
        site.start("helper", helper, there=True)
        pid = site.start("leader", worker, there=True)["pid"]
        amend_config(layout.configs["leader"], roles=["upload", "worker"])
        until("the log shows the issuer's keys", lambda: has_keys(layout))
        recipe = publish(site)
        sys.stdout.write(json.dumps(asyncio.run(run_fleet(site, recipe, pid))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
