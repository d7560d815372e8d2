"""Configuration of the attester."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.service.config import ConfigPath, ServiceConfig


class AttesterConfig(ServiceConfig):
    """``issuer_url`` is the issuer's base URL, without a slash at its end.

    ``issuer_credential`` is a 0600 file with the bearer token for the issuer; without it ``client_cert`` speaks for the
    attester. Without ``operator_token``, a 0600 file, nobody may read the counts.
    ``software_roots`` are PEM files of trusted roots for evidence of format ``software-root``; ``revocations`` is a
    text file with one SHA-256 (hex) of a revoked certificate's SubjectPublicKeyInfo per line, read again when it
    changes. Durations are in seconds.
    """

    issuer_url: str
    issuer_credential: ConfigPath | None = None
    operator_token: ConfigPath | None = None
    software_roots: Annotated[tuple[ConfigPath, ...], Field(min_length=1)]
    revocations: ConfigPath | None = None
    challenge_seconds: Annotated[int, Field(ge=1, le=3600)] = 300
    quota_grace_seconds: Annotated[int, Field(ge=0)] = 86400
    group_items: Annotated[int, Field(ge=1, le=1024)] = 256
    group_delay: Annotated[float, Field(ge=0, le=1)] = 0.0
    idle_seconds: Annotated[float, Field(gt=0)] = 10.0
