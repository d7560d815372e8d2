"""Ready-made devices for a local stack: identity, configuration and one row of data each.

The data are drawn at random: how often somebody saw a doctor last year, with the mean of the RAND Health Insurance
Experiment, and whether an app crashed. The attributes, language and operating system, are drawn too.
"""

from __future__ import annotations

import itertools
import json
import math
import os
from bisect import bisect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from client_agent.config import AgentConfig, Announcements
from infra.stacks.agent_configs import agent_config
from infra.stacks.layout import Layout
from infra.stacks.options import ATTRIBUTES
from tacit.backoff import uniform
from tacit.errors import DecodeError, UsageError
from tacit.ports import Entropy
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.tokens.software_root import SoftwareRoot

CONFIG_NAME = "agent.json"
DRAFT_NAME = ".agent.new"
DATA_NAME = "data.csv"
DRAWN_NAME = "drawn.json"
"""What was drawn for a device: as long as its data is that, it is nobody's."""
MEAN_VISITS = 2.86
MOST_VISITS = 20
CRASH_RATE = 0.1
SHARES = {"locale": (0.5, 0.3, 0.2), "os": (0.6, 0.4)}
"""For each attribute of a stack, the share of devices with each value, in the order of the values."""


@dataclass(frozen=True)
class Nature:
    """What distinguishes a device: the error of its clock in seconds (positive: fast), the broker that it listens to,
    and the shortest pause in seconds between two reads of the log."""

    clock_error: float = 0.0
    announcements: Announcements | None = None
    least_poll_seconds: float = 0.0

    def upon(self, config: AgentConfig) -> AgentConfig:
        """Return ``config`` changed for a device of this nature."""
        poll = max(config.timing.poll_seconds, self.least_poll_seconds)
        changes = {
            "clock_error_seconds": self.clock_error,
            "announcements": self.announcements,
            "timing": config.timing.model_copy(update={"poll_seconds": poll}),
        }
        return config.model_copy(update=changes)


PLAIN = Nature()


def provision_agents(layout: Layout, count: int, entropy: Entropy, now: float) -> list[Path]:
    """Make the devices 0 to ``count`` - 1 below ``{state_dir}/agents``, where they are missing, and return the
    configuration files of all of them."""
    folders = [layout.state_dir / "agents" / str(number) for number in range(count)]
    provision_devices(layout, folders, entropy, now)
    return [folder / CONFIG_NAME for folder in folders]


def provision_devices(
    layout: Layout,
    folders: Sequence[Path],
    entropy: Entropy,
    now: float,
    natures: Mapping[Path, Nature] = MappingProxyType({}),
) -> None:
    """Make a device in each of ``folders`` that holds none, named after its folder. Its files belong to the owner of
    the parent folder, and its configuration is written last. ``natures`` lists the devices that are not ``PLAIN``."""
    missing = [folder for folder in folders if not (folder / CONFIG_NAME).exists()]
    if missing:
        authority = _authority(layout.device_authority)
        for folder in missing:
            _provision(layout, authority, folder, natures.get(folder, PLAIN), entropy, now)


def _authority(path: Path) -> SoftwareRoot:
    try:
        return SoftwareRoot.from_pem(read_secret(path))
    except DecodeError as error:
        raise UsageError(f"{path}: {error}") from error


def _provision(
    layout: Layout, authority: SoftwareRoot, folder: Path, nature: Nature, entropy: Entropy, now: float
) -> None:
    device = authority.issue(f"device-{folder.name}", entropy, now)
    owner = folder.parent.stat() if folder.parent.exists() else None
    write_secret(folder / "identity.pem", device.to_pem())
    visits, crashed = _visits(entropy), int(uniform(entropy, 0.0, 1.0) < CRASH_RATE)
    data = {"mdvis": str(visits), "crashed": str(crashed)}
    (folder / DATA_NAME).write_text(f"{','.join(data)}\n{','.join(data.values())}\n", encoding="utf-8")
    attributes = {name: _one_of(values, SHARES[name], entropy) for name, values in ATTRIBUTES.items()}
    (folder / DRAWN_NAME).write_text(json.dumps({"data": data, "attributes": attributes}), encoding="utf-8")
    config = agent_config(layout, folder, {"kind": "csv", "path": folder / DATA_NAME}, attributes=attributes)
    write_secret(folder / DRAFT_NAME, json.dumps(_relative(nature.upon(config), folder), indent=1).encode())
    if owner is not None and owner.st_uid != os.geteuid():
        for path in (folder, *folder.iterdir()):
            os.chown(path, owner.st_uid, owner.st_gid)
    (folder / DRAFT_NAME).rename(folder / CONFIG_NAME)


def _relative(config: AgentConfig, folder: Path) -> dict[str, Any]:
    """``config`` as JSON with paths relative to ``folder``, so that a stack's folder can be moved."""
    document: dict[str, Any] = config.model_dump(mode="json", exclude_none=True)
    document["state_dir"] = "."
    document["attestation"] = {"identity": os.path.relpath(config.attestation.identity, folder)}
    if config.tls_ca is not None:
        document["tls_ca"] = os.path.relpath(config.tls_ca, folder)
    if config.announcements is not None and config.announcements.tls_ca is not None:
        document["announcements"]["tls_ca"] = os.path.relpath(config.announcements.tls_ca, folder)
    document["policy"] = os.path.relpath(config.policy, folder)
    document["source"] = {"kind": "csv", "path": DATA_NAME}
    return document


def _one_of(values: Sequence[str], shares: Sequence[float], entropy: Entropy) -> str:
    """One of ``values``, drawn with the probabilities ``shares``, which sum to 1; the last one has what rounding
    leaves."""
    place = bisect(list(itertools.accumulate(shares)), uniform(entropy, 0.0, 1.0))
    return values[min(place, len(values) - 1)]


def _visits(entropy: Entropy) -> int:
    """A draw from the geometric distribution on 0, 1, ... with mean ``MEAN_VISITS``, capped at ``MOST_VISITS``."""
    stay = MEAN_VISITS / (1 + MEAN_VISITS)
    return min(MOST_VISITS, int(math.log1p(-uniform(entropy, 0.0, 1.0)) / math.log(stay)))
