"""Configuration files: one frozen model per service, safe defaults, unknown keys refused.

Relative paths in a file are taken from the file's own folder, so that a service can be started from anywhere.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tacit.adapters.network.tls import ClientTls
from tacit.service.base.config_files import ConfigPath, Frozen
from tacit.service.base.secret_files import read_database_url


class Limits(Frozen):
    """What a listener allows its clients together, and each of them; see ``tacit.service.http.admission``."""

    connections: int = Field(default=4096, ge=1)
    """Most open connections; never more than half of the file descriptors of the process."""
    requests: int = Field(default=256, ge=1)
    """Most requests that are answered at the same time."""
    share: int = Field(default=4, ge=1)
    """While no other source is connected, a source may use one part in this many of ``requests``."""
    share_in_company: int = Field(default=16, ge=1)
    """The same part of ``requests`` while other sources are connected."""
    receiving_bytes: int = Field(default=64 << 20, ge=1 << 16)
    """Most bytes of requests being received and of answers waiting to be read. Not below the largest body."""
    head_seconds: float = Field(default=20.0, gt=0)
    """Seconds for the TLS handshake and for a request's line and headers."""
    grace_seconds: float = Field(default=10.0, gt=0)
    """Seconds that a body has before ``least_rate`` applies."""
    least_rate: float = Field(default=1024.0, gt=0)
    """Least rate, in bytes per second, at which a body must arrive and an answer must be read."""
    idle_seconds: float = Field(default=75.0, gt=0)
    """Seconds for which a connection without a request is kept open."""
    wait_seconds: float = Field(default=10.0, gt=0)
    """Seconds for which a request waits for its turn before it is told to come back (503)."""
    front_proxies: tuple[str, ...] = ()
    """Addresses of proxies that pass connections on, each with a PROXY line (version 1) that names the client. From
    these addresses the line is required; from others it is an error."""

    def turns_of_one(self, *, alone: bool) -> int:
        """How many requests of one source are answered at a time; ``alone``: while no other is connected."""
        return max(1, self.requests // (self.share if alone else self.share_in_company))


class Listen(Frozen):
    """Where a service listens, and which callers it accepts. The TLS files are read again when they change."""

    host: str = "127.0.0.1"
    """The address on which the service listens."""
    port: int = Field(default=0, ge=0, le=65535)
    """The port; 0 lets the system choose."""
    reuse_port: bool = False
    """Several processes of one user may listen on one port, which is then not 0; the system spreads connections over
    them."""
    tls_cert: ConfigPath | None = None
    """PEM file with the listener's certificate and the intermediate certificates up to the authority; requires
    ``tls_key``."""
    tls_key: ConfigPath | None = None
    """PEM file (0600) of its private key."""
    client_ca: ConfigPath | None = None
    """PEM file of the authority that certifies callers. If set, a caller of a resource that is not public must show a
    certificate of that authority, with a name that ``client_names`` lists for its role."""
    client_names: dict[str, tuple[Annotated[str, Field(min_length=1)], ...]] = Field(default_factory=dict)
    """By role of the service, the DNS or URI names of which a caller's certificate must hold one; ``[]`` asks no
    certificate of that role. With ``client_ca`` every role of the service must be listed
    (``tacit.service.http.callers``).
    """
    limits: Limits = Limits()
    """What clients may use together, and each of them."""

    @model_validator(mode="after")
    def _port_to_share(self) -> Self:
        if self.reuse_port and not self.port:
            raise ValueError("reuse_port needs a port that is not 0")
        return self


BackupKey = Annotated[str, Field(pattern=r"^age1[02-9ac-hj-np-z]{58}$")]


class ServiceConfig(Frozen):
    """Settings of every service. The TLS files are read again when they change."""

    state_dir: ConfigPath
    """The service's own folder: its database, and keys that it makes itself."""
    listen: Listen = Listen()
    """Where it listens, and which callers it accepts."""
    metrics: Listen | None = None
    """A separate listener for ``/metrics``; without it there are no metrics. Off loopback it needs ``client_ca``, and
    names for ``metrics`` in ``client_names``. Of processes that share a configuration by ``listen.reuse_port`` the
    first has its port, and the others get a port from the system; the READY line names it."""
    metrics_of_database: bool = True
    """Whether its metrics include the counts in its database: of several processes with one database, enable it in one.
    Of processes that share a configuration, only the first does."""
    operator_token: ConfigPath | None = None
    """File (0600) with the bearer token of this service's operator: it opens the operators' API on the listener of
    ``metrics``, and the exact counts of services that have them; without it nobody has access."""
    drain_seconds: float = Field(default=0.0, ge=0, le=600)
    """Seconds for which the service, once told to stop, reports that it is not ready but still accepts requests."""
    insecure_http: bool = False
    """Allow plain connections to and from other machines. For tests; never with people's data."""
    storage: Literal["file", "memory"] = "file"
    """``memory`` keeps all state in RAM and loses it on exit (tests, demo)."""
    database_file: ConfigPath | None = None
    """File (0600) with the URL of a PostgreSQL database, which is used instead of the file in ``state_dir``:
    ``postgresql://USER:PASSWORD@HOST:PORT/DATABASE?sslrootcert=FILE``."""
    mark_file: ConfigPath | None = None
    """File of the mark by which a service that records what was spent detects a database from the past. Best placed
    where backups do not restore it, such as on another disk; by default in ``state_dir``."""
    backup_keys: Annotated[tuple[BackupKey, ...], Field(max_length=8)] = ()
    """Public keys (``age1...``) to which ``tacit backup`` encrypts this service's backups; each private key alone
    decrypts them, and lies on no machine that makes them."""
    peer_ca: ConfigPath | None = None
    """PEM file of an additional authority to trust for the services that this one calls."""
    client_cert: ConfigPath | None = None
    """PEM file of the certificate that it shows to the services that it calls; requires ``client_key``."""
    client_key: ConfigPath | None = None
    """PEM file (0600) of its private key."""

    @model_validator(mode="after")
    def _certificate_with_key(self) -> Self:
        if (self.client_cert is None) != (self.client_key is None):
            raise ValueError("client_cert and client_key must be set together")
        return self

    @model_validator(mode="after")
    def _metrics_apart(self) -> Self:
        if self.metrics is not None and self.metrics.port == self.listen.port != 0:
            raise ValueError("metrics need a separate port, which devices do not use")
        return self

    @property
    def client_tls(self) -> ClientTls:
        """Which authorities this service trusts and which certificate it shows when it calls."""
        return ClientTls(self.peer_ca, self.client_cert, self.client_key)

    @model_validator(mode="after")
    def _one_storage(self) -> Self:
        if self.storage == "memory" and self.database_file is not None:
            raise ValueError("database_file and storage memory exclude each other")
        return self

    def database_url(self, name: str) -> str:
        """SQLAlchemy URL of this service's database ``name``: what ``database_file`` holds, or a file
        ``{state_dir}/{name}.sqlite3``. Raises ``UsageError`` for a file that is not secret or holds no such URL."""
        if self.database_file is not None:
            return read_database_url(self.database_file)
        if self.storage == "memory":
            return "sqlite+aiosqlite:///:memory:"
        return f"sqlite+aiosqlite:///{self.state_dir.absolute() / name}.sqlite3"
