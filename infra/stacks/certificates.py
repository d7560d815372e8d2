"""The authority of a local stack, and the certificates that it makes at each start (``infra.stacks.tls``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from infra.base.certificate_files import CA_FILE
from infra.base.certificates import AUTHORITY_LIFETIME, CertificateAuthority, certify
from infra.stacks.tls import AUTHORITY, OPERATOR, party_name


def authority_of(state_dir: Path, now: float) -> CertificateAuthority:
    """Return the stack's authority, which is made at its first use. Raises ``UsageError``."""
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
    """Write a new certificate for each service, into ``tls_folder`` below its folder, and for the operator.
    ``addresses``: the services' addresses other than loopback. Raises ``UsageError``."""
    authority = authority_of(state_dir, now)
    for folder in (*services, OPERATOR):
        names = [party_name(folder, operators), "localhost"]
        place = state_dir / folder / ("" if folder == OPERATOR else tls_folder)
        certify(place, authority, names, now, [addresses[folder]] if folder in addresses else [])
