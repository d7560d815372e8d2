"""What Leader and Helper are both configured with. Secrets stand in files of their own, readable by their owner."""

from __future__ import annotations

from pydantic import Field

from tacit.errors import DecodeError, UsageError
from tacit.multibuffer import BatchCrypto
from tacit.recipe.policy import Policy
from tacit.roles.crypto import JobCrypto
from tacit.service.backends import AnnouncerConfig
from tacit.service.config import ConfigPath, Frozen, ServiceConfig
from tacit.tlog.checkpoint import NoteKey


class LogConfig(Frozen):
    """The transparency log: the recipe server's public URL, and the log's key as a signed-note key."""

    url: str
    key: str
    poll_seconds: float = Field(default=10.0, gt=0)

    def note_key(self) -> NoteKey:
        """The pinned key; raises ``UsageError``."""
        try:
            return NoteKey.decode(self.key)
        except DecodeError as error:
            raise UsageError(f"log.key: {error}") from error


class AggregatorConfig(ServiceConfig):
    """Either aggregator. ``hpke_keys``: the preferred one first. ``collector_token`` and ``operator_token`` are bearer
    tokens that may read status; a collector's also creates collection jobs, which is for Leaders alone."""

    operator: str
    prefix: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    """Path below which the resources hang: that of this aggregator's URL in the recipes."""
    signing_key: ConfigPath
    hpke_keys: tuple[ConfigPath, ...] = Field(min_length=1)
    peer_file: ConfigPath
    old_peer_files: tuple[ConfigPath, ...] = ()
    collector_token: ConfigPath | None = None
    operator_token: ConfigPath | None = None
    log: LogConfig
    announcer: AnnouncerConfig | None = None
    """The broker that says when the log grew."""
    policy: Policy = Policy()
    retention: float = Field(default=30 * 86400.0, ge=0)
    """Seconds after a task's end for which its results, report ids and nullifiers are kept (P9)."""
    void_seconds: float = Field(default=7 * 86400.0, ge=0)
    """Seconds after a task's end in which a batch may still be released. What was not is then closed for good, and the
    log hears so (P22); at the latest at the end of ``retention``."""
    max_body: int = Field(default=16 << 20, gt=0)
    """Largest request body in bytes."""
    batch_crypto: bool = False
    """Open the shares of a job together in vector registers where the processor can: several times faster, and this
    project's own code then handles the HPKE private key (``tacit.multibuffer.hpke``). Tokens, which hold no secret, are
    always checked together."""

    def job_crypto(self) -> JobCrypto:
        """The public-key work of a job as configured."""
        return BatchCrypto(batch_hpke=self.batch_crypto)
