"""How the services of a stack are spread over processes, and the settings that go with it.

By default every service is one process, and each client message is one exchange with the gateway, as RFC 9458
describes; the gateway sends uploads to the leader in frames if several are ready. Three choices change that for higher
load:

* ``frames``: the relay also sends its messages in frames.
* ``together``: that, and the gateway and the leader's uploads share one process (``infra.stacks.ingest``). On
  PostgreSQL, at least one separate leader process then runs the jobs; on SQLite, which only one process may open, the
  jobs stay with the uploads.
* ``batch_crypto``: gateway, leader and helper also use the multi-buffer kernels for HPKE.

A choice that the next start does not repeat is undone; settings made by hand stay.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from infra.base.remembered_servers import amend_config
from infra.stacks.layout import Layout
from infra.stacks.options import SERVERS
from infra.stacks.workers import Part, further_parts, service_part
from tacit.adapters.disk.files import replace_file

CHOICES = "deployment.json"
INGEST = "ingest"
HOSTED = ("gateway", "leader")
BATCH_CRYPTO = "batch_crypto"
"""The setting that makes a service use the multi-buffer cryptography instead of OpenSSL."""


@dataclass(frozen=True)
class Deployment:
    """The choices described in the module's docstring; ``leader_workers`` and ``helper_workers`` are the numbers of
    further processes (``infra.stacks.workers``)."""

    together: bool = False
    batch_crypto: bool = False
    leader_workers: int = 0
    helper_workers: int = 1
    frames: bool = False


@dataclass(frozen=True)
class Parts:
    """The processes of a stack. The ``first`` create the tables that the ``further`` ones share."""

    first: list[Part]
    further: list[Part]


def deploy(layout: Layout, deployment: Deployment) -> Parts:
    """Write ``deployment`` into the configurations of ``layout`` and return its processes in the order in which they
    start. The databases must be chosen before. Raises ``UsageError``."""
    shared = "database_file" in json.loads(layout.configs["leader"].read_text("utf-8"))
    _configure(layout, deployment, own_workers=deployment.together and shared)
    workers = deployment.leader_workers
    further = further_parts(layout, max(workers, int(deployment.together and shared)), deployment.helper_workers)
    if not deployment.together:
        return Parts([service_part(layout, name) for name in layout.services], further)
    others = [service_part(layout, name) for name in layout.services if name not in HOSTED]
    return Parts([*others, ingest_part(layout)], further)


def ingest_part(layout: Layout) -> Part:
    """Return the process that serves both the gateway and the leader's uploads."""
    gateway, leader = (service_part(layout, name) for name in HOSTED)
    log = gateway.config.parent / f"{INGEST}.log"
    return Part(
        INGEST, INGEST, gateway.config, log, gateway.url, tuple(replace(one, log=log) for one in (gateway, leader))
    )


def _configure(layout: Layout, deployment: Deployment, *, own_workers: bool) -> None:
    """Write the settings that are chosen, and undo those chosen at an earlier start but not now."""
    settings: list[tuple[str, str, Any, bool]] = [
        ("relay", "frames", {}, deployment.together or deployment.frames),
        ("leader", "roles", ["upload"], own_workers),
        *((name, BATCH_CRYPTO, True, deployment.batch_crypto) for name in ("gateway", *SERVERS)),
    ]
    marker = layout.state_dir / CHOICES
    chosen = _read(marker)
    now: list[str] = []
    for service, member, value, wanted in settings:
        setting = f"{service}.{member}"
        if wanted and (setting in chosen or member not in json.loads(layout.configs[service].read_text("utf-8"))):
            amend_config(layout.configs[service], **{member: value})
            now.append(setting)
        elif setting in chosen:
            amend_config(layout.configs[service], **{member: None})
    replace_file(marker, json.dumps(now).encode())


def _read(marker: Path) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        found: list[str] = json.loads(marker.read_text("utf-8"))
        return found
    return []
