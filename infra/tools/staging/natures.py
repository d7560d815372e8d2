"""Properties of new devices of a staging deployment: how many have wrong clocks, and what makes them read the log.

Which devices these are is drawn at random, independently for each property. The properties are stored next to the
devices, so that devices that join later are drawn in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, model_validator

from client_agent.config import Announcements
from client_agent.limits import MAX_CLOCK_ERROR
from infra.stacks.agents import Nature
from infra.tools.staging.choices import Driver
from tacit.backoff import uniform
from tacit.errors import UsageError
from tacit.ports import Entropy
from tacit.service.base.config_files import Frozen, load_config
from tacit.service.base.secret_files import write_secret

FILE = "natures.json"
MQTT_POLL_SECONDS = 60.0
"""Least seconds between two polls of a device that listens to a broker."""


class Natures(Frozen):
    """Properties of devices that are made from now on."""

    clock_skew: float = Field(default=0.0, ge=0, le=MAX_CLOCK_ERROR, allow_inf_nan=False)
    """Seconds by which wrong clocks are wrong; half of them are ahead and half behind."""
    skewed: float = Field(default=0.0, ge=0, le=1, allow_inf_nan=False)
    """The share of the devices with a wrong clock."""
    driven_by: Driver = Driver.POLLING
    """What makes devices read the log; ``both``: half of the devices each."""

    @model_validator(mode="after")
    def _together(self) -> Natures:
        if bool(self.clock_skew) != bool(self.skewed):
            raise ValueError("wrong clocks need both: by how much they are wrong, and the share of devices")
        return self

    def write(self, folder: Path) -> None:
        """Store the properties in ``folder``, which is made if needed, for the devices that join later."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_secret(folder / FILE, self.model_dump_json().encode())

    def of(self, folders: Sequence[Path], announcements: Announcements | None, entropy: Entropy) -> dict[Path, Nature]:
        """The drawn properties of the devices in ``folders``; ``announcements``: those of the broker, if there is one.
        Raises ``UsageError`` if a broker is needed and there is none."""
        wrong = _some(folders, self.skewed, entropy)
        ahead = set(_some(wrong, 0.5, entropy))
        errors = {folder: self.clock_skew if folder in ahead else -self.clock_skew for folder in wrong}
        share = {Driver.POLLING: 0.0, Driver.MQTT: 1.0, Driver.BOTH: 0.5}[self.driven_by]
        if share and announcements is None:
            raise UsageError(f"devices driven by {self.driven_by} need a broker; start with --with mosquitto")
        listening = set(_some(folders, share, entropy))
        return {
            folder: Nature(
                clock_error=errors.get(folder, 0.0),
                announcements=announcements if folder in listening else None,
                least_poll_seconds=MQTT_POLL_SECONDS if folder in listening else 0.0,
            )
            for folder in folders
        }


def natures_in(folder: Path) -> Natures:
    """The properties stored in ``folder``. Raises ``UsageError`` for a malformed file."""
    path = folder / FILE
    return load_config(path, Natures) if path.exists() else Natures()


def _some(folders: Sequence[Path], share: float, entropy: Entropy) -> list[Path]:
    """That ``share`` of ``folders``, drawn at random; the fraction of a device is rounded at random, too."""
    if share == 0:
        return []
    exact = share * len(folders)
    whole = math.floor(exact)
    count = whole + (uniform(entropy, 0.0, 1.0) < exact - whole)
    return sorted(folders, key=lambda _folder: entropy(8))[:count]
