"""What a local stack may be told, and what all of them have: its operators, credentials and attributes."""

from __future__ import annotations

from dataclasses import dataclass

from infra.deployables import witness_name

MAX_WITNESSES = 9
OPERATORS = {
    "recipe_server": "analyst.example",
    "issuer": "issuer.example",
    "attester": "attester.example",
    "gateway": "analyst.example",
    "relay": "relay.example",
    "leader": "leader.example",
    "helper": "helper.example",
    "collector": "analyst.example",
    **{witness_name(number): f"witness-{number}.example" for number in range(1, MAX_WITNESSES + 1)},
}
ACCOUNT = "default"
"""The one privacy account of a local stack: that of ``tacit recipe new``."""
ATTRIBUTES = {"locale": ("de", "en", "fr"), "os": ("linux", "mac")}
"""By which the recipes of a local stack may choose their audience; its devices have them."""
KEY_ROTATION = 30 * 86400
OPERATED = ("collector", "leader", "helper", "attester", "issuer")
"""The services that an operator asks for what nobody else may see."""
CREDENTIALS = {
    "issuer_client": ("attester", "issuer"),
    "gateway_client": ("relay", "gateway"),
    "gateway_uploads": ("gateway", "leader"),
    "collector": ("collector", "leader"),
    "results": ("collector", "recipe_server"),
    **{f"operator_{name}": ("analyst", name) for name in OPERATED},
}
"""Bearer tokens by name: who presents one, and the one service that it opens. (The Leader's for the Helper is in their
peer file.)"""


@dataclass(frozen=True)
class StackOptions:
    """What differs between the demo and a staging stack. ``batch_floor`` is the policies' least B; ``unbounded_local``:
    whether they accept noise shares; ``min_audience``: how many devices a census must attest for a recipe with
    criteria; the three of ``account`` are what the one privacy account allows in any period of so many seconds, and
    what the stack's own devices charge against; ``witnesses``: how many cosign its log, all of which its policies
    demand, for by one of two a log can split its readers; ``tls``: whether every leg is TLS, with certificates of the
    stack's own authority."""

    epoch_seconds: int = 86400
    slots_per_epoch: int = 2
    batch_floor: int = 100
    poll_seconds: float = 1.0
    idle_seconds: float = 0.5
    job_size: int = 256
    unbounded_local: bool = False
    min_audience: int = 20
    account_epsilon: str = "10"
    account_delta: str = "0.00001"
    account_seconds: int = 365 * 86400
    witnesses: int = 0
    tls: bool = False
