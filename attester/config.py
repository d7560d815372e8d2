"""Configuration of the attester."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.service.config import ConfigPath, ServiceConfig


class AttesterConfig(ServiceConfig):
    """The attester."""

    issuer_url: str
    """The issuer's base URL, without a final slash."""
    issuer_credential: ConfigPath | None = None
    """File (0600) with the bearer token for the issuer; without it ``client_cert`` speaks for the attester."""
    software_roots: Annotated[tuple[ConfigPath, ...], Field(min_length=1)]
    """PEM files of trusted roots for evidence of format ``software-root``."""
    revocations: ConfigPath | None = None
    """Text file with one SHA-256 (hex) of a revoked certificate's SubjectPublicKeyInfo per line, read again when it
    changes."""
    challenge_seconds: Annotated[int, Field(ge=1, le=3600)] = 300
    """For how long a challenge is good."""
    quota_grace_seconds: Annotated[int, Field(ge=0)] = 86400
    """For how long after an epoch it is remembered who had tokens of it."""
    group_items: Annotated[int, Field(ge=1, le=1024)] = 256
    """Most requests that are written down in one transaction."""
    group_delay: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Seconds for which they wait for others to be written down with."""
    idle_seconds: Annotated[float, Field(gt=0)] = 10.0
    """Pause between two rounds of forgetting what is over."""
