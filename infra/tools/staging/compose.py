"""The compose file of a stack: by the Compose Specification, for podman-compose and docker compose.

Paths are relative to the stack's folder, which holds the file. Every container has a read-only root, no capability, a
user who is not root, limits, and a health check; secrets reach it as separate files.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.base.service_calls import DEVICES
from infra.base.service_names import kind_of
from infra.stacks.layout import Layout
from infra.stacks.options import organisation_of
from infra.stacks.tls import AUTHORITY
from infra.tools.images.domains import DEVICES as DEVICES_IMAGE
from infra.tools.images.domains import domain_of
from infra.tools.staging.agents import host_arguments, single_arguments
from infra.tools.staging.container_files import DATABASES, PASSWD, PUBLIC, ROLES, SCRIPT, SUPERUSER, files_of
from infra.tools.staging.container_places import (
    data_network,
    database_address,
    database_user,
    device_legs,
    legs_of,
    subnets,
    user_of,
    with_database,
)
from infra.tools.staging.devices import FOLDER, SINGLE, Devices
from infra.tools.staging.networks import project_of

FILE = "compose.yaml"
FILES = "/etc/tacit"
STACK = "/tacit"
"""Folder in a container with the files that all devices read."""
MOST_FILES, MOST_PROCESSES = 65_536, 4096
SERVICE_MEMORY, DEVICES_MEMORY = "768m", "2g"
SERVICE_CPUS = 1.0
CHECKED = {"interval": "30s", "timeout": "10s", "retries": 3, "start_period": "60s"}


def compose_document(
    layout: Layout, devices: Devices, images: Mapping[str, str], database_image: str
) -> dict[str, Any]:
    """The compose file's content: databases, services and devices, each with its networks, secrets and limits.
    ``images``: image by domain."""
    organisations = with_database(layout)
    databases = {f"{name}-database": _database(layout, name, database_image) for name in organisations}
    services = {title(name): _service(layout, name, images[domain_of(name).name]) for name in layout.services}
    hosts = {
        _device_title(folder): _devices(layout, folder, number, images[DEVICES_IMAGE.name])
        for number, folder in enumerate([*devices.hosts, *devices.single])
    }
    every = {**databases, **services, **hosts}
    for name, one in every.items():
        one["container_name"] = container_of(layout, name)
    secrets = {
        _secret(name, file): {"file": f"./{name}/{file}"}
        for name in layout.services
        for file in files_of(layout, name)[0]
    }
    secrets |= {
        _secret(f"{name}-database", file): {"file": f"./{DATABASES}/{name}/{file}"}
        for name in organisations
        for file in (SUPERUSER, ROLES)
    }
    networks = {
        name: {"internal": True, "ipam": {"config": [{"subnet": subnet}]}} for name, subnet in subnets(layout).items()
    }
    return {
        "name": project_of(layout.state_dir),
        "services": every,
        "networks": networks,
        "secrets": secrets,
        "x-podman": {"in_pod": False},
    }


def title(name: str) -> str:
    """The name of a stack's service in the file."""
    return name.replace("_", "-")


def device_titles(devices: Devices) -> list[str]:
    """The services of the file that run devices."""
    return [_device_title(folder) for folder in (*devices.hosts, *devices.single)]


def container_of(layout: Layout, name: str) -> str:
    """The name of the container of ``name``, a service of the compose file; no other stack's container has it."""
    return f"{project_of(layout.state_dir)}-{name}"


def service_arguments(layout: Layout, name: str) -> list[str]:
    """The arguments of ``tacit`` that run a stack's service in its container."""
    return ["serve", kind_of(name), "--config", f"{FILES}/{layout.configs[name].name}"]


def _device_title(folder: Path) -> str:
    return f"device-{folder.name}" if folder.parent.name == SINGLE else f"devices-{folder.name}"


