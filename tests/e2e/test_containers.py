"""A staging deployment in containers for real: images built and looked into, a recipe answered, one command down."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import ssl
import subprocess
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml  # type: ignore[import-untyped]

from infra.stacks.options import ORGANISATIONS
from infra.tools.images.building import built, podman, podman_environment
from infra.tools.images.domains import DOMAINS, domain_called
from infra.tools.staging.devices import Devices
from infra.tools.staging.networks import project_of
from infra.tools.staging.podman_compose import Compose
from tacit.errors import Fatal
from tests.bases import base_images
from tests.e2e.staged import SECONDS, Staging, staging
from tests.e2e.test_staging import DEVICES, MINUTES, answered

pytestmark = pytest.mark.slow
START_SECONDS = 900.0
CONTAINERS = 12 + 7 + 4
"""Services, databases, devices."""


def test_a_recipe_is_answered_by_devices_in_containers_through_services_in_containers(tmp_path: Path) -> None:
    base, database = base_images()
    folder = tmp_path / "stack"
    images = ["--base", base, "--database-image", database]
    site: Staging
    with contextlib.ExitStack() as stack:
        stack.callback(Compose(folder).down)
        started = staging(folder, "containers", *MINUTES, *images, devices=DEVICES, ready_seconds=START_SECONDS)
        site, document, process = stack.enter_context(started)
        assert document["mode"] == "containers"
        assert tuple(document["organisations"]) == ORGANISATIONS
        assert document["agents"] == {"hosts": 2, "single": 2, "devices": DEVICES}
        project = project_of(folder)
        assert len(containers(project)) == CONTAINERS
        closed(project, folder)
        assert reached(f"{project}-devices-host-1", document) == {"relay", "attester"}
        assert reached(f"{project}-attester", document) == {"attester", "issuer"}
        for name in ("leader", "relay", "admin", "issuer-database"):
            podman("healthcheck", "run", f"{project}-{name}")
        metrics_are_for_the_prometheus_of_the_same_organisation(site)
        present = DEVICES + 3 - 2
        assert site.json("staging", "agents", "--join", "3", "--leave", "2")["devices"] == present
        site.until("every device at work", lambda: at_work(site, present))
        every_device_starts_again(site, project, present)
        an_organisation_starts_again(site, project)
        one_comes_back_with_a_flag_that_its_container_does_not_keep(site, project)
        an_older_database_is_refused_and_the_newest_one_taken(site, tmp_path)
        site.until("every device at work", lambda: at_work(site, present))
        found = answered(site, tmp_path)
        assert found["mismatches"] == []
        assert found["answered"] == found["released"] == found["journalled"] >= 20
        assert site.run("staging", "down").returncode == 0
        assert process.wait(SECONDS) == 0
    assert podman("ps", "--all", "--quiet", "--filter", f"label=io.podman.compose.project={project}") == ""
    assert project not in podman("network", "ls", "--format", "{{.Name}}")


def metrics_are_for_the_prometheus_of_the_same_organisation(site: Staging) -> None:
    """Everybody else is refused by name, and whoever has no certificate; the operator asks with the service's token."""
    own, other = (site.folder / "prometheus" / name for name in ("leader", "helper"))
    (job,) = json.loads((own / "prometheus.yml").read_text())["scrape_configs"]
    (target,) = job["static_configs"]
    assert target["labels"] == {"party": "leader"}
    url = f"{job['scheme']}://{target['targets'][0]}/metrics"
    status, page = read(url, own / "ca.pem", own)
    assert status == HTTPStatus.OK
    assert b"tacit_ready 1.0" in page
    assert read(url, own / "ca.pem", other)[0] == HTTPStatus.UNAUTHORIZED
    assert read(url, own / "ca.pem", None)[0] == HTTPStatus.UNAUTHORIZED
    assert site.json("operator", "status", "leader")["ready"]


def read(url: str, authority: Path, client: Path | None) -> tuple[int, bytes]:
    """Status and body of what is at ``url`` for whoever has the certificate in ``client``."""
    context = ssl.create_default_context(cafile=str(authority))
    if client is not None:
        context.load_cert_chain(client / "tls.pem", client / "tls.key")
    place = urlsplit(url)
    link = http.client.HTTPSConnection(str(place.hostname), place.port, timeout=10, context=context)
    try:
        link.request("GET", place.path)
        answer = link.getresponse()
        return answer.status, answer.read()
    finally:
        link.close()


def every_device_starts_again(site: Staging, project: str, present: int) -> None:
    """Those with a container of their own by that container."""
    single = [f"{project}-device-{folder.name}" for folder in Devices.of(site.folder).single]
    before = started(single)
    assert site.json("staging", "agents", "--restart", str(present))["restarted"] == present
    site.until("new processes", lambda: all(at > before[name] for name, at in started(single).items()))
    site.until("every device at work", lambda: at_work(site, present))


def an_organisation_starts_again(site: Staging, project: str) -> None:
    meant = ["witness_1", "witness_2"]
    names = [row["Names"][0] for row in containers(project)]
    before = started(names)
    answer = site.json("staging", "restart", "witnesses")
    assert answer["done"] == meant
    after = started(names)
    assert {name for name in names if after[name] != before[name]} == {
        f"{project}-{one.replace('_', '-')}" for one in meant
    }
    assert all(Path("/proc", str(pid)).exists() for pid in answer["services"].values())


