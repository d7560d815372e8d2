"""Who calls whom: the legs of the protocol by service, the one table of them.

Networks of a staging stack and the network policies for Kubernetes admit these and no others (tests compare).
"""

from __future__ import annotations

DEVICES = "devices"
LEGS = (
    (DEVICES, "relay"),
    (DEVICES, "attester"),
    ("attester", "issuer"),
    ("relay", "gateway"),
    ("relay", "recipe_server"),
    ("gateway", "leader"),
    ("gateway", "analyzer"),
    ("gateway", "recipe_server"),
    ("issuer", "recipe_server"),
    ("leader", "helper"),
    ("leader", "recipe_server"),
    ("helper", "recipe_server"),
    ("analyzer", "recipe_server"),
    ("collector", "leader"),
    ("collector", "analyzer"),
    ("collector", "recipe_server"),
    ("admin", "collector"),
    ("admin", "recipe_server"),
    ("recipe_server", "witness"),
    ("witness", "recipe_server"),
)
"""Caller and called. Besides, an organisation's own people call its services."""
PUBLIC = ("relay", "attester", "recipe_server")
"""What anybody may call: devices two of them, and the log whoever doubts it."""
