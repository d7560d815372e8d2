"""The files that the containers of a stack get, each with its owner in the container."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

from sqlalchemy.engine import URL

from infra.backing.databases import URL_FILE
from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY
from infra.base.certificates import certify
from infra.base.remembered_servers import amend_config
from infra.base.service_calls import DEVICES
from infra.monitoring.scraping import write_scrape_config
from infra.stacks.certificates import authority_of
from infra.stacks.layout import Layout
from infra.stacks.metrics import prometheus_name
from infra.stacks.options import organisation_of
from infra.stacks.tls import AUTHORITY
from infra.stacks.workers import Part
from infra.tools.staging.container_places import PORT, database_address, database_user, user_of, with_database
from infra.tools.staging.devices import Devices
from tacit.ports import Entropy
from tacit.service.base.secret_files import write_secret

DATABASES, SCRIPT = "databases", "database.sh"
ROLES, SUPERUSER, PASSWD = "roles.sql", "superuser", "passwd"
PROMETHEUS = "prometheus"
PUBLIC = "public"
"""The folder of the files that every device may read: the policy, and the authority's certificate."""


def write_databases(layout: Layout, entropy: Entropy, now: float) -> None:
    """Make a folder for the database of each organisation that has one: a role and a database per service, made once,
    and a new certificate. Each service gets the URL of its own database."""
    folder = layout.state_dir / DATABASES
    for organisation, services in with_database(layout).items():
        own = folder / organisation
        if not (own / ROLES).exists():
            _provision(layout, own, organisation, services, entropy)
        address = database_address(layout, organisation)
        certify(own / "tls", authority_of(layout.state_dir, now), [f"{organisation}.database"], now, [address])
        user = database_user(organisation)
        (own / PASSWD).write_text(f"postgres:x:{user}:{user}::/var/lib/tacit:/bin/false\n", "utf-8")
        (own / "state").mkdir(mode=0o700, exist_ok=True)
    (folder / SCRIPT).write_text((files("infra.tools.staging") / SCRIPT).read_text("utf-8"), "utf-8")
    (folder / SCRIPT).chmod(0o644)


def _provision(layout: Layout, own: Path, organisation: str, services: list[str], entropy: Entropy) -> None:
    lines = []
    for name in services:
        password, config = entropy(32).hex(), layout.configs[name]
        lines += [
            f"CREATE ROLE {name} LOGIN PASSWORD '{password}'",
            f"CREATE DATABASE {name} OWNER {name}",
            f"REVOKE ALL ON DATABASE {name} FROM PUBLIC",
        ]
        address = database_address(layout, organisation)
        beside = {"sslmode": "verify-full", "sslrootcert": f"{layout.options.tls_folder}{CA_FILE}"}
        url = URL.create("postgresql", name, password, address, PORT, name, beside)
        write_secret(config.parent / URL_FILE, url.render_as_string(hide_password=False).encode())
        amend_config(config, database_file=URL_FILE)
    write_secret(own / SUPERUSER, entropy(16).hex().encode())
    write_secret(own / ROLES, "".join(f"{line}\n" for line in lines).encode())


def write_prometheus(layout: Layout, parts: Iterable[Part], now: float) -> None:
    """Make a folder for each organisation with what its Prometheus needs to read the metrics of its own services and of
    no others: a configuration, and a new certificate."""
    metrics: dict[str, dict[str, str]] = {}
    for part in parts:
        if part.metrics is not None:
            metrics.setdefault(organisation_of(part.label), {})[part.label] = part.metrics
    for organisation, found in metrics.items():
        own = layout.state_dir / PROMETHEUS / organisation
        certify(own, authority_of(layout.state_dir, now), [prometheus_name(organisation)], now)
        write_scrape_config(own, found, {"ca_file": CA_FILE, "cert_file": CERTIFICATE, "key_file": KEY})


def hand_over(layout: Layout, devices: Devices) -> None:
    """Give every file to the user of the container that reads it; needs root."""
    for name in layout.configs:
        hand_over_service(layout, name)
    for organisation in with_database(layout):
        _give(layout.state_dir / DATABASES / organisation, database_user(organisation))
    public = devices.folder / PUBLIC
    public.mkdir(mode=0o755, exist_ok=True)
    for path in (layout.policy_path, layout.state_dir / AUTHORITY / CA_FILE):
        shutil.copyfile(path, public / path.name)
    _give(devices.folder, user_of(DEVICES))


def hand_over_service(layout: Layout, name: str) -> None:
    """Give a service's files to the user of its container; needs root."""
    folder = layout.configs[name].parent
    (folder / layout.options.state_folder).mkdir(mode=0o700, exist_ok=True)
    _give(folder, user_of(organisation_of(name)))


def _give(folder: Path, user: int) -> None:
    os.chown(folder, user, user)
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            os.chown(Path(place, name), user, user, follow_symlinks=False)


def files_of(layout: Layout, name: str) -> tuple[list[str], list[str]]:
    """The files that a service's configuration names: the secret ones, and the others."""
    folder = layout.configs[name].parent
    named = {text for text in _texts(json.loads(layout.configs[name].read_text("utf-8"))) if "/" not in text}
    found = sorted(text for text in named if (folder / text).is_file())
    secret = [text for text in found if not (folder / text).stat().st_mode & 0o077]
    return secret, [text for text in found if text not in secret]


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _texts(part)]
