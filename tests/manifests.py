"""The documents for Kubernetes as ``kubectl kustomize`` renders them, and who can reach whom under their policies."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.conftest import ROOT, skip_or_fail

PLACE = ROOT / "infra" / "kubernetes"
ORGANISATIONS = {
    folder.name: tuple(sorted(path.parent.name for path in folder.glob("*/kustomization.yaml")))
    for folder in sorted((PLACE / "organisations").iterdir())
}
"""The services of each organisation, by the folders of its overlay."""
Document = Mapping[str, Any]
_POD_IN = {"CronJob": ("spec", "jobTemplate", "spec", "template"), "": ("spec", "template")}


@dataclass(frozen=True)
class Pod:
    """One kind of pod: what ``kind`` of document makes it, its ``namespace``, ``labels`` and ``spec``."""

    kind: str
    name: str
    namespace: str
    labels: Mapping[str, str]
    spec: Mapping[str, Any]

    @property
    def component(self) -> str:
        """``server``, ``backup`` or ``database``."""
        return self.labels["app.kubernetes.io/component"]

    @property
    def service(self) -> str:
        """The Tacit service that the pod runs, or the empty text."""
        return self.labels.get("tacit/service", "")


@cache
def rendered(organisation: str) -> tuple[Document, ...]:
    """The documents of one organisation's overlay; skips where there is no kubectl."""
    kubectl = shutil.which("kubectl") or "kubectl"
    if "Kustomize Version: v5" not in _said_by(kubectl, "version", "--client"):
        skip_or_fail("kubectl", "no kubectl with kustomize 5 on PATH (Kubernetes 1.27 or newer)")
    documents = _said_by(kubectl, "kustomize", str(PLACE / "organisations" / organisation))
    return tuple(yaml.load_all(documents, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def _said_by(program: str, *words: str) -> str:
    if shutil.which(program) is None:
        return ""
    done = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of_kind(documents: Iterable[Document], *kinds: str) -> list[Document]:
    """The documents of these kinds, in order."""
    return [one for one in documents if one["kind"] in kinds]


def pods(documents: Iterable[Document]) -> Iterator[Pod]:
    """The pods that the documents create."""
    for one in of_kind(documents, "Deployment", "StatefulSet", "CronJob"):
        template: Any = one
        for step in _POD_IN.get(one["kind"], _POD_IN[""]):
            template = template[step]
        meta = one["metadata"]
        yield Pod(one["kind"], meta["name"], meta["namespace"], template["metadata"]["labels"], template["spec"])


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector fits; ``In`` is the one expression that is used."""
    wanted = selector.get("matchLabels", {})
    expressions = selector.get("matchExpressions", [])
    assert set(selector) <= {"matchLabels", "matchExpressions"}
    assert all(one["operator"] == "In" for one in expressions)
    return all(labels.get(name) == value for name, value in wanted.items()) and all(
        labels.get(one["key"]) in one["values"] for one in expressions
    )


OUTSIDE = Pod("", "outside", "", {}, {})
"""Some address that is no pod's."""


def admitted(policies: Sequence[Document], caller: Pod, called: Pod, port: int) -> bool:
    """Whether a connection is: by the policies of the caller's side and of the called's."""
    return _passes(policies, "Egress", caller, called, port) and _passes(policies, "Ingress", called, caller, port)


def _passes(policies: Sequence[Document], direction: str, one: Pod, other: Pod, port: int) -> bool:
    """Whether ``one`` may, as far as policies that select it say."""
    mine = [
        policy["spec"]
        for policy in policies
        if policy["metadata"]["namespace"] == one.namespace
        and direction in policy["spec"]["policyTypes"]
        and selects(policy["spec"]["podSelector"], one.labels)
    ]
    peers = "to" if direction == "Egress" else "from"
    return not mine or any(
        port in [entry["port"] for entry in rule["ports"] if entry.get("protocol", "TCP") == "TCP"]
        and any(_is_peer(peer, one.namespace, other) for peer in rule[peers])
        for spec in mine
        for rule in spec.get(direction.lower(), [])
    )


def _is_peer(peer: Mapping[str, Any], namespace: str, other: Pod) -> bool:
    if "ipBlock" in peer:
        return peer["ipBlock"] in ({"cidr": "0.0.0.0/0"}, {"cidr": "::/0"})
    if other is OUTSIDE:
        return False
    there = {"kubernetes.io/metadata.name": other.namespace}
    inside = selects(peer["namespaceSelector"], there) if "namespaceSelector" in peer else other.namespace == namespace
    return inside and selects(peer["podSelector"], other.labels)
