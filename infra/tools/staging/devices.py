"""The devices of a staging deployment on disk: a folder for each; the devices of one host process share a parent
folder.

``staging/host-1/0`` is a device of the first host, ``staging/single/500`` one with a process of its own. A host starts
and stops the devices that appear and disappear below its folder, and so does the code that runs the single processes,
so devices join and leave by changes of files. A device that leaves keeps its journal; only its configuration is
renamed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.backing.backing_servers import announcements_of
from infra.stacks.agents import CONFIG_NAME, provision_devices
from infra.stacks.layout import Layout
from infra.tools.staging.natures import Natures, natures_in
from tacit.adapters.disk.folder_lock import alone_in
from tacit.errors import UsageError
from tacit.ports import Entropy

FOLDER = "staging"
HOST = "host-{}"
SINGLE = "single"
LEFT = "left.json"
"""File name of the configuration of a device that left."""
LOCK = "devices.lock"


@dataclass(frozen=True)
class Devices:
    """The devices below ``folder``. What is there now is looked up at each call: devices join and leave meanwhile."""

    folder: Path

    @classmethod
    def of(cls, state_dir: Path) -> Devices:
        return cls(state_dir / FOLDER)

    @property
    def hosts(self) -> list[Path]:
        """The folder of each process that runs several devices, in the order of their numbers."""
        found = [path for path in self.folder.glob(HOST.format("*")) if path.is_dir()]
        return sorted(found, key=lambda path: int(path.name.rpartition("-")[2]))

    @property
    def hosted(self) -> list[Path]:
        """Folders of the devices that hosts run, by the devices' numbers."""
        return _sort_by_number(path.parent for host in self.hosts for path in host.glob(f"*/{CONFIG_NAME}"))

    @property
    def single(self) -> list[Path]:
        """Folders of devices with a process of their own."""
        return _sort_by_number(path.parent for path in self.folder.glob(f"{SINGLE}/*/{CONFIG_NAME}"))

    @property
    def folders(self) -> list[Path]:
        """Folders of all devices that have not left, by the devices' numbers."""
        return _sort_by_number([*self.hosted, *self.single])

    @property
    def configs(self) -> list[Path]:
        """Configurations of all devices that ever existed, including those that left."""
        found = [path for name in (CONFIG_NAME, LEFT) for path in self.folder.glob(f"*/*/{name}")]
        return sorted(found, key=lambda path: int(path.parent.name))

    @property
    def present(self) -> int:
        """Number of devices that have not left."""
        return len(self.folders)

    def populate(
        self,
        layout: Layout,
        agents: int,
        single: int,
        per_host: int,
        natures: Natures,
        entropy: Entropy,
        now: float,
    ) -> None:
        """Make devices until there are ``agents``, of which at most ``single`` have a process of their own, and as many
        hosts as needed to hold the others, ``per_host`` each; existing devices stay. ``natures``: properties of new
        devices, including those that join later. Raises ``UsageError``."""
        natures.write(self.folder)
        missing = max(0, agents - self.present)
        alone = min(max(0, single - len(self.single)), missing)
        more = missing - alone
        for number in range(1, math.ceil((len(self.hosted) + more) / per_host) + 1):
            (self.folder / HOST.format(number)).mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._alone():
            self._add(layout, [*[self.folder / SINGLE] * alone, *self._in_hosts(more)], entropy, now)

    def join(self, layout: Layout, count: int, entropy: Entropy, now: float) -> None:
        """Add ``count`` devices to the hosts that have the fewest. Raises ``UsageError`` if there is no host."""
        with self._alone():
            self._add(layout, self._in_hosts(count), entropy, now)

    def leave(self, count: int, entropy: Entropy) -> None:
        """Make ``count`` randomly drawn devices leave. Raises ``UsageError``."""
        with self._alone():
            for folder in self._some(count, "leave", entropy):
                (folder / CONFIG_NAME).rename(folder / LEFT)

    def restart(self, count: int, entropy: Entropy) -> None:
        """Make ``count`` randomly drawn devices end and start again. Raises ``UsageError``."""
        with self._alone():
            for folder in self._some(count, "start again", entropy):
                (folder / CONFIG_NAME).touch()

    def _in_hosts(self, count: int) -> list[Path]:
        """The hosts for ``count`` new devices, those with the fewest first. Raises ``UsageError``."""
        load = {host: len(list(host.glob(f"*/{CONFIG_NAME}"))) for host in self.hosts}
        if count and not load:
            raise UsageError("there is no host for new devices here; start with more devices than --single")
        places = []
        for _ in range(count):
            host = min(load, key=lambda one: load[one])
            load[host] += 1
            places.append(host)
        return places

    def _add(self, layout: Layout, places: Sequence[Path], entropy: Entropy, now: float) -> None:
        """Make a new device in each of ``places``, with the remembered natures."""
        # A folder for a new device in each of `places`; none gets a number that another device has or had
        first = 1 + max((int(path.parent.name) for path in self.configs), default=-1)
        folders = [place / str(number) for number, place in enumerate(places, first)]
        natures = natures_in(self.folder).of(folders, announcements_of(layout), entropy)
        provision_devices(layout, folders, entropy, now, natures)

    def _some(self, count: int, what: str, entropy: Entropy) -> Sequence[Path]:
        present = self.folders
        if count > len(present):
            raise UsageError(f"{count} devices cannot {what}: there are {len(present)}")
        return sorted(present, key=lambda _folder: entropy(8))[:count]

    def _alone(self) -> contextlib.AbstractContextManager[None]:
        return alone_in(self.folder, LOCK, "devices are joining or leaving just now; try again")


def _sort_by_number(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=lambda path: int(path.name))
