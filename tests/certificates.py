"""Certificates for servers and their callers, made on the spot."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY
from infra.base.certificates import LOOPBACK, CertificateAuthority

LIFETIME = 3600


class Authority:
    """A certificate authority that lives in a folder."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder / name
        self._authority = CertificateAuthority.create(name, time.time(), LIFETIME)
        self._authority.save(self._folder)
        self.certificate = self._folder / CA_FILE

    def issue(
        self, name: str, addresses: Sequence[str] = LOOPBACK, names: Sequence[str] = (), lifetime: int = LIFETIME
    ) -> tuple[Path, Path]:
        """Certificate and key files for ``name``, further ``names`` and ``addresses``; made anew by every call."""
        folder = self._folder / name
        self._authority.issue(folder, (name, *names), time.time(), lifetime, addresses)
        return folder / CERTIFICATE, folder / KEY