def _container_members(image: str, user: int, legs: Mapping[str, str], memory: str, cpus: float) -> dict[str, Any]:
    return {
        "image": image,
        "user": f"{user}:{user}",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "restart": "on-failure",
        "stop_grace_period": "15s",
        "tmpfs": ["/tmp:size=16m,mode=1777"],  # noqa: S108 - the container's own
        "networks": {name: {"ipv4_address": address} for name, address in legs.items()},
        "ulimits": {
            name: {"soft": most, "hard": most}
            for name, most in (
                ("nofile", _least(resource.RLIMIT_NOFILE, MOST_FILES)),
                ("nproc", _least(resource.RLIMIT_NPROC, MOST_PROCESSES)),
            )
        },
        "deploy": {"resources": {"limits": {"memory": memory, "cpus": f"{cpus:g}", "pids": 512}}},
    }


def _least(limit: int, wanted: int) -> int:
    """``wanted``, or this machine's hard limit if that is lower; ``limit``: one of ``resource.RLIMIT_*``."""
    _, hard = resource.getrlimit(limit)
    return wanted if hard < 0 else min(hard, wanted)


def _service(layout: Layout, name: str, image: str) -> dict[str, Any]:
    organisation = organisation_of(name)
    secret, public = files_of(layout, name)
    body = _container_members(image, user_of(organisation), legs_of(layout, name), SERVICE_MEMORY, SERVICE_CPUS)
    if organisation in with_database(layout) and data_network(organisation) in body["networks"]:
        body["depends_on"] = {f"{organisation}-database": {"condition": "service_healthy"}}
    config = layout.configs[name].name
    return {
        **body,
        "command": service_arguments(layout, name),
        "secrets": [{"source": _secret(name, file), "target": f"{FILES}/{file}"} for file in secret],
        "volumes": [
            *(_bind(f"./{name}/{file}", f"{FILES}/{file}") for file in (config, *public)),
            _bind(f"./{name}/tls", f"{FILES}/tls"),
            _bind(f"./{name}/{layout.options.state_folder}", f"{FILES}/{layout.options.state_folder}", writable=True),
        ],
        "healthcheck": {"test": ["CMD", "python3", "-m", "infra.base.probe", f"{FILES}/{config}"], **CHECKED},
    }


def _database(layout: Layout, organisation: str, image: str) -> dict[str, Any]:
    address, own = database_address(layout, organisation), f"./{DATABASES}/{organisation}"
    name = f"{organisation}-database"
    legs = {data_network(organisation): address}
    return {
        **_container_members(image, database_user(organisation), legs, SERVICE_MEMORY, SERVICE_CPUS),
        "entrypoint": ["/bin/sh", f"{FILES}/{SCRIPT}"],
        "environment": {"ADDRESS": address},
        "stop_signal": "SIGINT",
        "secrets": [{"source": _secret(name, file), "target": f"{FILES}/{file}"} for file in (SUPERUSER, ROLES)],
        "volumes": [
            _bind(f"./{DATABASES}/{SCRIPT}", f"{FILES}/{SCRIPT}"),
            _bind(f"{own}/{PASSWD}", "/etc/passwd"),
            _bind(f"{own}/tls", f"{FILES}/tls"),
            _bind(f"{own}/state", "/var/lib/tacit", writable=True),
        ],
        "healthcheck": {"test": ["CMD", "pg_isready", "-h", address], **CHECKED},
    }


def _devices(layout: Layout, folder: Path, number: int, image: str) -> dict[str, Any]:
    place = f"{FOLDER}/{folder.relative_to(layout.state_dir / FOLDER)}"
    arguments = single_arguments if folder.parent.name == SINGLE else host_arguments
    cpus = float(os.cpu_count() or 1)
    public = f"./{FOLDER}/{PUBLIC}"
    return {
        **_container_members(image, user_of(DEVICES), device_legs(layout, number), DEVICES_MEMORY, cpus),
        "command": arguments(f"{STACK}/{place}"),
        "volumes": [
            _bind(f"./{place}", f"{STACK}/{place}", writable=True),
            _bind(f"{public}/{layout.policy_path.name}", f"{STACK}/{layout.policy_path.name}"),
            _bind(f"{public}/ca.pem", f"{STACK}/{AUTHORITY}/ca.pem"),
        ],
    }


def _bind(source: str, target: str, *, writable: bool = False) -> dict[str, Any]:
    return {"type": "bind", "source": source, "target": target, "read_only": not writable}


def _secret(name: str, file: str) -> str:
    return f"{title(name)}-{file}"
