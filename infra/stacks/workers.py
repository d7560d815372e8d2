"""Further processes of a stack's leader and helper, each with a configuration derived from the service's own.

Further leader processes only run jobs, and have their own addresses; further helper processes share the helper's
address. All share the service's database, which must therefore be PostgreSQL.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.base.free_ports import free_ports
from infra.base.remembered_servers import amend_config
from infra.base.service_names import kind_of
from infra.stacks.layout import Layout
from tacit.adapters.disk.files import replace_file
from tacit.errors import UsageError
from tacit.service.metric_names import PATH as METRICS_PATH

CONFIG = "worker-{}.json"


@dataclass(frozen=True)
class Part:
    """One process of a stack: kind of service, label for people, configuration, log and URL."""

    name: str
    label: str
    config: Path
    log: Path
    url: str
    hosted: tuple[Part, ...] = ()
    """The services of a process that runs several: a gateway and a leader."""

    @property
    def services(self) -> tuple[Part, ...]:
        """The parts that this process serves: those that it hosts, or itself."""
        return self.hosted or (self,)

    @property
    def metrics(self) -> str | None:
        """URL of the process's metrics, as its configuration has it now; None if it has no port for them."""
        listen = json.loads(self.config.read_text("utf-8")).get("metrics")
        if not listen or not listen.get("port"):
            return None
        scheme = "https" if listen.get("tls_cert") else "http"
        return f"{scheme}://{listen.get('host', '127.0.0.1')}:{listen['port']}{METRICS_PATH}"

    @property
    def arguments(self) -> list[str]:
        """The arguments of ``tacit serve``, for a gateway with the configuration of the leader that it hosts."""
        leader = [] if not self.hosted else ["--leader-config", str(self.hosted[-1].config)]
        return [self.name, "--config", str(self.config), *leader]


def service_part(layout: Layout, name: str) -> Part:
    """Return the first process of the service ``name``."""
    config = layout.configs[name]
    return Part(kind_of(name), name, config, config.parent / "service.log", layout.urls[name])


def further_parts(layout: Layout, leader_workers: int, helper_workers: int) -> list[Part]:
    """Write the configurations of ``leader_workers`` further leader processes and of all but the first of
    ``helper_workers`` helper processes, remove those of an earlier start, and return the processes. Raises
    ``UsageError``."""
    for name, option, more in (("leader", "leader", leader_workers > 0), ("helper", "helper", helper_workers > 1)):
        if more and "database_file" not in json.loads(layout.configs[name].read_text("utf-8")):
            raise UsageError(f"--{option}-workers needs PostgreSQL; start a new stack with --with postgres")
    for name in ("leader", "helper"):
        for old in layout.configs[name].parent.glob(CONFIG.format("*")):
            old.unlink()
    _share_address(layout.configs["helper"], shared=helper_workers > 1)
    leaders = [_leader(layout, number, free_ports(1)[0]) for number in range(1, leader_workers + 1)]
    return leaders + [_helper(layout, number) for number in range(2, helper_workers + 1)]


def known_parts(layout: Layout) -> list[Part]:
    """Return the further processes of the last start."""
    found = []
    for name in ("leader", "helper"):
        for path in sorted(layout.configs[name].parent.glob(CONFIG.format("*"))):
            listen = json.loads(path.read_text("utf-8"))["listen"]
            found.append(_part(name, path, _url(layout, listen)))
    return found


def _leader(layout: Layout, number: int, port: int) -> Part:
    body = json.loads(layout.configs["leader"].read_text("utf-8"))
    path = layout.configs["leader"].parent / CONFIG.format(number)
    listen = {**body["listen"], "port": port}
    own = {"roles": ["worker"], "listen": listen, **_own_metrics(body)}
    replace_file(path, json.dumps({**body, **own}, indent=1).encode())
    return _part("leader", path, _url(layout, listen))


def _url(layout: Layout, listen: dict[str, Any]) -> str:
    return f"{'https' if layout.options.tls else 'http'}://{listen['host']}:{listen['port']}"


def _helper(layout: Layout, number: int) -> Part:
    path = layout.configs["helper"].parent / CONFIG.format(number)
    body = json.loads(layout.configs["helper"].read_text("utf-8"))
    replace_file(path, json.dumps({**body, **_own_metrics(body)}, indent=1).encode())
    return _part("helper", path, layout.urls["helper"])


def _own_metrics(body: dict[str, Any]) -> dict[str, Any]:
    """Each process exposes its own metrics, even if several share an address; only the first exposes the database's."""
    if "metrics" not in body:
        return {}
    return {"metrics": {**body["metrics"], "port": free_ports(1)[0]}, "metrics_of_database": False}


def _part(name: str, path: Path, url: str) -> Part:
    return Part(name, f"{name} {path.stem}", path, path.with_suffix(".log"), url)


def _share_address(config: Path, *, shared: bool) -> None:
    listen = json.loads(config.read_text("utf-8"))["listen"]
    listen.pop("reuse_port", None)
    amend_config(config, listen={**listen, "reuse_port": True} if shared else listen)
