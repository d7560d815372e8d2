"""The parts of a local stack's configurations that differ from service to service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.stacks.agent_configs import usual_check_in
from infra.stacks.options import ANY_MESSAGES, KEY_ROTATION, OPERATORS, StackOptions
from tacit.ohttp import SIZE_CLASSES
from tacit.tlog.checkpoint import NoteKey

APPROVER_DELAY_SECONDS = 60
"""Delay before a changed approver counts: short, because a trial cannot wait for a day."""
RELEASE_GRACE = 5.0
"""Seconds in which a report crosses a stack on one machine."""

DEVICES_READ = ("/v1/bundle", "/v1/hashes", "/v1/models")
"""What devices read of the recipe server; nothing else of it is reached anonymously."""


@dataclass(frozen=True)
class ServiceConfigs:
    """The data that configurations are made from: ``urls`` by service, cosigning keys of the ``witnesses`` by name,
    ``gateway_key`` in base64url."""

    options: StackOptions
    urls: Mapping[str, str]
    log_key: str
    gateway_key: str
    policy: dict[str, Any]
    witnesses: Mapping[str, NoteKey]

    def own(self, name: str) -> dict[str, Any]:
        """Return the members of a service's configuration that are specific to it."""
        if name in self.witnesses:
            return self._witness(name)
        made: dict[str, Any] = getattr(self, f"_{name}")()
        return made

    def _witness(self, name: str) -> dict[str, Any]:
        return {
            "name": self.witnesses[name].name,
            "signing_key": "signing.key",
            "logs": [{"key": self.log_key, "url": self.urls["recipe_server"]}],
        }

    def _recipe_server(self) -> dict[str, Any]:
        return {
            "log_name": "tacit.example/log",
            "log_key": "signing.key",
            "policy": self.policy,
            "accept_late_directories": True,
            "collector_token": "results.token",
            "witnesses": [{"url": self.urls[name], "key": self.witnesses[name].encode()} for name in self.witnesses],
        }

    def _issuer(self) -> dict[str, Any]:
        return {
            "name": OPERATORS["issuer"],
            "signing_key": "signing.key",
            "attester_credential": "issuer_client.token",
            "recipe_server_url": self.urls["recipe_server"],
            "request_uri": f"{self.urls['issuer']}/token-request",
            "epoch_seconds": self.options.epoch_seconds,
            "slots_per_epoch": self.options.slots_per_epoch,
            "directory_max_age": min(3600, self.options.epoch_seconds // 4),
            "idle_seconds": self.options.idle_seconds,
        }

    def _attester(self) -> dict[str, Any]:
        return {
            "issuer_url": self.urls["issuer"],
            "issuer_credential": "issuer_client.token",
            "software_roots": ["device-root.pem"],
        }

    def _large(self, member: str) -> dict[str, int]:
        """The ``member`` that limits requests with reports, where it is not the usual one."""
        return {} if self.options.max_upload <= SIZE_CLASSES[-1] else {member: self.options.max_upload}

    def _gateway(self) -> dict[str, Any]:
        return {
            **self._large("max_request"),
            "operator": OPERATORS["gateway"],
            "signing_key": "signing.key",
            "relay_bearer": "gateway_client.token",
            "rotation_seconds": KEY_ROTATION,
            "recipe_server_url": self.urls["recipe_server"],
            "targets": [
                {
                    "origin": self.urls["leader"],
                    "path_prefix": "/tasks/",
                    "methods": ["POST"],
                    "bearer": "gateway_uploads.token",
                    "frames": True,
                },
                {
                    "origin": self.urls["analyzer"],
                    "path_prefix": "/recipes/",
                    "methods": ["POST"],
                    "bearer": "gateway_reports.token",
                },
                {
                    "origin": self.urls["shuffler"],
                    "path_prefix": "/recipes/",
                    "methods": ["POST"],
                    "bearer": "gateway_bundles.token",
                },
                *(
                    {"origin": self.urls["recipe_server"], "path_prefix": path, "methods": ["GET"]}
                    for path in DEVICES_READ
                ),
            ],
        }

    def _relay(self) -> dict[str, Any]:
        return {
            **self._large("max_request"),
            "gateway_url": self.urls["gateway"],
            "gateway_bearer": "gateway_client.token",
            "log": {
                "url": self.urls["recipe_server"],
                "key": self.log_key,
                "gateway": OPERATORS["gateway"],
                "signing_key": self.gateway_key,
                "poll_seconds": 5 * self.options.poll_seconds,
            },
        }

    def _aggregator(self, name: str) -> dict[str, Any]:
        return {
            "operator": OPERATORS[name],
            "signing_key": "signing.key",
            "hpke_keys": ["hpke.key"],
            "peer_file": "peer.json",
            "state_keys": ["state.key"],
            **self._log_members(),
        }

    def _leader(self) -> dict[str, Any]:
        limits = {"job_size": self.options.job_size, "idle_seconds": self.options.idle_seconds}
        own = {
            "collector_token": "collector.token",
            "gateway_tokens": ["gateway_uploads.token"],
            "shuffler_token": "mixed_reports.token",
            "limits": limits,
            **self._large("max_body"),
        }
        return {**self._aggregator("leader"), **own}

    def _helper(self) -> dict[str, Any]:
        return self._aggregator("helper")

    def _analyzer(self) -> dict[str, Any]:
        own = {
            "state_keys": ["state.key"],
            "collector_token": "aggregates.token",
            "shuffler_token": "messages.token",
            "gateway_tokens": ["gateway_reports.token"],
        }
        return {**self._one_server("analyzer"), **own}

    def _shuffler(self) -> dict[str, Any]:
        own = {
            "analyzer_token": "messages.token",
            "leader_token": "mixed_reports.token",
            "gateway_tokens": ["gateway_bundles.token"],
        }
        counted = {"most_messages": ANY_MESSAGES} if self.options.counted else {}
        return {**self._one_server("shuffler"), **own, **counted}

    def _log_members(self) -> dict[str, Any]:
        """The log that a service follows, and the policy by which it judges recipes."""
        log = {
            "url": self.urls["recipe_server"],
            "key": self.log_key,
            "poll_seconds": self.options.poll_seconds,
        }
        return {"log": log, "policy": self.policy}

    def _one_server(self, name: str) -> dict[str, Any]:
        return {
            "operator": OPERATORS[name],
            "signing_key": "signing.key",
            "hpke_keys": ["hpke.key"],
            "release_grace": RELEASE_GRACE,
            "idle_seconds": self.options.idle_seconds,
            **self._log_members(),
        }

    def _collector(self) -> dict[str, Any]:
        return {
            "hpke_keys": ["hpke.key"],
            "leader_token": "collector.token",
            "analyzer_token": "aggregates.token",
            "admin_token": "collections.token",
            "publish": {"url": self.urls["recipe_server"], "token": "results.token"},
            "idle_seconds": self.options.idle_seconds,
            **self._log_members(),
        }

    def _admin(self) -> dict[str, Any]:
        return {
            "parties": "parties.json",
            "analyst_key": "analyst.key",
            "people": "people.json",
            "approver_delay_seconds": APPROVER_DELAY_SECONDS,
            "epoch_seconds": self.options.epoch_seconds,
            "check_in_seconds": usual_check_in(self.options),
            "collector": {"url": self.urls["collector"], "token": "collections.token"},
            **self._log_members(),
        }
