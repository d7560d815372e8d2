"""The oracle: compares, after a run, what leader and helper (or the one server, or a shuffler before leader and helper)
and collector say with what the fleet sent.

The accepted contributions must be the sampled devices minus the injected faults, by cause; and the aggregate must be,
bucket by bucket, the sum of the randomised answers that were sent (before debiasing). If leader and helper add noise of
their own, the sums must agree up to that noise, which exceeds the bound by chance with probability ``FALSE_ALARM`` at
most.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from client_agent.journal import State
from infra.lab.devices.destination import Destination
from infra.lab.devices.faults import FATE, Fault
from infra.lab.fleet.result import FleetResult
from infra.stacks.layout import Layout
from tacit.errors import Abort
from tacit.methods.base.statistics import STATISTICS
from tacit.methods.estimators.shuffled import shuffled_estimator_of
from tacit.methods.result import rows
from tacit.models.shuffled.task import counts_of
from tacit.operations.calls import call
from tacit.ports import Clock, Transport
from tacit.recipe.cautions import cautions
from tacit.recipe.encoder import encoder_of, labels
from tacit.recipe.model import Recipe
from tacit.recipe.response import stated_asked, with_response

POLL_SECONDS = 0.5
FALSE_ALARM = 1e-9
"""False-alarm probability per released sum, if aggregators add noise."""
MOST_SUMS = 64
"""Number of released sums above which only those that differ are shown one by one."""
_FINAL = frozenset({"released", "refused"})


@dataclass(frozen=True)
class Finding:
    """One comparison; the numbers may differ by ``slack``."""

    what: str
    expected: int
    found: int
    slack: int = 0

    @property
    def holds(self) -> bool:
        """Whether the two numbers agree up to ``slack``."""
        return abs(self.expected - self.found) <= self.slack


@dataclass(frozen=True)
class Estimated:
    """One number of a release, and the ``truth`` among all devices of the fleet; ``answered`` is the truth of their
    values as the recipe rounds and clips them. ``low`` and ``high``: the 95 % interval for all devices, silent ones
    included; None if the release has none."""

    label: str
    estimate: float
    stderr: float
    truth: float
    answered: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def moved(self) -> bool:
        """Whether rounding and clipping moved the truth by more than a standard error."""
        return self.answered is not None and abs(self.answered - self.truth) > self.stderr

    @property
    def inside(self) -> bool | None:
        """Whether the interval for all devices holds the truth; None if there is no interval."""
        return None if self.low is None or self.high is None else self.low <= self.truth <= self.high


@dataclass
class Verdict:
    """All comparisons, and remarks about what could not be compared; the released ``answers``, beside what the devices
    know. ``warnings``: what a reader of the result must know."""

    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    answers: list[Estimated] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether all comparisons agree."""
        return all(finding.holds for finding in self.findings)

    def document(self) -> dict[str, Any]:
        rows = [{**vars(finding), "holds": finding.holds} for finding in self.findings]
        answers = [{**vars(one), "inside": one.inside} for one in self.answers]
        return {
            "holds": self.holds,
            "findings": rows,
            "remarks": self.remarks,
            "answers": answers,
            "warnings": self.warnings,
        }


