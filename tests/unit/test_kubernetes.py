"""The documents for Kubernetes: their configurations against the models of the services and, rendered, against the
schemas of Kubernetes, its strictest standard for pods, the legs of the protocol, and what one organisation may know of
another."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
from pydantic import BaseModel

from infra.base.service_calls import DEVICES, PUBLIC, SERVICE_CALLS
from infra.base.service_names import KINDS
from infra.stacks.options import organisation_of
from infra.tools.documents.configuration import configurations
from tacit import __version__
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import load_config, parse_config
from tacit.service.run import GRACE_SECONDS
from tacit.signing import signing_key_from_private
from tacit.tlog.checkpoint import COSIGNATURE, NoteKey
from tests.conftest import ROOT
from tests.manifests import ORGANISATIONS, OUTSIDE, PLACE, Document, Pod, admitted, of_kind, pods, rendered, selects

SERVICES = {service: organisation for organisation, services in ORGANISATIONS.items() for service in services}
MANY = ("leader", "helper", "analyzer", "shuffler")
KEY = signing_key_from_private(bytes(32)).public
HTTPS, METRICS, POSTGRES = 8443, 9464, 5432
PAGE = (ROOT / "docs" / "operations.md").read_text()
ELSEWHERE = {"backup_keys", "state_dir", "listen", "metrics", "drain_seconds", "database_file", "admin_token"}
"""The keys in which a shipped configuration differs from that of docs/operations.md."""
EVERY_ORGANISATION = pytest.mark.parametrize("organisation", list(ORGANISATIONS))
EVERY_SERVICE = pytest.mark.parametrize("service", list(SERVICES))


def place_of(service: str) -> Path:
    return PLACE / "organisations" / SERVICES[service] / service


def filled_in(text: str) -> str:
    """With public values of the right form; which, nobody here asks."""
    text = text.replace("<WITNESS_KEY>", NoteKey("witness.example/tacit", KEY, COSIGNATURE).encode())
    text = text.replace("<LOG_KEY>", NoteKey("analyst.example/log", KEY).encode())
    text = text.replace("<BACKUP_KEY>", "age1czt3zrnqja0e6rdv2x6tgfvg528reqwme9tcgjkxwhp76d00l3dsytr9rt")
    return re.sub(r"<[A-Z]+_KEY>", b64url(KEY), text)


def shipped(service: str) -> ServiceConfig:
    """Its configuration, as the service reads it, files relative to the folder ``/``."""
    data = tomllib.loads(filled_in((place_of(service) / f"{service}.toml").read_text()))
    model: Any = configurations()[service]
    found: ServiceConfig = parse_config(data, model, base=Path("/"))
    return found


def files_of(value: object) -> Iterator[str]:
    """Every file that a configuration names."""
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            if name not in {"state_dir", "mark_file"}:
                yield from files_of(getattr(value, name))
    elif isinstance(value, Mapping):
        yield from (file for one in value.values() for file in files_of(one))
    elif isinstance(value, tuple | list):
        yield from (file for one in value for file in files_of(one))
    elif isinstance(value, Path):
        yield str(value.relative_to("/"))


def everything() -> list[Document]:
    return [one for organisation in ORGANISATIONS for one in rendered(organisation)]


def projected(pod: Pod) -> list[Mapping[str, Any]]:
    """What its settings are made of."""
    found = [one["projected"]["sources"] for one in pod.spec["volumes"] if "projected" in one]
    assert len(found) == 1
    sources: list[Mapping[str, Any]] = found[0]
    return sources


def secrets_of(pod: Pod) -> dict[str, list[str]]:
    """Name of a secret -> the files that it becomes."""
    return {
        one["secret"]["name"]: [item["path"] for item in one["secret"]["items"]]
        for one in projected(pod)
        if "secret" in one
    }


def test_every_service_has_its_place_with_the_organisation_that_runs_it() -> None:
    assert sorted(SERVICES) == sorted(KINDS)
    for service, organisation in SERVICES.items():
        assert organisation == ("witness" if service == "witness" else organisation_of(service))


@EVERY_SERVICE
def test_a_configuration_is_accepted_by_its_service_once_its_public_values_are_filled_in(service: str) -> None:
    config = shipped(service)
    assert (config.listen.port, config.state_dir) == (HTTPS, Path(f"/var/lib/tacit/{service}"))
    assert config.metrics is not None
    assert (config.metrics.port, config.metrics.client_ca) == (METRICS, config.listen.client_ca or Path("/ca.pem"))
    assert config.metrics.client_names == {"metrics": (f"prometheus.{SERVICES[service]}.example",)}
    assert (config.database_file is not None) == (service in MANY), "several processes share PostgreSQL, one has a file"
    assert not config.insecure_http


def test_a_key_or_a_policy_whose_values_nobody_filled_in_is_refused(tmp_path: Path) -> None:
    shipped_file = place_of("leader") / "leader.toml"
    with pytest.raises(UsageError, match=r"leader\.toml: backup_keys"):
        load_config(shipped_file, configurations()["leader"])
    file = tmp_path / "leader.toml"
    file.write_text(re.sub("(?m)^backup_keys.*\n", "", shipped_file.read_text()))
    with pytest.raises(UsageError, match=r"leader\.toml: policy"):
        load_config(file, configurations()["leader"])


@pytest.mark.parametrize("service", [service for service in SERVICES if service not in {"analyzer", "admin"}])
def test_a_configuration_says_what_the_page_for_operators_says(service: str) -> None:
    path = f"{SERVICES[service]}/{service}.toml"
    found = re.search(rf"`{re.escape(path)}`[^\n]*:\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    said = tomllib.loads(found[1])
    policy = re.search(r"`policy\.toml`:\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert policy is not None
    here = tomllib.loads((place_of(service) / f"{service}.toml").read_text())
    if service == "shuffler":
        assert here.pop("analyzer_token"), "the shipped one serves an analyzer too, which the page does not set up"
        assert here["policy"]["aggregators"].pop("analyzer.example")
    if "policy" in here:
        assert here.pop("policy") == tomllib.loads(policy[1])
    assert {key: value for key, value in here.items() if key not in ELSEWHERE} == {
        key: value for key, value in said.items() if key not in ELSEWHERE
    }
    assert {**said["listen"], "host": "0.0.0.0", "port": HTTPS} == here["listen"]  # noqa: S104 - in a pod


def test_whoever_calls_a_service_that_asks_for_certificates_is_named_there_and_whoever_is_called_is_pinned() -> None:
    for caller, called in SERVICE_CALLS:
        listen = shipped(called).listen
        if caller in SERVICES and listen.client_ca is not None:
            host = f"{caller}.{SERVICES[caller]}" if SERVICES[caller] == "analyst" else SERVICES[caller]
            assert listen.client_names[caller] == (f"{host}.example",)
    for service, others in {"analyzer": {"shuffler"}, "shuffler": {"analyzer", "leader", "helper"}}.items():
        policy = tomllib.loads((place_of(service) / f"{service}.toml").read_text())["policy"]
        assert {f"{one}.example" for one in (*others, service)} <= policy["aggregators"].keys()


@EVERY_SERVICE
def test_a_pod_is_given_every_file_that_its_configuration_names_and_no_other(service: str) -> None:
    patches = yaml.safe_load((place_of(service) / "keys.yaml").read_text())
    given = [item["path"] for patch in patches for item in patch["value"]["secret"]["items"]]
    named = set(files_of(shipped(service))) - {"database.url"}
    assert len(given) == len(set(given))
    assert set(given) == named
    assert {patch["value"]["secret"]["name"] for patch in patches} == {
        f"{kind}-{service.replace('_', '-')}" for kind in ("keys", "tls")
    }


@EVERY_ORGANISATION
def test_what_is_rendered_fits_the_schemas_of_kubernetes(organisation: str) -> None:
    documents = rendered(organisation)
    assert len(documents) > len(ORGANISATIONS[organisation])
    for document in documents:
        kubernetes_validate.validate(document, "1.30", strict=True)
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate({**document, "unknown": 1}, "1.30", strict=True)


@EVERY_ORGANISATION
def test_an_organisation_has_its_own_services_and_secrets_and_no_secret_is_in_the_documents(organisation: str) -> None:
    documents = rendered(organisation)
    made = list(pods(documents))
    assert {pod.service for pod in made} - {""} == set(ORGANISATIONS[organisation])
    assert {one["metadata"].get("namespace", f"tacit-{organisation}") for one in documents} == {f"tacit-{organisation}"}
    assert not of_kind(documents, "Secret", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Ingress")
    own = {f"{kind}-{service.replace('_', '-')}" for service in ORGANISATIONS[organisation] for kind in ("keys", "tls")}
    for pod in made:
        used = set(secrets_of(pod))
        if pod.component == "server":
            name = pod.service.replace("_", "-")
            database = {"database-url"} if pod.service in MANY else set()
            assert used == {f"keys-{name}", f"tls-{name}"} | database
            assert used <= own | {"database-url"}
        elif pod.component == "backup":
            assert used == ({"database-url"} if pod.service in MANY else set()), "a backup needs no key"
        else:
            assert used == {"database"}
        images = {one["image"] for one in pod.spec["containers"]}
        assert len(images) == 1
        if pod.service:
            assert images == {f"localhost/tacit-{IMAGES.get(pod.service, pod.service)}:{__version__}"}


IMAGES = {"recipe_server": "log", "collector": "analyst", "admin": "analyst"}


@EVERY_ORGANISATION
def test_every_pod_meets_the_restricted_standard_and_more(organisation: str) -> None:
    (space,) = of_kind(rendered(organisation), "Namespace")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for pod in pods(rendered(organisation)):
        spec, context = pod.spec, pod.spec["securityContext"]
        assert not {"hostNetwork", "hostPID", "hostIPC", "serviceAccountName", "initContainers"} & set(spec)
        assert spec["automountServiceAccountToken"] is False
        assert context["runAsNonRoot"] is True
        assert context["runAsUser"] == context["runAsGroup"] == context["fsGroup"] > 0
        assert context["fsGroupChangePolicy"] == "OnRootMismatch", "files in a volume keep their modes"
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        kinds = {kind for volume in spec["volumes"] for kind in volume} - {"name"}
        assert kinds <= {"projected", "configMap", "persistentVolumeClaim", "emptyDir"}
        for volume in spec["volumes"]:
            assert volume.get("projected", {}).get("defaultMode", 0o400) == 0o400
        for one in spec["containers"]:
            assert one["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert {"requests", "limits"} <= set(one["resources"])
            assert {"cpu", "memory"} == set(one["resources"]["limits"])
            assert not any("hostPort" in port for port in one.get("ports", []))
            assert not any("secretKeyRef" in str(entry) for entry in one.get("env", []))


def test_policies_admit_the_legs_of_the_protocol_and_nothing_else() -> None:
    documents = everything()
    policies = of_kind(documents, "NetworkPolicy")
    made = list(pods(documents))
    readers = [
        Pod("", "prometheus", f"tacit-{name}", {"app.kubernetes.io/name": "prometheus"}, {}) for name in ORGANISATIONS
    ]
    parties = [*made, *readers, OUTSIDE]
    found = {
        (name_of(caller), name_of(called), port)
        for caller in parties
        for called in parties
        for port in (HTTPS, METRICS, POSTGRES, 22, 443)
        if caller is not called and admitted(policies, caller, called, port)
    }
    legs = {(caller, called, HTTPS) for caller, called in SERVICE_CALLS if caller != DEVICES}
    assert {called for caller, called in SERVICE_CALLS if caller == DEVICES} < set(PUBLIC)
    legs |= {("outside", called, HTTPS) for called in PUBLIC}
    legs |= {(f"prometheus of {SERVICES[service]}", service, METRICS) for service in SERVICES}
    for service in MANY:
        database = f"database of {SERVICES[service]}"
        legs |= {(service, database, POSTGRES), (f"backup of {service}", database, POSTGRES)}
    assert found == legs


def name_of(pod: Pod) -> str:
    if pod.name == "prometheus" or pod.labels.get("app.kubernetes.io/component") == "database":
        return f"{pod.name} of {pod.namespace.removeprefix('tacit-')}"
    if pod is OUTSIDE:
        return "outside"
    return pod.service if pod.component == "server" else f"backup of {pod.service}"


def test_names_are_asked_of_the_cluster_alone() -> None:
    for document in of_kind(everything(), "NetworkPolicy"):
        for rule in document["spec"].get("egress", []):
            if {entry["port"] for entry in rule["ports"]} == {53}:
                assert [peer["podSelector"]["matchLabels"] for peer in rule["to"]] == [{"k8s-app": "kube-dns"}]
            assert rule["to"], "no rule goes everywhere"


@EVERY_ORGANISATION
def test_whatever_serves_can_be_found_is_protected_from_disruption_and_has_time_to_end(organisation: str) -> None:
    documents = rendered(organisation)
    made = list(pods(documents))
    claims = {one["metadata"]["name"] for one in of_kind(documents, "PersistentVolumeClaim")}
    settings = {one["metadata"]["name"] for one in of_kind(documents, "ConfigMap")}
    for pod in made:
        used = {
            one["persistentVolumeClaim"]["claimName"] for one in pod.spec["volumes"] if "persistentVolumeClaim" in one
        }
        assert used <= claims
        assert {one["configMap"]["name"] for one in projected(pod) if "configMap" in one} <= settings
        if pod.component == "backup":
            continue
        budgets = [
            one for one in of_kind(documents, "PodDisruptionBudget") if selects(one["spec"]["selector"], pod.labels)
        ]
        assert len(budgets) == 1
        found = [
            one
            for one in of_kind(documents, "Service")
            if selects({"matchLabels": one["spec"]["selector"]}, pod.labels)
        ]
        assert [one["metadata"]["name"] for one in found] == [pod.name]
        if not pod.service:
            continue
        (server,) = pod.spec["containers"]
        assert pod.spec["terminationGracePeriodSeconds"] > shipped(pod.service).drain_seconds + 2 * GRACE_SECONDS
        assert server["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "https", "scheme": "HTTPS"}
        assert server["livenessProbe"]["httpGet"]["path"] == server["startupProbe"]["httpGet"]["path"] == "/healthz"
        assert {port["name"]: port["containerPort"] for port in server["ports"]} == {"https": HTTPS, "metrics": METRICS}
        exposed = found[0]["spec"].get("type") == "LoadBalancer"
        callers = {caller for caller, called in SERVICE_CALLS if called == pod.service}
        foreign = {caller for caller in callers if SERVICES.get(caller) != organisation}
        assert exposed == bool(foreign), "reached from outside where somebody outside calls it"
        assert [port["port"] for port in found[0]["spec"]["ports"]] == [443], "metrics are behind no service"


@EVERY_ORGANISATION
def test_one_process_has_a_database_file_to_itself_and_several_grow_with_their_work(organisation: str) -> None:
    documents = rendered(organisation)
    scaled = {one["spec"]["scaleTargetRef"]["name"] for one in of_kind(documents, "HorizontalPodAutoscaler")}
    for one in of_kind(documents, "Deployment", "StatefulSet"):
        (pod,) = pods([one])
        if pod.component == "database":
            continue
        several = pod.service in (*MANY, "relay")
        assert (one["kind"] == "Deployment") == several == (pod.name in scaled)
        assert one["spec"].get("replicas") == (None if several else 1), "an autoscaler's number is not set back"
    shared = {
        one["metadata"]["name"]: one["spec"]["accessModes"] for one in of_kind(documents, "PersistentVolumeClaim")
    }
    for service in ORGANISATIONS[organisation]:
        if service != "relay":
            modes = ["ReadWriteMany"] if service in MANY else ["ReadWriteOnce"]
            assert shared[f"state-{service.replace('_', '-')}"] == modes, "the mark is one file for all of them"
    backed = {pod.service for pod in pods(documents) if pod.component == "backup"}
    assert backed == set(ORGANISATIONS[organisation]) - {"relay"}
