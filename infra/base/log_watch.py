"""Reads and audits a log from outside, once or repeatedly: the work of ``tacit log``, without the terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit.adapters.network.tls import ClientTls
from tacit.codec import b64url
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.logview.whole import Tick, WholeLog, WholeState
from tacit.monitor.audit import Audit
from tacit.monitor.findings import Finding, check_evidence, check_tiles, check_witnesses
from tacit.ports import Clock, Transport, TransportError
from tacit.recipe.policy import Policy
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.tlog.checkpoint import Note, NoteKey
from tacit.tlog.tiles import tiles_of

MAX_STATE = 1 << 20
MOST_PAGES = 10_000
"""Most pages of results that one reading takes; the next one goes on behind them."""

Stage = Callable[[str, int], AbstractContextManager[Tick]]
"""Opens a piece of work, given its name and size, and yields a function that reports progress."""


@dataclass(frozen=True)
class Place:
    """A log to read: its URL, its pinned key, the policy by which it is judged, and the TLS settings for reading it."""

    url: str
    key: NoteKey
    policy: Policy
    tls: ClientTls = field(default_factory=ClientTls)


@dataclass(frozen=True)
class Cosigned:
    """A witness of the policy, and the age of its cosignature in seconds; None if the checkpoint lacks it."""

    witness: str
    age: int | None


@dataclass(frozen=True)
class LogReport:
    """The result of one reading of the log. ``passed`` describes the checks that found nothing."""

    origin: str
    at: int
    size: int
    root: bytes
    findings: list[Finding]
    passed: list[str]
    witnesses: list[Cosigned] = field(default_factory=list)
    recipes: int = 0

    def document(self) -> dict[str, Any]:
        """Return the report as a JSON object; ``ok`` is true if there are no findings."""
        return {
            "ok": not self.findings,
            "log": self.origin,
            "at": self.at,
            "size": self.size,
            "root": b64url(self.root),
            "recipes": self.recipes,
            "witnesses": [{"witness": one.witness, "age": one.age} for one in self.witnesses],
            "passed": self.passed,
            "findings": [finding.document() for finding in self.findings],
        }


class Watch:
    """One log and what was read of it so far. Every ``look`` reads the new entries and judges the whole log again."""

    def __init__(self, place: Place, transport: Transport, clock: Clock, kept: Path | None) -> None:
        """``kept``: the file with the state of earlier reads. Raises ``UsageError`` if it cannot be decoded."""
        self._place = place
        self._transport = transport
        self._clock = clock
        self._kept = kept
        self._results_after = -1
        self._results: set[str] = set()
        self._log = WholeLog(transport, place.url, place.key, _state(kept))
        self._audit = self._new_audit()

    def _new_audit(self) -> Audit:
        return Audit(self._place.policy, self._place.key.public)

    async def verify(self, stage: Stage) -> LogReport:
        """Read the log and check its integrity: signatures, hashes, tiles, consistency, cosignatures."""
        findings, passed = await self._read(stage)
        if self._log.tree.size:
            with stage("hash tiles", len(tiles_of(self._log.tree.size))) as tick:
                tiles = await check_tiles(self._log, tick)
            findings += tiles
            passed += [] if tiles else ["every hash tile holds the hashes of the entries"]
            passed += (
                [] if self._audit.leaves else ["every leaf is signed by whoever may sign it, and none occurs twice"]
            )
        findings += self._audit.leaves
        return self._report(findings, passed)

    async def look(self, stage: Stage) -> LogReport:
        """Check what ``verify`` does except tiles, and what the leaves mean: claims, ledger, late leaves, silence."""
        findings, passed = await self._read(stage)
        released, unread = await self._read_released()
        findings += unread
        now = self._clock.now()
        with stage("recipes: claims recomputed", self._audit.recipes) as tick:
            findings += self._audit.findings(now, self._log.state.shown_after, released, tick)
        if not findings:
            passed += ["every leaf is signed, on time, and takes nothing twice", "every claim and every account holds"]
        return self._report(findings, passed)

    async def _read(self, stage: Stage) -> tuple[list[Finding], list[str]]:
        """Read the new entries; return findings about the log itself, and the checks that passed."""
        passed: list[str] = []
        try:
            at = self._clock.now()
            checkpoint = await self._log.checkpoint()
            passed.append("the checkpoint is signed by the pinned key")
            before = self._log.state.size
            with stage("entries", checkpoint.size - self._log.tree.size) as tick:
                await self._log.read(checkpoint, at, tick)
            passed.append("the entries lead to its root")
            passed += [f"it extends the {before} entries seen before"] if before else []
        except Refusal as refusal:
            self._keep()
            self._audit = self._new_audit()
            return [Finding(refusal.rule, refusal.detail)], passed
        self._keep()
        fresh = self._log.tree.entries[self._audit.size :]
        with stage("leaves", len(fresh)) as tick:
            self._audit.add(fresh, tick)
        limit = self._place.policy.witnesses
        quorum = None if limit is None else limit.quorum(self._clock.now)
        findings = check_witnesses(self._log, quorum)
        if limit is not None and not findings:
            passed.append(f"at least {limit.k} of {len(limit.keys)} witnesses have cosigned it recently")
        return check_evidence(self._log) + findings, passed

    def _keep(self) -> None:
        if self._kept is not None:
            try:
                write_secret(self._kept, self._log.state.encode())
            except OSError as error:
                raise UsageError(f"{self._kept}: {error.strerror or 'cannot be written'}") from error

    async def _read_released(self) -> tuple[frozenset[str] | None, list[Finding]]:
        """Hashes of the recipes with a published result, or None if the server publishes no list. A list that cannot be
        read is a finding, and does not hide other findings. Pages that another one follows do not change, so each is
        read once."""
        for _ in range(MOST_PAGES):
            behind = "" if self._results_after < 0 else f"?after={self._results_after}"
            try:
                answer = await self._transport.request("GET", f"{self._place.url}/v1/results{behind}")
            except TransportError as error:
                return None, [Finding("results", f"the list of results cannot be read ({error})")]
            if answer.status == 404:
                return None, []
            try:
                page = json.loads(answer.body if answer.status == 200 else b"")
                self._results |= {str(one["result"]["recipe_hash"]) for one in page["results"]}
                following = page.get("next")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                what = f"the list of results cannot be read (status {answer.status})"
                return None, [Finding("results", what)]
            if following is None:
                return frozenset(self._results), []
            if not isinstance(following, int) or following <= self._results_after:
                return None, [Finding("results", "the pages of the list of results lead nowhere")]
            self._results_after = following
        return None, [Finding("results", f"the list of results has more than {MOST_PAGES} pages to read")]

    def _report(self, findings: list[Finding], passed: list[str]) -> LogReport:
        now, state = int(self._clock.now()), self._log.state
        return LogReport(
            state.origin, now, state.size, state.root, findings, passed, self._witnesses(now), self._audit.recipes
        )

    def _witnesses(self, now: int) -> list[Cosigned]:
        limit = self._place.policy.witnesses
        if limit is None or not self._log.note:
            return []
        quorum = limit.quorum(self._clock.now)
        try:
            times = quorum.times(Note.decode(self._log.note))
        except DecodeError:
            times = [None] * len(quorum.keys)
        pairs = zip(quorum.keys, times, strict=True)
        return [Cosigned(key.name, None if made is None else now - made) for key, made in pairs]


def _state(path: Path | None) -> WholeState | None:
    if path is None or not path.exists():
        return None
    try:
        return WholeState.decode(read_secret(path, max_size=MAX_STATE))
    except DecodeError as error:
        raise UsageError(f"{path}: {error}; to start over, move it away") from error
