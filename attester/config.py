"""Configuration of the attester."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath


class AttesterConfig(ServiceConfig):
    """The attester's configuration file."""

    issuer_url: str
    """The issuer's base URL, without a final slash."""
    issuer_credential: ConfigPath | None = None
    """File (0600) with the bearer token for the issuer; without it the attester authenticates with ``client_cert``."""
    software_roots: Annotated[tuple[ConfigPath, ...], Field(min_length=1)]
    """PEM files of trusted roots for evidence of format ``software-root``."""
    revocations: ConfigPath | None = None
    """Text file of revoked keys: one SHA-256 (hex) of a certificate's SubjectPublicKeyInfo per line. The file is read
    again when it changes."""
    challenge_seconds: Annotated[int, Field(ge=1, le=3600)] = 300
    """Lifetime of a challenge in seconds."""
    quota_grace_seconds: Annotated[int, Field(ge=0)] = 86400
    """Seconds after the end of an epoch for which the attester remembers which devices had tokens of it."""
    group_items: Annotated[int, Field(ge=1, le=1024)] = 256
    """Most requests that are recorded in one transaction."""
    group_delay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Seconds that a request may wait for others to be recorded in the same transaction."""
    idle_seconds: Annotated[float, Field(gt=0)] = 10.0
    """Seconds between two rounds of deleting expired challenges and quotas."""
