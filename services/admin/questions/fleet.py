"""Counts of a staging deployment's devices, from two small files that ``tacit staging`` writes.

Nobody can count the devices of a real deployment, because no organisation there sees a device. So the counts come only
from a folder on the same machine, never from another service, and without that folder there is nothing to show.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from services.admin.questions.events import Event, Events
from tacit.errors import DecodeError, UsageError
from tacit.service.base.secret_files import read_secret
from tacit.service.documents.admin import Document, PosixSeconds
from tacit.tlog.canonical import parse_json, validate

DEVICES_FILE: Final = "devices.json"
REPORT_FILE: Final = "report.json"
MOST_BYTES: Final = 1 << 17
MOST_RECIPES: Final = 200
"""How many recipes of a report are kept, the newest ones."""
QUIET_SECONDS: Final = 60.0
"""Seconds without news after which the deployment seems to have ended."""

Count = Annotated[int, Field(ge=0, le=10**9, strict=True)]
Word = Annotated[str, Field(pattern=r"^[a-z_-]{1,32}$")]
Hash = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{43}$")]
Told = TypeVar("Told", bound=BaseModel)


class FleetPart(Document):
    """Part of the counts. Unknown members are refused, so that nothing about a single device slips in."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class FleetDevices(FleetPart):
    """The devices at the time ``at``. ``hosts`` and ``single``: processes that run many devices, or one; ``devices``,
    ``working``, ``changing`` and ``failed``: numbers of devices; ``slots_held`` and ``slots_known``: tokens that the
    devices hold, and could hold; ``entries``: entries of their journals, by state."""

    at: PosixSeconds
    mode: Literal["processes", "namespaces"]
    hosts: Count
    single: Count
    devices: Count
    working: Count
    changing: Count
    failed: Count
    slots_held: Count
    slots_known: Count
    entries: dict[Word, Count]


class FleetRecipe(FleetPart):
    """One recipe: its entries in all journals, by state, and the contributions that its releases counted (null if it
    has none)."""

    recipe: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,64}$")]
    hash: Hash
    journalled: dict[Word, Count]
    released: Count | None


class FleetMismatch(FleetPart):
    """A difference: ``count`` answers to a recipe were journalled but not released, or released but not journalled."""

    recipe: Hash
    cause: Literal["late", "refused", "lost", "unjournalled"]
    count: Count


class FleetReport(FleetPart):
    """The last report: the number of ``devices`` with a journal and of those that ``answered``, and a comparison of the
    answers that all devices ``journalled`` with those that were ``released``."""

    at: PosixSeconds
    devices: Count
    answered: Count
    journalled: Count
    released: Count
    recipes: Annotated[list[FleetRecipe], Field(max_length=MOST_RECIPES)]
    mismatches: Annotated[list[FleetMismatch], Field(max_length=4 * MOST_RECIPES)]


class FleetDocument(Document):
    """The counts that a staging deployment writes of its devices. ``troubles``: one message for each file that cannot
    be read."""

    devices: FleetDevices | None
    report: FleetReport | None
    troubles: list[str]


def read_fleet(folder: Path) -> FleetDocument:
    """Read the files in ``folder``. The part of a missing file is None; a file that cannot be used adds a trouble."""
    troubles: list[str] = []
    devices = _part(folder / DEVICES_FILE, FleetDevices, troubles)
    return FleetDocument(devices=devices, report=_part(folder / REPORT_FILE, FleetReport, troubles), troubles=troubles)


def _part(path: Path, model: type[Told], troubles: list[str]) -> Told | None:
    if not path.exists() and not path.is_symlink():
        return None
    try:
        return validate(model, parse_json(read_secret(path, max_size=MOST_BYTES), path.name), path.name)
    except UsageError as error:
        troubles.append(str(error).replace(f"{path.parent}/", ""))
    except DecodeError:
        troubles.append(f"{path.name}: not a file that tacit staging writes")
    return None


class FleetWatch:
    """While anybody listens, sends an event whenever the deployment has written new counts."""

    def __init__(self, folder: Path, events: Events) -> None:
        self._places = [folder / name for name in (DEVICES_FILE, REPORT_FILE)]
        self._events = events
        self._known: list[int] = []

    async def step(self) -> int:
        """Look at the files once. Returns how many events were sent."""
        stamps = await asyncio.to_thread(lambda: [_stamp(path) for path in self._places])
        fresh, self._known = stamps != self._known, stamps
        if not fresh or not self._events.heard:
            return 0
        self._events.tell(Event("fleet", {}))
        return 1


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def devices_of(at: float, mode: str, counts: dict[str, Any]) -> FleetDevices:
    """The document for ``devices.json``, from the counts of a deployment's devices at POSIX second ``at``."""
    named = {name: counts[name] for name in FleetDevices.model_fields if name in counts}
    return FleetDevices.model_validate({"at": int(at), "mode": mode, **named})


def report_of(at: float, report: dict[str, Any]) -> FleetReport:
    """The document for ``report.json``, from the one that ``tacit staging report`` makes: its sums and the newest
    recipes."""
    rows = report["recipes"][-MOST_RECIPES:]
    shown = {row["hash"] for row in rows}
    return FleetReport.model_validate(
        {
            "at": int(at),
            **{name: report[name] for name in ("devices", "answered", "journalled", "released")},
            "recipes": [{name: row[name] for name in FleetRecipe.model_fields} for row in rows],
            "mismatches": [
                {name: one[name] for name in FleetMismatch.model_fields}
                for one in report["mismatches"]
                if one["recipe"] in shown
            ][: 4 * MOST_RECIPES],
        }
    )
