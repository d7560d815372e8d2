"""Upgrades older stacks when they are started: adds an admin service, and a credential for each service's operator."""

from __future__ import annotations

import json
from dataclasses import replace
from urllib.parse import urlsplit

from infra.base.free_ports import free_ports
from infra.base.remembered_servers import amend_config
from infra.base.service_names import SERVICES
from infra.stacks.layout import Layout, write_index
from infra.stacks.new_layout import write_config
from infra.stacks.options import CREDENTIALS, OPERATORS, bearer_token, operator_credential
from infra.stacks.people import ADMIN, make_people, write_admin_files
from infra.stacks.service_configs import ServiceConfigs
from infra.stacks.tls import OPERATOR, listen_files
from tacit.errors import UsageError
from tacit.ports import Entropy
from tacit.service.base.keys import read_signing_key
from tacit.service.base.secret_files import write_secret

CREDENTIAL = "collections"
"""The credential that the admin service presents to the collector."""


def with_admin(layout: Layout, entropy: Entropy) -> Layout:
    """Return ``layout`` with an admin service, adding one if it is missing. The index is written last, so that an
    interrupted upgrade is repeated. Raises ``UsageError`` for a stack that lacks other services too."""
    if ADMIN in layout.configs:
        return layout
    lacking = [name for name in SERVICES if name not in layout.configs and name != ADMIN]
    if lacking:
        raise UsageError(f"{layout.state_dir}: this stack has no {lacking[0]}; choose another --state-dir")
    folder, ports = layout.state_dir / ADMIN, free_ports(2)
    scheme = urlsplit(layout.urls["collector"]).scheme
    urls = {**layout.urls, ADMIN: f"{scheme}://127.0.0.1:{ports[0]}"}
    policy = json.loads(layout.policy_path.read_text("utf-8"))
    made = ServiceConfigs(layout.options, urls, layout.log_key, "", policy, {})
    write_admin_files(folder, layout.all_parties, read_signing_key(layout.analyst_key))
    keys = make_people(folder, layout.state_dir / OPERATOR, lambda: bearer_token(entropy))
    _let_into_collector(layout, bearer_token(entropy))
    config = write_config(layout.state_dir, ADMIN, (ports[0], ports[1]), layout.options, made)
    token = {CREDENTIAL: folder / f"{CREDENTIAL}.token"}
    configs = {name: layout.configs[name] for name in SERVICES if name != ADMIN} | {ADMIN: config}
    configs |= {name: path for name, path in layout.configs.items() if name not in configs}
    grown = replace(layout, urls=urls, configs=configs, credentials={**layout.credentials, **token, **keys})
    write_index(grown)
    return grown


def with_operators(layout: Layout, entropy: Entropy) -> Layout:
    """Return ``layout`` with an operator's credential for each service, adding those that are missing. The index is
    written last."""
    fresh = {}
    for service, config in layout.configs.items():
        name = operator_credential(service)
        if name in layout.credentials and "operator_token" in json.loads(config.read_text("utf-8")):
            continue
        token = bearer_token(entropy)
        for holder in (OPERATOR, service):
            write_secret(layout.state_dir / holder / f"{name}.token", token)
        amend_config(config, operator_token=f"{name}.token")
        fresh[name] = layout.state_dir / OPERATOR / f"{name}.token"
    if not fresh:
        return layout
    grown = replace(layout, credentials={**layout.credentials, **fresh})
    write_index(grown)
    return grown


def _let_into_collector(layout: Layout, token: bytes) -> None:
    for holder in CREDENTIALS[CREDENTIAL]:
        write_secret(layout.state_dir / holder / f"{CREDENTIAL}.token", token)
    path = layout.configs["collector"]
    amend_config(path, admin_token=f"{CREDENTIAL}.token")
    if layout.options.tls:
        listen = json.loads(path.read_text("utf-8"))["listen"]
        amend_config(path, listen={**listen, **listen_files("collector", CREDENTIALS, OPERATORS)})
