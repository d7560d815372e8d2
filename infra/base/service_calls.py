"""Which service calls which: the only table of the protocol's legs.

The networks of a staging stack and the network policies for Kubernetes admit these legs and no others, as tests check.
"""

from __future__ import annotations

DEVICES = "devices"
SERVICE_CALLS = (
    (DEVICES, "relay"),
    (DEVICES, "attester"),
    ("attester", "issuer"),
    ("relay", "gateway"),
    ("relay", "recipe_server"),
    ("gateway", "leader"),
    ("gateway", "analyzer"),
    ("gateway", "shuffler"),
    ("gateway", "recipe_server"),
    ("issuer", "recipe_server"),
    ("leader", "helper"),
    ("leader", "recipe_server"),
    ("helper", "recipe_server"),
    ("analyzer", "recipe_server"),
    ("shuffler", "analyzer"),
    ("shuffler", "leader"),
    ("shuffler", "recipe_server"),
    ("collector", "leader"),
    ("collector", "analyzer"),
    ("collector", "recipe_server"),
    ("admin", "collector"),
    ("admin", "recipe_server"),
    ("recipe_server", "witness"),
    ("witness", "recipe_server"),
)
"""Pairs of caller and called service. An organisation's own people call its services too."""
PUBLIC = ("relay", "attester", "recipe_server")
"""Services that anybody may call: devices call relay and attester, and auditors read the log."""
