"""Configuration of parties that take reports, and of Leader and Helper in addition. Secrets are in separate files,
readable by their owner only."""

from __future__ import annotations

from pydantic import Field

from tacit.errors import DecodeError, UsageError
from tacit.multibuffer.crypto import BatchCrypto
from tacit.recipe.policy import Policy
from tacit.roles.crypto import JobCrypto
from tacit.service.base.backends import AnnouncerConfig
from tacit.service.base.config import ServiceConfig
from tacit.service.base.config_files import ConfigPath, Frozen
from tacit.tlog.checkpoint import NoteKey


class LogConfig(Frozen):
    """The transparency log that a party follows."""

    url: str
    """The recipe server's public URL, without a trailing slash."""
    key: str
    """The log's key as a signed-note key (name+id+base64), pinned."""
    poll_seconds: float = Field(default=10.0, gt=0)
    """Seconds between two checks whether the log has grown."""

    def note_key(self) -> NoteKey:
        """The pinned key; raises ``UsageError``."""
        try:
            return NoteKey.decode(self.key)
        except DecodeError as error:
            raise UsageError(f"log.key: {error}") from error


class FollowingConfig(ServiceConfig):
    """A party that follows the log, opts in to recipes and takes reports."""

    operator: str
    """The operator's name in recipes and opt-ins."""
    prefix: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    """Path below which the resources are served: the path of this party's URL in the recipes."""
    signing_key: ConfigPath
    """File (0600) with the Ed25519 key that signs opt-ins (base64url of 32 bytes)."""
    hpke_keys: tuple[ConfigPath, ...] = Field(min_length=1)
    """Files (0600) with the HPKE keys that reports are sealed to, the preferred one first, or folders of such files, of
    which the last by name is preferred. They are read again when they change; keep old ones while their recipes run."""
    collector_token: ConfigPath | None = None
    """File (0600) with the collector's bearer token: with it the collector requests results from the party that
    collects, and may read which recipes are served and how far their batches are filled."""
    log: LogConfig
    """The log whose recipes this party follows."""
    announcer: AnnouncerConfig | None = None
    """The broker that announces that the log has grown."""
    policy: Policy = Policy()
    """What this party requires of a recipe before it opts in."""
    retention: float = Field(default=30 * 86400.0, ge=0)
    """Seconds after a task's end for which its results, report ids and nullifiers are kept (P9)."""
    void_seconds: float = Field(default=7 * 86400.0, ge=0)
    """Seconds after a task's end in which a batch may still be released. A task without a release is then closed for
    good, and a void leaf is logged (P22); at the latest at the end of ``retention``."""
    max_body: int = Field(default=16 << 20, gt=0)
    """Largest request body in bytes."""
    batch_crypto: bool = False
    """Open reports in batches with vector instructions where the processor supports them: several times faster, but
    this project's own code then handles the HPKE private key (``tacit.multibuffer.hpke``). Tokens, which hold no
    secret, are always checked in batches."""

    def job_crypto(self) -> JobCrypto:
        """The public-key operations on reports, as configured."""
        return BatchCrypto(batch_hpke=self.batch_crypto)


class AggregatorConfig(FollowingConfig):
    """Configuration of either aggregator. Only Leaders have a collector that asks for batches."""

    peer_file: ConfigPath
    """File (0600) that leader and helper share and nobody else has: the seed of the verify keys, which is read at
    start, and the leader's bearer token at the helper, which is read again when the file changes."""
    old_peer_files: tuple[ConfigPath, ...] = ()
    """Earlier peer files, for recipes whose opt-ins name their seed."""
    state_keys: tuple[ConfigPath, ...] = ()
    """Files (0600) with the private keys to which devices of pan-private recipes encrypt their state; keep old ones
    while their recipes run. Without one, recipes of that model are refused."""
