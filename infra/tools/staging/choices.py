"""What a person chooses for a whole deployment: how its organisations are kept apart, and what drives its devices."""

from __future__ import annotations

import enum


class Mode(enum.StrEnum):
    """How the organisations are kept apart."""

    PROCESSES = "processes"
    NAMESPACES = "namespaces"
    CONTAINERS = "containers"


class Driver(enum.StrEnum):
    """What makes devices read the log."""

    POLLING = "polling"
    MQTT = "mqtt"
    BOTH = "both"
