"""How the contributions of a fleet arrive, by name; ``infra.lab.devices.arrivals`` says what each means."""

from __future__ import annotations

import enum


class Profile(enum.StrEnum):
    """The arrival processes by name."""

    STEADY = "steady"
    BURST = "burst"
    DIURNAL = "diurnal"
    CHURN = "churn"
