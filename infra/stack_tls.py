"""TLS of a local stack (``tacit up --tls``): who is called what in its certificate, and who may call whom by it.

Every service, server and the operator has a certificate of the stack's own authority (``infra.certificates``) in its
folder, with the authority's beside it; services show theirs when they call, and let nobody in whose name is not that of
the caller they know (``tacit.service.callers``). Each start of the stack makes new ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from infra.certificates import AUTHORITY_LIFETIME, CA_FILE, CERTIFICATE, KEY, CertificateAuthority, certify

AUTHORITY = "authority"
OPERATOR = "analyst"
"""The folder of the certificate that an operator's commands show."""
_ROLES = {
    "issuer_client": "attester",
    "gateway_client": "relay",
    "gateway_uploads": "gateway",
    "gateway_reports": "gateway",
    "aggregates": "collector",
    "results": "collector",
    "collections": "admin",
}
"""Roles that are not called as their credential is."""
_IN_PEER_FILE = ("leader", "helper", "leader")
"""Caller, service and role of the one whose credential is elsewhere."""
CLIENT_FILES = {"peer_ca": CA_FILE, "client_cert": CERTIFICATE, "client_key": KEY}
"""Of every service's configuration."""


def party_name(folder: str, operators: Mapping[str, str]) -> str:
    """The DNS name by which a party is known to those it calls."""
    host = "operator" if folder == OPERATOR else folder.replace("_", "-")
    return f"{host}.{operators.get(folder, operators['recipe_server'])}"


def listen_files(
    service: str, credentials: Mapping[str, tuple[str, str]], operators: Mapping[str, str], folder: str = ""
) -> dict[str, Any]:
    """What a service's ``listen`` says of TLS, from who presents which credential where; files are in ``folder``."""
    legs = [(caller, target, _role(name)) for name, (caller, target) in credentials.items()]
    names: dict[str, list[str]] = {}
    for caller, target, role in (*legs, _IN_PEER_FILE):
        known = names.setdefault(role, []) if target == service else []
        if party_name(caller, operators) not in known:
            known.append(party_name(caller, operators))
    files: dict[str, Any] = {"tls_cert": f"{folder}{CERTIFICATE}", "tls_key": f"{folder}{KEY}"}
    return {**files, "client_ca": f"{folder}{CA_FILE}", "client_names": names} if names else files


def client_files(folder: str) -> dict[str, str]:
    """``CLIENT_FILES`` in ``folder``."""
    return {member: f"{folder}{file}" for member, file in CLIENT_FILES.items()}


def _role(credential: str) -> str:
    return "operator" if credential.startswith("operator_") else _ROLES.get(credential, credential)


def authority_of(state_dir: Path, now: float) -> CertificateAuthority:
    """The stack's authority, made at its first use. Raises ``UsageError``."""
    folder = state_dir / AUTHORITY
    if not (folder / CA_FILE).exists():
        CertificateAuthority.create("tacit local stack", now, AUTHORITY_LIFETIME).save(folder)
    return CertificateAuthority.load(folder)


def certify_services(
    state_dir: Path,
    services: Iterable[str],
    operators: Mapping[str, str],
    now: float,
    addresses: Mapping[str, str],
    tls_folder: str = "",
) -> None:
    """A new certificate for each service, in ``tls_folder`` of its own, and for the operator; ``addresses``: where
    services are beside loopback. Raises ``UsageError``."""
    authority = authority_of(state_dir, now)
    for folder in (*services, OPERATOR):
        names = [party_name(folder, operators), "localhost"]
        place = state_dir / folder / ("" if folder == OPERATOR else tls_folder)
        certify(place, authority, names, now, [addresses[folder]] if folder in addresses else [])