def one_comes_back_with_a_flag_that_its_container_does_not_keep(site: Staging, project: str) -> None:
    mark = site.folder / "issuer" / "state" / "issuer.mark"
    owner = mark.stat().st_uid
    assert site.json("staging", "stop", "issuer")["services"]["issuer"] is None
    assert site.json("staging", "status")["services"]["ready"] < 12
    mark.unlink()
    refused = site.run("staging", "start", "issuer")
    assert refused.returncode == 1
    assert "issuer did not start" in refused.stderr
    assert "start once with --new-mark" in refused.stderr
    assert not inspected([f"{project}-issuer"])[0]["State"]["Running"]
    site.json("staging", "start", "issuer", "--serve-with", "new-mark")
    assert mark.stat().st_uid == owner
    assert "--new-mark" not in inspected([f"{project}-issuer"])[0]["Config"]["Cmd"]
    assert len(containers(project)) == CONTAINERS, "and no other is left"
    podman("healthcheck", "run", f"{project}-issuer")


def an_older_database_is_refused_and_the_newest_one_taken(site: Staging, folder: Path) -> None:
    config = str(site.folder / "attester" / "config.json")
    mark = site.folder / "attester" / "state" / "attester.mark"
    taken(site, config, folder / "older")
    before = mark.read_bytes()
    site.until("tokens are spent", lambda: mark.read_bytes() != before)
    site.json("staging", "stop", "attester")
    taken(site, config, folder / "newest")
    done = site.given("restore", "attester", str(folder / "older"), "--config", config)
    assert done.returncode == 0, done.stderr
    refused = site.run("staging", "start", "attester")
    assert refused.returncode == 1
    assert "the database is older than the last state of this service" in refused.stderr
    done = site.given("restore", "attester", str(folder / "newest"), "--config", config)
    assert done.returncode == 0, done.stderr
    site.json("staging", "start", "attester")


def taken(site: Staging, config: str, backup: Path) -> None:
    done = site.given("backup", "attester", "--config", config, "--out", str(backup), "--unencrypted")
    assert done.returncode == 0, done.stderr


def containers(project: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(
        podman("ps", "--all", "--format", "json", "--filter", f"label=io.podman.compose.project={project}")
    )
    return found


def started(names: Sequence[str]) -> dict[str, str]:
    """When each container began, by its name."""
    return {name: row["State"]["StartedAt"] for name, row in zip(names, inspected(names), strict=True)}


def inspected(names: Sequence[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(podman("inspect", *names)) if names else []
    return found


def at_work(site: Staging, present: int) -> bool:
    agents = site.json("staging", "status")["agents"]
    return bool(agents["working"] == agents["devices"] == present and not agents["failed"])


def closed(project: str, folder: Path) -> None:
    """Every container runs as the compose file says: as somebody, on a root it cannot write, able to do nothing."""
    names = [
        one["container_name"] for one in yaml.safe_load((folder / "compose.yaml").read_text())["services"].values()
    ]
    for row in inspected(names):
        assert row["HostConfig"]["ReadonlyRootfs"], row["Name"]
        assert row["EffectiveCaps"] in (None, []), row["Name"]
        assert int(row["Config"]["User"].partition(":")[0]) > 10_000
        assert row["HostConfig"]["Memory"] > 0
        assert "no-new-privileges" in row["HostConfig"]["SecurityOpt"]
    told = run_in(f"{project}-leader", "import os; print(sorted(os.listdir('/opt/tacit/app/services')))")
    assert "leader" in told
    assert "helper" not in told
    written = run_in(f"{project}-leader", "open('/opt/tacit/x', 'w')")
    assert "Read-only file system" in written or "Permission denied" in written


def reached(container: str, document: dict[str, Any]) -> set[str]:
    """The organisations of which a container can connect to the first service."""
    places = {}
    for name, urls in document["organisations"].items():
        host, _, port = next(iter(urls.values())).removeprefix("https://").rpartition(":")
        places[name] = (host, int(port))
    program = f"""
import socket
for name, place in {places!r}.items():
    try:
        socket.create_connection(place, 3).close()
    except OSError:
        continue
    print(name)
"""
    return set(run_in(container, program).split())


def run_in(container: str, program: str) -> str:
    """What a program of Python's says in a container."""
    done = subprocess.run(
        ["podman", "exec", container, "python3", "-c", program],  # noqa: S607 - wherever the system has it
        capture_output=True,
        text=True,
        check=False,
        env=podman_environment(),
    )
    return done.stdout + done.stderr


def test_an_image_that_holds_more_than_its_own_code_is_not_kept(tmp_path: Path) -> None:
    base, _ = base_images()
    relay = domain_called("relay")
    found = built(base, tmp_path / "relay", print, [relay])["relay"]
    assert re.fullmatch(r"localhost/tacit-relay:[0-9.]+-[0-9a-f]{12}", found.name)
    assert built(base, tmp_path / "again", print, [relay])["relay"].folder is None, "what is there is not built again"
    listed = json.loads(podman("image", "inspect", found.name))[0]
    assert listed["Config"]["User"] == "10001:10001"
    limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
    said = podman("run", "--rm", "--network", "none", "--read-only", *limits, found.name, "--version")
    assert said.startswith("tacit ")
    with pytest.raises(Fatal, match="is its base one of Tacit's images"):
        built(of_tacit(base, tmp_path), tmp_path / "onto", print, [DOMAINS[0]])


def of_tacit(base: str, folder: Path) -> str:
    """A base that has a package of Tacit's where Python finds it."""
    (folder / "Containerfile").write_text(
        f"FROM {base}\nCOPY Containerfile /usr/lib/python3/dist-packages/relay/x.py\n"
    )
    podman("build", "--quiet", "--tag", "localhost/tacit-test-stray:1", str(folder))
    return "localhost/tacit-test-stray:1"
