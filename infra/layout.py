"""Lays out a local stack: one folder per trust domain, each with its own keys, credentials and configuration.

Everything that real organisations would exchange once (peer file, bearer tokens, pinned keys) is made here; the
services themselves only ever see their own folder. A layout is made once and loaded afterwards.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from client_agent.config import AgentConfig
from infra.certificates import CA_FILE
from infra.deployables import SERVICES, witness_name
from infra.service_configs import ServiceConfigs
from infra.stack_metrics import metrics_place
from infra.stack_options import (
    ACCOUNT,
    ATTRIBUTES,
    CREDENTIALS,
    KEY_ROTATION,
    OPERATORS,
    StackOptions,
    address_of,
    bearer_token,
    credentials_of,
    operator_credential,
)
from infra.stack_parties import StackParties, make_parties
from infra.stack_people import ADMIN, make_people, write_admin_files
from infra.stack_tls import AUTHORITY, CLIENT_FILES, OPERATOR, certify_services, client_files, listen_files
from services.gateway.keys import KeyRing
from tacit.adapters.http import HttpTransport
from tacit.adapters.tls import ClientTls
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.models.forms.parties import Parties
from tacit.models.forms.secure_aggregation import SecureAggregationParties
from tacit.ports import Entropy
from tacit.service.config import write_secret
from tacit.service.keys import read_signing_key, write_signing_key
from tacit.service.live_tokens import first_token
from tacit.signing import SigningKey, generate_signing_key
from tacit.tlog.checkpoint import COSIGNATURE, NoteKey
from tacit.tokens.software_root import SoftwareRoot

__all__ = [
    "ATTRIBUTES",
    "CREDENTIALS",
    "INDEX",
    "KEY_ROTATION",
    "OPERATORS",
    "Layout",
    "StackOptions",
    "create_layout",
    "free_ports",
    "load_layout",
    "renew_certificates",
    "signing_key_of",
    "write_config",
    "write_index",
]
STAGED = {"late_seconds": 1e6, "resume_seconds": 0.0}
LONGEST_POLL_SECONDS, POLLS_IN_EPOCH = 60.0, 60
"""How often a stack's devices look at the log: as real ones do, or more often where epochs are short."""
INDEX = "stack.json"
SERVERS = ("leader", "helper", "analyzer")
"""Who opts in to recipes, and takes reports."""
SIGNERS = ("analyst", "log", "issuer", "gateway", *SERVERS)
PORTS = range(16_384, 32_768)
PORT_STRIDE = 997
_candidates = (PORTS[(os.getpid() * PORT_STRIDE + number) % len(PORTS)] for number in itertools.count())


