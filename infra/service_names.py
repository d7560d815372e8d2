"""What the services are called, in a stack and by ``tacit serve``."""

from __future__ import annotations

MODULES = {
    "recipe_server": ("recipe_server", "RecipeServerConfig"),
    "issuer": ("services.issuer", "IssuerConfig"),
    "attester": ("attester", "AttesterConfig"),
    "gateway": ("services.gateway", "GatewayConfig"),
    "relay": ("relay", "RelayConfig"),
    "leader": ("services.leader", "LeaderConfig"),
    "helper": ("services.helper", "HelperConfig"),
    "analyzer": ("services.analyzer", "AnalyzerConfig"),
    "collector": ("services.collector", "CollectorConfig"),
    "admin": ("services.admin", "AdminConfig"),
    "witness": ("services.witness", "WitnessConfig"),
}
"""Where each one's modules are, and its configuration."""
WITNESS = "witness"
KINDS = tuple(MODULES)
"""What ``tacit serve`` can serve."""
SERVICES = tuple(name for name in KINDS if name != WITNESS)
"""Of every stack, in the order in which they are started: nobody needs one that comes later to get ready. A stack may
have witnesses behind them: ``Layout.services`` are all of it."""


def witness_name(number: int) -> str:
    """The name of a stack's witness, from 1 on."""
    return f"{WITNESS}_{number}"


def kind_of(name: str) -> str:
    """What a stack's service is: ``witness`` for ``witness_2``, otherwise its name."""
    return WITNESS if name.startswith(f"{WITNESS}_") else name