class Oracle:
    """Asks the services of a local stack. ``before`` is called ahead of the run, because what the services counted
    until then is not this fleet's."""

    def __init__(self, layout: Layout, target: Destination, clock: Clock) -> None:
        self._layout = layout
        self._target = target
        self._clock = clock
        self._servers = target.takers
        self._before: dict[str, dict[str, Any]] = {}

    async def before(self, transport: Transport) -> None:
        """Store the present counters."""
        for name in self._servers:
            self._before[name] = await self._status(name, transport)

    async def judge(self, result: FleetResult, transport: Transport, patience: float) -> Verdict:
        """Wait up to ``patience`` seconds for the last job, and as long for the release, and compare."""
        verdict = Verdict()
        status = await self._settled(result, transport, patience)
        verdict.findings += [*_sent(result), *_counted(result, status), *_causes(result, status)]
        if any(self._before[name].get("aggregated") for name in self._servers):
            verdict.remarks.append("the recipe had contributions before this run: its aggregate is not compared")
        elif self._target.recipe.batch.close != "interval_end":
            verdict.remarks.append("batches close at B: which contributions share one is the leader's choice")
        else:
            await self._aggregate(result, verdict, transport, patience)
        return verdict

    async def _status(self, name: str, transport: Transport) -> dict[str, Any]:
        url = f"{self._layout.urls[name]}/v1/tasks/{self._target.task_id_text}/status"
        try:
            return dict(await call(transport, "GET", url, bearer=self._layout.operator_token(name)))
        except Abort as problem:
            if problem.status >= 500:
                raise
            return {}

    async def _settled(self, result: FleetResult, transport: Transport, patience: float) -> dict[str, dict[str, Any]]:
        """The counters of both servers once every acknowledged report has been processed, or as they are after
        ``patience``."""
        until = self._clock.now() + patience
        while True:
            status = {
                name: _since(self._before.get(name, {}), await self._status(name, transport)) for name in self._servers
            }
            leader = status[self._servers[0]]
            dealt = leader.get("aggregated", 0) + leader.get("rejected", 0)
            if dealt >= _stored(result) or self._clock.now() >= until:
                return status
            await self._clock.sleep(POLL_SECONDS)

    async def _aggregate(self, result: FleetResult, verdict: Verdict, transport: Transport, patience: float) -> None:
        """Compare the release with the sums that were sent."""
        recipe = self._target.recipe
        await self._clock.sleep(max(0.0, recipe.interval.end + 1 - self._clock.now()))
        base, bearer = self._layout.urls["collector"], self._layout.operator_token("collector")
        body = json.dumps({"recipe_hash": recipe.hash_text}).encode()
        until = self._clock.now() + patience
        collection = await call(transport, "POST", f"{base}/v1/collections", body=body, bearer=bearer)
        while collection["state"] not in _FINAL and self._clock.now() < until:
            await self._clock.sleep(POLL_SECONDS)
            shown = f"{base}/v1/collections/{collection['id']}"
            collection = await call(transport, "GET", shown, bearer=bearer)
        if collection["state"] != "released":
            why = str(collection.get("rule", "")).rsplit(":", 1)[-1]
            verdict.remarks.append(f"the batch is {collection['state']}{f' ({why})' if why else ''}, not released")
            return
        found = await call(transport, "GET", f"{base}/v1/results/{recipe.hash_text}", bearer=bearer)
        document = with_response(found["results"][0], recipe, stated_asked(result.devices))
        verdict.findings.append(Finding("released: contributions", _accepted(result), document["report_count"]))
        counts = {row["label"]: row["count"] for row in document.get("buckets", ())}
        slack = noise_bound(recipe.aggregator_flips)
        if slack:
            verdict.remarks.append(f"aggregators add noise: released sums may differ by {slack:,} from what was sent")
        names, sent = labels(recipe), result.deliveries.sums
        listed: Iterable[int] = range(len(names))
        if "unlisted" in document:
            listed, findings = _listed(document, recipe, sent)
            verdict.findings += findings
        sums = [
            Finding(f"released: {names[cell]}", sent[cell], counts.get(names[cell], -slack - 1), slack)
            for cell in listed
        ]
        verdict.findings += _shown(sums)
        verdict.warnings = cautions(document)
        by_item = "ranked" in document or "unlisted" in document
        verdict.answers = ranked(document, recipe, result) if by_item else estimated(document, result)


def estimated(document: Mapping[str, Any], result: FleetResult) -> list[Estimated]:
    """Estimates of a result document with its intervals for all devices, beside what the fleet's devices know; empty if
    the devices' truth was not added up."""
    share = 1 / result.devices if STATISTICS[document["statistic"]].is_ratio else 1.0
    answered: list[float | None] = [total * share for total in result.answered]
    answered = answered or [None] * len(result.known)
    paired = zip(document["buckets"], result.known, answered, strict=True) if result.known else ()
    return [
        Estimated(
            row["label"],
            row["estimate"],
            row["stderr"],
            total * share,
            one,
            row.get("population_low"),
            row.get("population_high"),
        )
        for row, total, one in paired
    ]


