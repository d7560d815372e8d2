"""Names of the files of a certificate, its key and its authority in a party's folder (``infra.base.certificates``)."""

from __future__ import annotations

from pathlib import Path

CA_FILE = "ca.pem"
CERTIFICATE, KEY = "tls.pem", "tls.key"


def is_certified(folder: Path) -> bool:
    """Whether a server's folder holds a certificate; such a server speaks TLS only."""
    return (folder / CERTIFICATE).exists()
