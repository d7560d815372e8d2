"""Makes the configurations of a local stack's devices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from client_agent.config import AgentConfig
from infra.base.certificate_files import CA_FILE
from infra.stacks.layout import Layout
from infra.stacks.options import KEY_ROTATION, StackOptions
from infra.stacks.tls import AUTHORITY

STAGED = {"late_seconds": 1e6, "resume_seconds": 0.0}
LONGEST_POLL_SECONDS, POLLS_IN_EPOCH = 60.0, 15
"""How often a stack's devices read the log: like real ones, or more often if epochs are short. While nothing is asked,
this is most of what many devices cost a machine."""


def agent_config(
    layout: Layout,
    state_dir: Path,
    source: dict[str, Any],
    *,
    join_late: bool = True,
    attributes: Mapping[str, str] | None = None,
    staged: bool = False,
) -> AgentConfig:
    """Return the configuration of one device of the stack, with its files below ``state_dir``. ``staged``: the device's
    clock is moved in steps, and what is due by then is sent after each."""
    issuer, gateway = layout.parties.issuer, layout.parties.gateway
    return AgentConfig.model_validate(
        {
            "state_dir": state_dir,
            "log_key": layout.log_key,
            "issuer": {
                "name": issuer.name,
                "signing_key": issuer.signing_key,
                "epoch_seconds": layout.options.epoch_seconds,
            },
            "gateway": {
                "name": gateway.operator,
                "signing_key": gateway.signing_key,
                "rotation_seconds": KEY_ROTATION,
                "period": layout.gateway_key_period,
                "key_config": layout.gateway_key_config,
            },
            "relay_url": layout.urls["relay"],
            "recipe_server_url": layout.urls["recipe_server"],
            "attester_url": layout.urls["attester"],
            "attestation": {"identity": state_dir / "identity.pem"},
            "policy": layout.policy_path,
            "source": source,
            "budget": {
                "epsilon": layout.options.account_epsilon,
                "delta": layout.options.account_delta,
                "days": max(1, layout.options.account_seconds // 86400),
            },
            "attributes": dict(attributes or {}),
            **({"tls_ca": layout.state_dir / AUTHORITY / CA_FILE} if layout.options.tls else {}),
            "timing": {"poll_seconds": usual_check_in(layout.options, staged=staged), "join_late": join_late}
            | (STAGED if staged else {}),
        }
    )


def usual_check_in(options: StackOptions, *, staged: bool = False) -> float:
    """Return the seconds between a device's reads of the log: an epoch divided by ``POLLS_IN_EPOCH``, at most
    ``LONGEST_POLL_SECONDS``, but no less than 2.0 and twice the pause of the stack's parties."""
    often = 0.0 if staged else min(LONGEST_POLL_SECONDS, options.epoch_seconds / POLLS_IN_EPOCH)
    return max(2 * options.poll_seconds, 2.0, often)
