"""The names of the services, in a stack and for ``tacit serve``."""

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
    "shuffler": ("services.shuffler", "ShufflerConfig"),
    "collector": ("services.collector", "CollectorConfig"),
    "admin": ("services.admin", "AdminConfig"),
    "witness": ("services.witness", "WitnessConfig"),
}
"""By service: its package, and the name of its configuration model."""
WITNESS = "witness"
KINDS = tuple(MODULES)
"""The kinds of service that ``tacit serve`` can run."""
SERVICES = tuple(name for name in KINDS if name != WITNESS)
"""The services of every stack, in the order in which they are started: none needs a later one to get ready. A stack may
have witnesses after them; ``Layout.services`` lists all."""


def witness_name(number: int) -> str:
    """Return the name of a stack's witness; ``number`` counts from 1."""
    return f"{WITNESS}_{number}"


def kind_of(name: str) -> str:
    """Return the kind of a stack's service: ``witness`` for ``witness_2``, otherwise its name."""
    return WITNESS if name.startswith(f"{WITNESS}_") else name
