"""Compares the journals of a staging deployment's agents with what was released.

Nobody can do this in a real deployment: servers do not know devices, and a journal never leaves its device. Here
everything is on one machine, and the sums have to agree: every answer that a journal calls sent is counted, or there is
a cause.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from client_agent.config import AgentConfig
from client_agent.data.sources import attempt, open_source
from client_agent.journal import Entry, State
from client_agent.runner import database_of, journal_of
from tacit.codec import b64url
from tacit.dap_errors import ReportError
from tacit.errors import UsageError
from tacit.methods.base.statistics import STATISTICS
from tacit.operations.status import TaskStatus
from tacit.recipe.encoder import encoder_of
from tacit.recipe.model import Recipe
from tacit.service.base.config_files import load_config

LATE, REFUSED, LOST, UNJOURNALLED = "late", "refused", "lost", "unjournalled"
ASKED = frozenset({State.NOT_SAMPLED, State.SCHEDULED, State.SENT, State.FAILED, State.EXPIRED})
"""States of a device that was charged; the estimates are about all of these devices."""
TOO_LATE = frozenset({one.name.lower() for one in (ReportError.BATCH_COLLECTED, ReportError.TASK_EXPIRED)})
"""The reasons for which a leader refuses a report that came too late, as the journal stores them."""
READ_AT_ONCE = 16


@dataclass(frozen=True)
class Crowd:
    """A group of devices: how many have a journal, and how many ``answered`` any recipe."""

    devices: int = 0
    answered: int = 0


@dataclass(frozen=True)
class Ends:
    """Outcomes of one recipe: journal entries in each state, and the answers that were finally refused, by reason
    (``refusals``)."""

    states: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)

    @property
    def late(self) -> int:
        """Number of answers to a released recipe that came too late or expired."""
        after = sum(count for why, count in self.refusals.items() if why in TOO_LATE)
        return self.states[State.EXPIRED] + self.states[State.SCHEDULED] + after

    @property
    def refused(self) -> Counter[str]:
        """Answers that were refused for another reason, by reason."""
        return Counter({why: count for why, count in self.refusals.items() if why not in TOO_LATE})


@dataclass(frozen=True)
class Journals:
    """What all journals say: the groups of ``all`` devices, of those with a ``wrong`` clock, and of those driven by
    ``mqtt``; outcomes by recipe, over all devices (``ends``) and over those with a wrong clock (``wrong_ends``); and
    the configurations of the devices that were charged."""

    all: Crowd = Crowd()
    wrong: Crowd = Crowd()
    mqtt: Crowd = Crowd()
    ends: Mapping[str, Ends] = field(default_factory=dict)
    wrong_ends: Mapping[str, Ends] = field(default_factory=dict)
    asked: Mapping[str, Sequence[AgentConfig]] = field(default_factory=dict)

    def accountable(self, recipe: str) -> Ends:
        """The outcomes that have to agree with a release: everything that was sent, and the rest as far as no wrong
        clock explains it."""
        ends, wrong = self.ends.get(recipe, Ends()), self.wrong_ends.get(recipe, Ends())
        sent = Counter({State.SENT.value: wrong.states[State.SENT]})
        return Ends(ends.states - wrong.states + sent, ends.refusals - wrong.refusals)


@dataclass(frozen=True)
class Served:
    """What servers say about one recipe: the contributions that its releases counted (``None`` while there is none),
    those that were ``rejected``, by cause, and those still ``waiting``."""

    released: int | None
    rejected: Mapping[str, int] = field(default_factory=dict)
    waiting: int = 0


@dataclass(frozen=True)
class Mismatch:
    """``count`` answers to a recipe that a journal has and no release counted, or the other way round; ``cause`` is
    ``late``, ``refused``, ``lost`` or ``unjournalled``."""

    recipe: str
    cause: str
    count: int
    detail: str


def mismatches(recipe: str, ends: Ends, served: Served) -> list[Mismatch]:
    """The differences between the journals' answers to a recipe and the released ones; empty before a release, and if
    every answer was sent and counted once."""
    if served.released is None:
        return []
    rejected = sum(served.rejected.values())
    states = ends.states
    missing = states[State.SENT] - served.released - rejected - served.waiting
    after = sum(count for why, count in ends.refusals.items() if why in TOO_LATE)
    found = [
        Mismatch(recipe, LATE, states[State.EXPIRED], "expired before a server accepted them"),
        Mismatch(recipe, LATE, states[State.SCHEDULED], "still on devices when the batch was released"),
        Mismatch(recipe, LATE, served.waiting, "still waiting at the server when the batch was released"),
        Mismatch(recipe, LATE, after, "sent after the server had closed the batch"),
        Mismatch(
            recipe, REFUSED, states[State.FAILED] - after, f"refused when they were sent{_list_causes(ends.refused)}"
        ),
        Mismatch(recipe, REFUSED, rejected, f"rejected after they were accepted{_list_causes(served.rejected)}"),
        Mismatch(recipe, LOST, max(0, missing), "sent, and neither counted nor rejected"),
        Mismatch(recipe, UNJOURNALLED, max(0, -missing), "counted, though no journal says that they were sent"),
    ]
    return [one for one in found if one.count]


def _list_causes(causes: Mapping[str, int]) -> str:
    return ": " + ", ".join(f"{count} {cause}" for cause, count in sorted(causes.items())) if causes else ""


def report(
    journals: Journals, results: Iterable[Mapping[str, Any]], tasks: Iterable[TaskStatus], recipes: Iterable[Recipe]
) -> dict[str, Any]:
    """The document of ``tacit staging report --json``. ``results``: what was released; ``tasks``: what servers say
    about the recipes. ``journalled`` and ``released`` count answers to recipes with a release, ``answered`` counts
    devices. The part of devices with wrong clocks is in ``wrong_clocks``, and is not a mismatch."""
    by_hash: dict[str, list[Mapping[str, Any]]] = {}
    for result in results:
        by_hash.setdefault(result["recipe_hash"], []).append(result)
    pages = {task.recipe_hash: task.taking for task in tasks}
    rows, found, sent = list[dict[str, Any]](), list[Mismatch](), 0
    for recipe in recipes:
        name = recipe.hash_text
        released, states = by_hash.get(name, []), journals.ends.get(name, Ends()).states
        count = sum(one["report_count"] for one in released) if released else None
        page = pages.get(name, {})
        served = Served(count, page.get("rejected_by_cause", {}), int(page.get("pending", 0)))
        found += mismatches(name, journals.accountable(name), served)
        sent += 0 if count is None else states[State.SENT]
        rows.append(
            {
                "recipe": recipe.name,
                "hash": name,
                "journalled": dict(states),
                "released": count,
                "rejected": dict(served.rejected),
                "estimates": compare_estimates(recipe, released, journals.asked.get(name, ())),
            }
        )
    return {
        "devices": journals.all.devices,
        "answered": journals.all.answered,
        "released": sum(row["released"] or 0 for row in rows),
        "journalled": sent,
        "mismatches": [asdict(one) for one in found],
        "wrong_clocks": _wrong_clocks(journals, by_hash),
        "driven_by_mqtt": asdict(journals.mqtt),
        "recipes": rows,
    }


def _wrong_clocks(journals: Journals, released: Iterable[str]) -> dict[str, Any]:
    """How many ``devices`` had a wrong clock, and their outcomes in the ``released`` recipes: ``answered``, ``late``,
    ``refused`` with the reason, and ``not_asked`` (seen too late, refused or not drawn)."""
    states, refused, late = Counter[str](), Counter[str](), 0
    for name in released:
        ends = journals.wrong_ends.get(name, Ends())
        states, refused, late = states + ends.states, refused + ends.refused, late + ends.late
    return {
        "devices": journals.wrong.devices,
        "answered": states[State.SENT],
        "late": late,
        "refused": dict(refused),
        "not_asked": sum(states[state] for state in (State.REFUSED, State.INELIGIBLE, State.NOT_SAMPLED)),
    }


def compare_estimates(
    recipe: Recipe, released: Sequence[Mapping[str, Any]], asked: Iterable[AgentConfig]
) -> list[dict[str, Any]]:
    """The estimates of a recipe's one release, each with the true number of devices: those of ``asked`` whose own data
    give this answer. Empty if the question has no such number, or a batch does not cover all devices."""
    one_hot = STATISTICS[recipe.question.statistic].is_one_hot
    if len(released) != 1 or recipe.batch.close == "at_B" or not one_hot:
        return []
    truth, encoder = Counter[object](), encoder_of(recipe.question)
    for config in asked:
        if config.source is None:
            return []
        read = attempt(partial(open_source(config.source).value, recipe.question.metric))
        truth[encoder.encode(read.value)] += 1
    return [
        {"label": row["label"], "estimate": row["estimate"], "stderr": row["stderr"], "truth": truth[place]}
        for place, row in enumerate(released[0]["buckets"])
    ]


async def read_journals(configs: Sequence[Path]) -> Journals:
    """What the journals of these devices say; a device that never started has none. Raises ``UsageError``."""
    room = asyncio.Semaphore(READ_AT_ONCE)

    async def read(path: Path) -> tuple[AgentConfig, list[Entry]] | None:
        config = load_config(path, AgentConfig)
        if not database_of(config).exists():
            return None
        async with room, journal_of(config) as store:
            return config, await store.entries()

    if not configs:
        raise UsageError("there are no devices here; start them with: tacit staging up --agents 20")
    found = [one for one in await asyncio.gather(*map(read, configs)) if one is not None]
    wrong = [one for one in found if one[0].clock_error_seconds]
    asked: dict[str, list[AgentConfig]] = {}
    for config, entries in found:
        for entry in entries:
            if entry.state in ASKED:
                asked.setdefault(b64url(entry.recipe_hash), []).append(config)
    listening = [one for one in found if one[0].announcements is not None]
    return Journals(_crowd(found), _crowd(wrong), _crowd(listening), _ends(found), _ends(wrong), asked)


def _crowd(journals: Sequence[tuple[AgentConfig, list[Entry]]]) -> Crowd:
    answered = sum(any(entry.state is State.SENT for entry in entries) for _, entries in journals)
    return Crowd(len(journals), answered)


def _ends(journals: Iterable[tuple[AgentConfig, list[Entry]]]) -> dict[str, Ends]:
    """Count the journalled outcomes of each recipe, over all devices."""
    found: dict[str, Ends] = {}
    for _, entries in journals:
        for entry in entries:
            ends = found.setdefault(b64url(entry.recipe_hash), Ends())
            ends.states[entry.state.value] += 1
            if entry.state is State.FAILED:
                ends.refusals[entry.detail] += 1
    return found