@dataclass(frozen=True)
class Layout:
    """A stack on disk. ``urls`` and ``configs`` by service name; ``credentials`` by name."""

    state_dir: Path
    options: StackOptions
    urls: dict[str, str]
    configs: dict[str, Path]
    credentials: dict[str, Path]
    all_parties: StackParties
    log_key: str
    gateway_key_config: str
    gateway_key_period: int
    policy_path: Path = field(default=Path())

    @property
    def parties(self) -> SecureAggregationParties:
        """Those of model ``secure-aggregation``."""
        return self.all_parties.base

    def parties_of(self, model: str) -> Parties:
        """Those of recipes of ``model``. Raises ``UsageError`` where the stack has none."""
        return self.all_parties.of(model)

    @property
    def services(self) -> tuple[str, ...]:
        """Every service of the stack, witnesses included, in the order in which they are started."""
        return tuple(self.configs)

    @property
    def analyst_key(self) -> Path:
        """The analyst's signing key."""
        return self.state_dir / "analyst" / "signing.key"

    @property
    def client_tls(self) -> ClientTls:
        """Whom an operator's commands trust, and what they show."""
        if not self.options.tls:
            return ClientTls()
        folder = self.state_dir / OPERATOR
        return ClientTls(*(folder / name for name in CLIENT_FILES.values()))

    def transport(self, **options: Any) -> HttpTransport:
        """A client for an operator's commands; ``options`` of ``HttpTransport``. Close it."""
        return HttpTransport(tls=self.client_tls, **options)

    def operator_token(self, service: str) -> str:
        """The operator's bearer token for ``service``; each service has one of its own. Raises ``UsageError``."""
        if (found := self.credentials.get(operator_credential(service))) is None:
            raise UsageError(f"the {service} of this stack has no operator's resources")
        return first_token(found)

    @property
    def device_authority(self) -> Path:
        """The authority that provisions software-root devices."""
        return self.state_dir / "vendor" / "authority.pem"

    def _agents_poll(self, *, staged: bool) -> float:
        """Seconds between a device's looks at the log: 60 in an epoch, a minute apart at most, and not too many for a
        stack whose parties look more rarely."""
        often = 0.0 if staged else min(LONGEST_POLL_SECONDS, self.options.epoch_seconds / POLLS_IN_EPOCH)
        return max(2 * self.options.poll_seconds, 2.0, often)

    def agent_config(
        self,
        state_dir: Path,
        source: dict[str, Any],
        *,
        join_late: bool = True,
        attributes: Mapping[str, str] | None = None,
        staged: bool = False,
    ) -> AgentConfig:
        """The configuration of one device of this stack, its files below ``state_dir``. ``staged``: its clock is moved
        on in steps, and what is due by then goes out then."""
        issuer, gateway = self.parties.issuer, self.parties.gateway
        return AgentConfig.model_validate(
            {
                "state_dir": state_dir,
                "log_key": self.log_key,
                "issuer": {
                    "name": issuer.name,
                    "signing_key": issuer.signing_key,
                    "epoch_seconds": self.options.epoch_seconds,
                },
                "gateway": {
                    "name": gateway.operator,
                    "signing_key": gateway.signing_key,
                    "rotation_seconds": KEY_ROTATION,
                    "period": self.gateway_key_period,
                    "key_config": self.gateway_key_config,
                },
                "relay_url": self.urls["relay"],
                "recipe_server_url": self.urls["recipe_server"],
                "attester_url": self.urls["attester"],
                "attestation": {"identity": state_dir / "identity.pem"},
                "policy": self.policy_path,
                "source": source,
                "budget": {
                    "epsilon": self.options.account_epsilon,
                    "delta": self.options.account_delta,
                    "days": max(1, self.options.account_seconds // 86400),
                },
                "attributes": dict(attributes or {}),
                **({"tls_ca": self.state_dir / AUTHORITY / CA_FILE} if self.options.tls else {}),
                "timing": {"poll_seconds": self._agents_poll(staged=staged), "join_late": join_late}
                | (STAGED if staged else {}),
            }
        )


def load_layout(state_dir: Path) -> Layout:
    """The layout in ``state_dir``. Raises ``UsageError`` where there is none."""
    try:
        index = json.loads((state_dir / INDEX).read_text())
        return Layout(
            state_dir=state_dir,
            options=StackOptions(**index["options"]),
            urls=index["urls"],
            configs={name: state_dir / path for name, path in index["configs"].items()},
            credentials={name: state_dir / path for name, path in index["credentials"].items()},
            all_parties=StackParties.read(index),
            log_key=index["log_key"],
            gateway_key_config=index["gateway_key_config"],
            gateway_key_period=index["gateway_key_period"],
            policy_path=state_dir / "policy.json",
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{state_dir}: no stack here; start one with: tacit up --state-dir {state_dir}") from error


def create_layout(state_dir: Path, options: StackOptions, entropy: Entropy, now: float) -> Layout:
    """Make all keys, credentials and configurations of a new stack below ``state_dir``."""
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _Builder(state_dir.absolute(), options, entropy, now).build()


class _Builder:
    def __init__(self, state_dir: Path, options: StackOptions, entropy: Entropy, now: float) -> None:
        self._dir = state_dir
        self._options = options
        self._entropy = entropy
        self._now = now
        witnesses = tuple(witness_name(number) for number in range(1, options.witnesses + 1))
        services = (*SERVICES, *witnesses)
        ports = free_ports(2 * len(services))
        self._ports = dict(zip(services, ports, strict=False))
        self._metrics = dict(zip(services, ports[len(services) :], strict=True))
        scheme = "https" if options.tls else "http"
        self._urls = {name: f"{scheme}://{address_of(name, options)}:{port}" for name, port in self._ports.items()}
        self._keys = {name: generate_signing_key(entropy) for name in SIGNERS}
        self._witness_keys = {name: generate_signing_key(entropy) for name in witnesses}
        self._witnesses = {
            name: NoteKey(f"{OPERATORS[name]}/tacit", key.public, COSIGNATURE)
            for name, key in self._witness_keys.items()
        }
        self._credentials: dict[str, Path] = {}

    def build(self) -> Layout:
        parties = self._parties()
        policy = self._policy()
        policy_path = self._dir / "policy.json"
        policy_path.write_text(json.dumps(policy, indent=1))
        self._credentials_for_all()
        self._admin(parties)
        keys = self._dir / "gateway" / self._options.state_folder / "ohttp-keys.json"
        ring = KeyRing.open(keys, KEY_ROTATION, self._entropy, self._now)
        authority = SoftwareRoot.create(self._entropy, self._now)
        write_secret(self._dir / "vendor" / "authority.pem", authority.to_pem())
        (self._dir / "attester").mkdir(mode=0o700, exist_ok=True)
        (self._dir / "attester" / "device-root.pem").write_bytes(authority.root_pem)
        log_key = NoteKey("tacit.example/log", self._keys["log"].public).encode()
        made = ServiceConfigs(
            self._options, self._urls, log_key, b64url(self._keys["gateway"].public), policy, self._witnesses
        )
        configs = {
            name: write_config(self._dir, name, (port, self._metrics[name]), self._options, made)
            for name, port in self._ports.items()
        }
        layout = Layout(
            state_dir=self._dir,
            options=self._options,
            urls=self._urls,
            configs=configs,
            credentials=self._credentials,
            all_parties=parties,
            log_key=log_key,
            gateway_key_config=b64url(ring.active.config.encode()),
            gateway_key_period=ring.period,
            policy_path=policy_path,
        )
        renew_certificates(layout, self._now)
        write_index(layout)
        return layout

    def _parties(self) -> StackParties:
        for name, key in self._keys.items():
            folder = "recipe_server" if name == "log" else name
            write_signing_key(self._dir / folder / "signing.key", key)
        for name, key in self._witness_keys.items():
            write_signing_key(self._dir / name / "signing.key", key)
        public = {name: b64url(key.public) for name, key in self._keys.items()}
        return make_parties(self._dir, self._urls, public, self._entropy)

    def _policy(self) -> dict[str, Any]:
        return {
            "min_batch_size": self._options.batch_floor,
            **({"allow_unbounded_local": True} if self._options.unbounded_local else {}),
            **self._witness_limit(),
            "attributes": ATTRIBUTES,
            "min_audience": self._options.min_audience,
            "analysts": {OPERATORS["recipe_server"]: b64url(self._keys["analyst"].public)},
            "issuers": {OPERATORS["issuer"]: b64url(self._keys["issuer"].public)},
            "gateways": {OPERATORS["gateway"]: b64url(self._keys["gateway"].public)},
            "accounts": {
                ACCOUNT: {
                    "epsilon": self._options.account_epsilon,
                    "epsilon_with_relay": f"{2 * Decimal(self._options.account_epsilon):f}",
                    "delta": self._options.account_delta,
                    "window_seconds": self._options.account_seconds,
                }
            },
            "aggregators": {
                OPERATORS[name]: {"url": self._urls[name], "signing_key": b64url(self._keys[name].public)}
                for name in SERVERS
            },
        }

    def _witness_limit(self) -> dict[str, Any]:
        keys = [key.encode() for key in self._witnesses.values()]
        return {"witnesses": {"keys": keys, "k": len(keys), "max_age_seconds": 86_400}} if keys else {}

    def _credentials_for_all(self) -> None:
        """One bearer token for each caller at each service, a copy in either folder."""
        for name, holders in credentials_of(self._ports).items():
            token = bearer_token(self._entropy)
            for holder in holders:
                write_secret(self._dir / holder / f"{name}.token", token)
            self._credentials[name] = self._dir / holders[0] / f"{name}.token"

    def _admin(self, parties: StackParties) -> None:
        """What the admin service has beside its configuration."""
        write_admin_files(self._dir / ADMIN, parties, self._keys["analyst"])
        keys = make_people(self._dir / ADMIN, self._dir / OPERATOR, lambda: bearer_token(self._entropy))
        self._credentials.update(keys)


def write_config(
    state_dir: Path, name: str, ports: tuple[int, int], options: StackOptions, configs: ServiceConfigs
) -> Path:
    """The configuration of the service ``name``, in its folder. ``ports``: its own, and that of its metrics."""
    body: dict[str, Any] = {
        "state_dir": options.state_folder,
        "listen": {
            "host": address_of(name, options),
            "port": ports[0],
            **(listen_files(name, CREDENTIALS, OPERATORS, options.tls_folder) if options.tls else {}),
        },
        "metrics": {**metrics_place(name, options), "port": ports[1]},
        "operator_token": f"{operator_credential(name)}.token",
        **(client_files(options.tls_folder) if options.tls else {}),
        **configs.own(name),
    }
    path = state_dir / name / "config.json"
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text(json.dumps(body, indent=1))
    return path


def write_index(layout: Layout) -> None:
    """What ``load_layout`` reads, at once whole."""

    def relative(paths: dict[str, Path]) -> dict[str, str]:
        return {name: str(path.relative_to(layout.state_dir)) for name, path in paths.items()}

    index = {
        "options": vars(layout.options),
        "urls": layout.urls,
        "configs": relative(layout.configs),
        "credentials": relative(layout.credentials),
        **layout.all_parties.members(),
        "log_key": layout.log_key,
        "gateway_key_config": layout.gateway_key_config,
        "gateway_key_period": layout.gateway_key_period,
    }
    draft = layout.state_dir / f".{INDEX}.new"
    draft.write_text(json.dumps(index, indent=1))
    draft.replace(layout.state_dir / INDEX)


def renew_certificates(layout: Layout, now: float) -> None:
    """New certificates for every service of a stack with TLS, which read them at once if they run."""
    if layout.options.tls:
        options = layout.options
        addresses = {name: address_of(name, options) for name in layout.services} if options.network else {}
        certify_services(layout.state_dir, layout.services, OPERATORS, now, addresses, options.tls_folder)


def free_ports(count: int) -> list[int]:
    """``count`` distinct TCP ports that nothing listens on at this moment.

    They lie below the range from which systems take the ports of outgoing connections, so that none of these can
    take one before its service starts; and each process looks in an order of its own, so that two that lay out
    stacks at the same time do not come upon the same ports.
    """
    found: list[int] = []
    while len(found) < count:
        port = next(_candidates)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            found.append(port)
    return found


def signing_key_of(layout: Layout) -> SigningKey:
    """The analyst's key."""
    return read_signing_key(layout.analyst_key)
