"""TLS of a local stack (``tacit up --tls``): the names in certificates, and which caller each service admits.

Every service, every server and the operator has a certificate of the stack's own authority
(``infra.base.certificates``) in its folder, with the authority's beside it. Services present theirs when they call, and
admit only callers whose name they know (``tacit.service.http.callers``). Each start of the stack makes new
certificates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY

AUTHORITY = "authority"
OPERATOR = "analyst"
"""Folder of the certificate that an operator's commands present."""
_ROLES = {
    "issuer_client": "attester",
    "gateway_client": "relay",
    "gateway_uploads": "gateway",
    "gateway_reports": "gateway",
    "gateway_bundles": "gateway",
    "messages": "shuffler",
    "mixed_reports": "shuffler",
    "aggregates": "collector",
    "results": "collector",
    "collections": "admin",
}
"""The roles whose name differs from that of their credential, by credential."""
_IN_PEER_FILE = ("leader", "helper", "leader")
"""Caller, service and role of the one leg whose credential is not in the list."""
CLIENT_FILES = {"peer_ca": CA_FILE, "client_cert": CERTIFICATE, "client_key": KEY}
"""The members of every service's configuration that name its TLS files as a client."""


def party_name(folder: str, operators: Mapping[str, str]) -> str:
    """Return the DNS name by which a party is known to the services that it calls."""
    host = "operator" if folder == OPERATOR else folder.replace("_", "-")
    return f"{host}.{operators.get(folder, operators['recipe_server'])}"


def listen_files(
    service: str, credentials: Mapping[str, tuple[str, str]], operators: Mapping[str, str], folder: str = ""
) -> dict[str, Any]:
    """Return the TLS members of a service's ``listen``, with the callers that ``credentials`` lists for it; the files
    are in ``folder``."""
    legs = [(caller, target, _role(name)) for name, (caller, target) in credentials.items()]
    names: dict[str, list[str]] = {}
    for caller, target, role in (*legs, _IN_PEER_FILE):
        known = names.setdefault(role, []) if target == service else []
        if party_name(caller, operators) not in known:
            known.append(party_name(caller, operators))
    files: dict[str, Any] = {"tls_cert": f"{folder}{CERTIFICATE}", "tls_key": f"{folder}{KEY}"}
    return {**files, "client_ca": f"{folder}{CA_FILE}", "client_names": names} if names else files


def client_files(folder: str) -> dict[str, str]:
    """``CLIENT_FILES`` below ``folder``, which is empty or ends with a slash."""
    return {member: f"{folder}{file}" for member, file in CLIENT_FILES.items()}


def _role(credential: str) -> str:
    return "operator" if credential.startswith("operator_") else _ROLES.get(credential, credential)