def ranked(document: Mapping[str, Any], recipe: Recipe, result: FleetResult) -> list[Estimated]:
    """The answers of a ranking, or of a result that does not list all, beside the number of devices that have each."""
    if not result.items:
        return []
    encoder = encoder_of(recipe.question)
    found = [(row, encoder.encode(row.get("item", row["label"]))) for row in rows(document)]
    return [
        Estimated(row["label"], row["estimate"], row["stderr"], float(result.items[item]))
        for row, item in found
        if isinstance(item, int)
    ]


def _listed(document: Mapping[str, Any], recipe: Recipe, sent: Mapping[int, int]) -> tuple[list[int], list[Finding]]:
    """The cells of a result that does not list those estimated as 0: those that were sent above its cut. Compared is
    how many there are, listed and not."""
    cut, cells = shuffled_estimator_of(counts_of(recipe)).cut_at(document["report_count"]) or 0, len(labels(recipe))
    above = sorted(cell for cell, total in sent.items() if total > cut)
    return above, [
        Finding("released: answers above the cut", len(above), len(document["buckets"])),
        Finding("released: answers that are not listed", cells - len(above), document["unlisted"]["answers"]),
    ]


def noise_bound(flips: int) -> int:
    """Bound on the noise of both aggregators, ``flips`` centred coin flips each: exceeded in either direction with
    probability ``FALSE_ALARM`` at most. Hoeffding's bound ``2 exp(-t^2 / flips)``, and never more than the largest
    possible noise."""
    return min(flips, math.ceil(math.sqrt(flips * math.log(2 / FALSE_ALARM))))


def _shown(sums: list[Finding]) -> list[Finding]:
    """All of a few sums; for many, how many agree, and those that do not."""
    if len(sums) <= MOST_SUMS:
        return sums
    agree = sum(finding.holds for finding in sums)
    return [Finding("released: sums that agree", len(sums), agree), *(one for one in sums if not one.holds)]


def _since(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The counters minus their earlier values."""
    found: dict[str, Any] = {}
    for name, value in now.items():
        if isinstance(value, dict):
            found[name] = _since(before.get(name, {}), value)
        elif isinstance(value, int):
            found[name] = value - before.get(name, 0)
    return found


def _accepted(result: FleetResult) -> int:
    """Number of sampled devices minus the faults after which a contribution does not count."""
    return sum(count for (fault, _), count in result.deliveries.states.items() if FATE[fault].counts)


def _stored(result: FleetResult) -> int:
    return sum(count for (fault, _), count in result.deliveries.states.items() if FATE[fault].stored)


def _sent(result: FleetResult) -> list[Finding]:
    """Check the fleet's own records: every device ended, and every report that should be stored was acknowledged."""
    ends = result.contributions + result.beyond + result.without_token
    states = result.deliveries.states
    acknowledged = sum(count for (_, state), count in states.items() if state is State.SENT)
    return [
        Finding("sampled devices with an end", result.sampled, ends),
        Finding("sampled devices without a token", 0, result.without_token),
        Finding("acknowledged", _stored(result), acknowledged),
    ]


def _counted(result: FleetResult, status: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    accepted, stored = _accepted(result), _stored(result)
    taker = next(iter(status))
    findings = [Finding(f"{taker}: stored", stored, status[taker].get("uploaded", 0))]
    for name in status:
        findings.append(Finding(f"{name}: accepted", accepted, status[name].get("aggregated", 0)))
        findings.append(Finding(f"{name}: distinct tokens", accepted, status[name].get("distinct_nullifiers", 0)))
    findings.append(Finding(f"{taker}: rejected", stored - accepted, status[taker].get("rejected", 0)))
    return findings


def _causes(result: FleetResult, status: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    """Compare rejections by cause, per fault and aggregator."""
    findings, taker = [], next(iter(status))
    for fault, count in sorted(result.injected.items()):
        fate = FATE[fault]
        for name, causes in (("leader", fate.leader), ("helper", fate.helper)):
            if causes:
                found = status[name].get("rejected_by_cause", {})
                findings.append(
                    Finding(f"{name}: {fault.word} ({', '.join(causes)})", count, sum(found.get(c, 0) for c in causes))
                )
    known = {cause for fault in Fault for cause in FATE[fault].leader}
    for cause, count in sorted(status[taker].get("rejected_by_cause", {}).items()):
        if cause not in known:
            findings.append(Finding(f"{taker}: {cause}", 0, count))
    return findings
