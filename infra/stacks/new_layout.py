"""Creates a local stack on disk (``infra.stacks.layout``).

It makes everything that real organisations would exchange once: peer file, bearer tokens, pinned keys.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from infra.base.free_ports import free_ports
from infra.base.service_names import SERVICES, witness_name
from infra.stacks.certificates import certify_services
from infra.stacks.layout import Layout, write_index
from infra.stacks.metrics import metrics_place
from infra.stacks.options import (
    ACCOUNT,
    ANY_MESSAGES,
    ATTRIBUTES,
    CREDENTIALS,
    KEY_ROTATION,
    OPERATORS,
    SERVERS,
    StackOptions,
    address_of,
    bearer_token,
    credentials_of,
    operator_credential,
)
from infra.stacks.parties import StackParties, make_parties
from infra.stacks.people import ADMIN, make_people, write_admin_files
from infra.stacks.service_configs import ServiceConfigs
from infra.stacks.tls import OPERATOR, client_files, listen_files
from services.gateway.keys import KeyRing
from tacit.adapters.disk.files import replace_file
from tacit.codec import b64url
from tacit.ports import Entropy
from tacit.recipe.policy import UPLOADS, upload_limits
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.signing import generate_signing_key
from tacit.tlog.checkpoint import COSIGNATURE, NoteKey
from tacit.tokens.software_root import SoftwareRoot

SIGNERS = ("analyst", "log", "issuer", "gateway", *SERVERS)


def create_layout(state_dir: Path, options: StackOptions, entropy: Entropy, now: float) -> Layout:
    """Create all keys, credentials and configurations of a new stack below ``state_dir``, and return its layout."""
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
        replace_file(policy_path, json.dumps(policy, indent=1).encode())
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
            parties_members=parties.members(),
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
            **({"max_messages": ANY_MESSAGES} if self._options.counted else {}),
            **self._release_limits(),
            **upload_limits(self._options.max_upload or UPLOADS[0]),
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

    def _release_limits(self) -> dict[str, Any]:
        most, caps = self._options.release_cap, ("max_epsilon_aggregator", "max_epsilon_half_batch")
        return {f"{cap}{suffix}": most for cap in caps for suffix in ("", "_with_relay")} if most else {}

    def _witness_limit(self) -> dict[str, Any]:
        keys = [key.encode() for key in self._witnesses.values()]
        return {"witnesses": {"keys": keys, "k": len(keys), "max_age_seconds": 86_400}} if keys else {}

    def _credentials_for_all(self) -> None:
        """Make a bearer token for each caller at each service, with a copy in the folders of both."""
        for name, holders in credentials_of(self._ports).items():
            token = bearer_token(self._entropy)
            for holder in holders:
                write_secret(self._dir / holder / f"{name}.token", token)
            self._credentials[name] = self._dir / holders[0] / f"{name}.token"

    def _admin(self, parties: StackParties) -> None:
        """Write the files that the admin service has besides its configuration."""
        write_admin_files(self._dir / ADMIN, parties, self._keys["analyst"])
        keys = make_people(self._dir / ADMIN, self._dir / OPERATOR, lambda: bearer_token(self._entropy))
        self._credentials.update(keys)


def write_config(
    state_dir: Path, name: str, ports: tuple[int, int], options: StackOptions, configs: ServiceConfigs
) -> Path:
    """Write the configuration of the service ``name`` into its folder, and return its path. ``ports``: the service's
    port, and that of its metrics."""
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
    replace_file(path, json.dumps(body, indent=1).encode())
    return path


def renew_certificates(layout: Layout, now: float) -> None:
    """In a stack with TLS, write new certificates for all services; running services load them at once."""
    if layout.options.tls:
        options = layout.options
        addresses = {name: address_of(name, options) for name in layout.services} if options.network else {}
        certify_services(layout.state_dir, layout.services, OPERATORS, now, addresses, options.tls_folder)
