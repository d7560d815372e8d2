"""The compose file of a staging stack: valid, closed on every side, and each container with what is its own."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from infra.base.probe import main as probe
from infra.cli import run
from infra.lab.kit.entropy import SeededEntropy
from infra.stacks.agents import provision_devices
from infra.stacks.layout import Layout
from infra.stacks.new_layout import create_layout, renew_certificates
from infra.stacks.options import ORGANISATIONS, StackOptions, organisation_of
from infra.stacks.workers import service_part
from infra.tools.images.domains import DOMAINS
from infra.tools.staging.compose import FILES, compose_document, title
from infra.tools.staging.container_files import files_of, hand_over, write_databases, write_prometheus
from infra.tools.staging.container_places import called_by, every_subnet, legs_of, subnets, with_database
from infra.tools.staging.containers import free_network
from infra.tools.staging.devices import Devices
from infra.tools.staging.natures import Natures
from infra.tools.staging.networks import SPEAK, network_of
from infra.tools.staging.podman_compose import Compose
from tacit.errors import UsageError
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import read_database_url

NOW = 1_790_000_000.0
IMAGES = {domain.name: f"localhost/tacit-{domain.name}:1" for domain in DOMAINS}
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    options = StackOptions(epoch_seconds=600, tls=True, network="10.77.9", containers=True, witnesses=2)
    made = create_layout(tmp_path_factory.mktemp("containers") / "stack", options, SeededEntropy(1), NOW)
    Devices.of(made.state_dir).populate(made, 7, 2, 3, Natures(), SeededEntropy(2), NOW)
    write_databases(made, SeededEntropy(3), NOW)
    return made


@pytest.fixture(scope="module")
def document(layout: Layout) -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "chown", lambda *_args, **_options: None)
        hand_over(layout, Devices.of(layout.state_dir))
    return compose_document(layout, Devices.of(layout.state_dir), IMAGES, "localhost/postgres:1")


def test_every_container_is_closed(document: Mapping[str, Any]) -> None:
    assert len(document["services"]) == 13 + 8 + 2 + 2
    users = set()
    for name, service in document["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges"]
        assert "privileged" not in service
        assert "ports" not in service, "nothing is published"
        assert int(service["user"].partition(":")[0]) > 10_000
        limits = service["deploy"]["resources"]["limits"]
        assert set(limits) == {"memory", "cpus", "pids"}
        writable = [one for one in service["volumes"] if not one["read_only"]]
        assert len(writable) == 1, "what it writes is one folder"
        assert ("healthcheck" in service) == (not name.startswith("device"))
        assert not any("TOKEN" in key or "PASSWORD" in key for key in service.get("environment", {}))
        users.add((service["user"], writable[0]["source"]))
    assert all(network["internal"] for network in document["networks"].values())
    databases = {service["user"] for name, service in document["services"].items() if name.endswith("-database")}
    others = {service["user"] for name, service in document["services"].items() if not name.endswith("-database")}
    assert len(databases) == 8
    assert len(others) == len(ORGANISATIONS) + 1
    assert not databases & others


def test_each_organisation_has_a_network_and_a_database_and_callers_have_a_leg(
    layout: Layout, document: Mapping[str, Any]
) -> None:
    assert set(document["networks"]) == {*ORGANISATIONS, *(f"{name}-data" for name in with_database(layout))}
    assert set(with_database(layout)) == {*ORGANISATIONS} - {"relay"}
    nets = {name: ip_network(one["ipam"]["config"][0]["subnet"]) for name, one in document["networks"].items()}
    taken = [
        (name, leg["ipv4_address"])
        for service in document["services"].values()
        for name, leg in service["networks"].items()
    ]
    assert len(set(taken)) == len(taken), "no address is given twice"
    assert all(ip_address(address) in nets[name] for name, address in taken)
    for name in layout.services:
        service = document["services"][title(name)]
        listens = json.loads(layout.configs[name].read_text())["listen"]["host"]
        assert service["networks"][organisation_of(name)]["ipv4_address"] == listens
        reached = {one for one in service["networks"] if one.endswith("-data")}
        assert reached <= {f"{organisation_of(name)}-data"}, "nobody sees another's database"
    hosts = [one for name, one in document["services"].items() if name.startswith("device")]
    assert all(set(one["networks"]) == {"relay", "attester"} for one in hosts)


def test_a_new_stack_has_addresses_that_no_other_has(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[str] = ["10.88.0.0/16", "fd00::/8"]

    def podman(*_arguments: str) -> str:
        return json.dumps([{"name": "host"}, *({"subnets": [{"subnet": one}]} for one in taken)])

    monkeypatch.setattr("infra.tools.staging.containers.podman", podman)
    first = free_network(tmp_path)
    assert first == network_of(tmp_path), "Podman's own network is in nobody's way"
    number = int(first.rpartition(".")[2])
    taken.append(f"10.93.{number}.0/24")
    assert free_network(tmp_path) == f"10.77.{(number + 1) % 256}"
    taken.append("10.80.0.0/16")
    with pytest.raises(UsageError, match="see: podman network ls"):
        free_network(tmp_path)
    assert set(subnets(layout).values()) <= set(every_subnet(layout.options.network))


def test_legs_are_those_that_organisations_need_to_speak(layout: Layout) -> None:
    pairs = {frozenset((organisation_of(name), leg)) for name in layout.services for leg in called_by(name)}
    pairs |= {frozenset(("devices", leg)) for leg in called_by("devices")}
    assert pairs == {frozenset(pair) for pair in SPEAK if len(set(pair)) == 2}
    assert called_by("gateway") == ("leader", "analyzer", "shuffler")
    assert called_by("witness_2") == ("analyst",)
    assert called_by("admin") == ()
    assert list(legs_of(layout, "leader")) == ["leader", "helper", "analyst", "leader-data"]
    assert list(legs_of(layout, "relay")) == ["relay", "analyst"]


def test_a_service_is_given_its_own_files_and_what_is_secret_as_secrets(
    layout: Layout, document: Mapping[str, Any]
) -> None:
    sources = {name: one["file"] for name, one in document["secrets"].items()}
    for name in layout.services:
        service = document["services"][title(name)]
        targets = {one["target"]: sources[one["source"]] for one in service["secrets"]}
        assert all(source == f"./{name}/{Path(target).name}" for target, source in targets.items())
        given = {*targets, *(one["target"] for one in service["volumes"])}
        secret, public = files_of(layout, name)
        assert given == {f"{FILES}/{one}" for one in (*secret, *public, "config.json", "tls", "state")}
        for source in targets.values():
            assert (layout.state_dir / source).stat().st_mode & 0o077 == 0
        for one in service["volumes"]:
            assert (layout.state_dir / one["source"]).exists(), one
    assert "database.url" in files_of(layout, "leader")[0]
    assert files_of(layout, "attester")[1] == ["device-root.pem"]
    assert "leader-peer.json" in sources
    device = document["services"]["devices-host-1"]
    assert {one["target"] for one in device["volumes"]} == {
        "/tacit/staging/host-1",
        "/tacit/policy.json",
        "/tacit/authority/ca.pem",
    }


def test_the_file_is_yaml_with_what_the_document_says(layout: Layout, document: dict[str, Any]) -> None:
    Compose(layout.state_dir).write(document)
    assert yaml.safe_load((layout.state_dir / "compose.yaml").read_text()) == document
    assert set(document) == {"name", "services", "networks", "secrets", "x-podman"}


def test_configurations_lead_to_the_files_in_a_container(layout: Layout) -> None:
    from infra.stacks.deployables import deployable

    for name in ("leader", "relay", "gateway", "witness_1"):
        config = deployable(name).load(layout.configs[name])
        folder = layout.configs[name].parent
        assert config.state_dir == folder / "state"
        assert config.listen.tls_cert == folder / "tls" / "tls.pem"
        assert config.peer_ca == folder / "tls" / "ca.pem"
        assert config.listen.tls_cert.exists()
    url = read_database_url(layout.state_dir / "leader" / "database.url")
    assert url.startswith("postgresql+asyncpg://leader:")
    assert "@10.94.9.10:5432/leader?sslmode=verify-full" in url
    assert "tls%2Fca.pem" in url
    roles = (layout.state_dir / "databases" / "analyst" / "roles.sql").read_text().splitlines()
    assert len(roles) == 3 * 4
    assert all("\n" not in line for line in roles)
    before = (layout.state_dir / "databases" / "leader" / "roles.sql").read_bytes()
    write_databases(layout, SeededEntropy(9), NOW)
    assert (layout.state_dir / "databases" / "leader" / "roles.sql").read_bytes() == before, "made once"
    renew_certificates(layout, NOW)
    assert not (layout.state_dir / "leader" / "tls.pem").exists()


def test_each_organisations_prometheus_knows_its_own_services_and_no_other(layout: Layout) -> None:
    parts = [service_part(layout, name) for name in layout.services]
    write_prometheus(layout, parts, NOW)
    folder, seen = layout.state_dir / "prometheus", []
    assert {one.name for one in folder.iterdir()} == set(ORGANISATIONS)
    for organisation in ORGANISATIONS:
        own = folder / organisation
        (job,) = json.loads((own / "prometheus.yml").read_text())["scrape_configs"]
        assert job["scheme"] == "https"
        assert all((own / job["tls_config"][name]).is_file() for name in ("ca_file", "cert_file", "key_file"))
        for one in job["static_configs"]:
            name = one["labels"]["party"]
            assert organisation_of(name) == organisation
            seen.append(name)
            config = json.loads(layout.configs[name].read_text())
            listen = Listen.model_validate(config["metrics"])
            assert one["targets"] == [f"{listen.host}:{listen.port}"]
            assert listen.host == config["listen"]["host"]
            assert listen.port != config["listen"]["port"]
            assert listen.client_names == {
                "metrics": (f"prometheus.{organisation}.example",),
                "operator": ("operator.analyst.example",),
            }
        assert (own / "tls.key").stat().st_mode & 0o077 == 0
    assert sorted(seen) == sorted(layout.services)


def test_a_new_device_belongs_to_the_owner_of_its_host(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000_000)
    monkeypatch.setattr(os, "chown", lambda path, user, _group: given.append((Path(path).name, user)))
    provision_devices(layout, [tmp_path / "3"], SeededEntropy(4), NOW)
    names = {name for name, _ in given}
    assert names == {"3", "identity.pem", "data.csv", "drawn.json", ".agent.new"}
    assert {user for _, user in given} == {tmp_path.stat().st_uid}
    assert (tmp_path / "3" / "agent.json").exists()
    assert not (tmp_path / "3" / ".agent.new").exists()


def test_a_probe_of_what_is_not_there_or_no_configuration_is_not_ready(tmp_path: Path, capsys: Capture) -> None:
    config = tmp_path / "config.json"
    assert probe([]) == probe([str(config)]) == 1
    config.write_text(json.dumps({"listen": {"host": "127.0.0.1", "port": 9}}))
    assert probe([str(config)]) == 1
    assert "probe: " in capsys.readouterr().err


def test_containers_are_refused_in_one_line_where_they_cannot_be(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["staging", "up", "--mode", "containers", "--state-dir", str(tmp_path / "none")]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run(command) == 1
    assert "containers need root and Podman (apt-get install podman" in capsys.readouterr().err
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert run(command) == 1
    assert "containers need root and Podman" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()
