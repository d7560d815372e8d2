"""Names of the ways in which a fleet's contributions arrive; ``infra.lab.devices.arrivals`` defines them."""

from __future__ import annotations

import enum


class Profile(enum.StrEnum):
    """The arrival processes by name."""

    STEADY = "steady"
    BURST = "burst"
    DIURNAL = "diurnal"
    CHURN = "churn"
