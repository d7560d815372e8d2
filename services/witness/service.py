"""The witness without HTTP: it cosigns a checkpoint once it has read every entry behind it (P29).

A checkpoint is cosigned if its log signed it, if it extends the tree that was cosigned last, if the log shows the
entries that lead to its root, and if none of them makes a claim that another leaf of the log already made
(``tacit.tlog.once``). The new tree is durable before the cosignature leaves, so of two histories of one log at most one
is ever cosigned.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from services.witness.config import WitnessConfig, WitnessedLog
from services.witness.store import Moved, Twice, Witnessed, WitnessStore
from tacit.adapters.databases.recovery import Recovery
from tacit.errors import Abort, CryptoError, DecodeError, Refusal, UsageError
from tacit.logview.log_source import log_at
from tacit.logview.whole import read_entries
from tacit.problem import problem_type
from tacit.retry_after import make_unanswered
from tacit.service.app import ServiceEnv, require_no_doubt
from tacit.service.base.keys import read_signing_key
from tacit.service.base.log import get_logger
from tacit.service.base.vouched import VouchedTime
from tacit.tlog.checkpoint import COSIGNATURE, Checkpoint, LogPolicy, Note, NoteKey
from tacit.tlog.cosignature import cosign, newest_cosignature
from tacit.tlog.merkle import verify_consistency
from tacit.tlog.once import claims_in
from tacit.tlog.witnessing import AddCheckpoint, Frontier

COUNTED = {
    "cosigned": "checkpoints cosigned",
    "refused": "checkpoints refused by a rule",
    "conflict": "requests from another origin",
    "unsigned": "requests without the log's signature",
    "unknown_log": "requests about another log",
    "leaves_read": "leaves read",
}
"""What a witness counts from its start, by name."""


class SizeConflict(Exception):  # noqa: N818 - an answer of the protocol, not a fault
    """The request does not begin at the tree that this witness cosigned last, which has ``size`` entries."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the witness is at size {size}")
        self.size = size


class Witness:
    """One witness over one store. Call ``open`` before use and ``close`` after."""

    def __init__(self, config: WitnessConfig, deps: ServiceEnv, store: WitnessStore) -> None:
        """Raises ``UsageError`` for a key or a log that cannot be used."""
        self._config = config
        self._deps = deps
        self._key = read_signing_key(config.signing_key)
        try:
            policies = {entry.key: LogPolicy(NoteKey.decode(entry.key)) for entry in config.logs}
        except DecodeError as error:
            raise UsageError(f"logs: {error}") from error
        self._logs = {policies[entry.key].origin: (policies[entry.key], entry) for entry in config.logs}
        if len(self._logs) != len(config.logs):
            raise UsageError("logs: two logs have the same origin")
        self.times = {origin: VouchedTime(deps.clock) for origin in self._logs}
        """What each log says the time is. A cosignature from the far future would never grow old, so none is made while
        the log's time and ours differ; of each log by itself, so that one with a wrong clock stops no other."""
        self._reading = {origin: asyncio.Lock() for origin in self._logs}
        self._remembered: set[str] = set()
        self._store = store
        self.counts: Counter[str] = Counter()
        """Answers by kind, and number of leaves read, since the start."""
        self._refused = ""
        self._log = get_logger("witness")

    @property
    def key(self) -> NoteKey:
        """The verifier key, for use in readers' policies."""
        return NoteKey(self._config.name, self._key.public, COSIGNATURE)

    @property
    def logs(self) -> Mapping[str, WitnessedLog]:
        """The configured logs by origin, which is the name of the log's key."""
        return {origin: entry for origin, (_, entry) in self._logs.items()}

    async def open(self) -> None:
        """Open the store. Raises ``UsageError`` for a database from a backup, whatever the operator says: what this key
        has cosigned since is not known any more, so it must not cosign again (P32)."""
        if self._deps.recovery is Recovery.ACCEPT:
            raise UsageError("a witness that has forgotten what it cosigned cannot go on; give it a new signing_key")
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    def trouble(self) -> str:
        """The last refusal, in words fit for the public, until a checkpoint of that log is cosigned; or how the clock
        contradicts all logs; else the empty string."""
        doubts = [time.doubt() for time in self.times.values()]
        return self._refused or (doubts[0] if doubts and all(doubts) else "")

    async def add_checkpoint(self, data: bytes) -> bytes:
        """The cosignature line for a request's bytes.

        Raises ``DecodeError`` (400); ``Abort`` (404 for a log that is not watched, 403 for a checkpoint that its log
        did not sign); ``SizeConflict`` (409); ``Refusal`` (422): ``log-consistency``, ``witness-step``,
        ``witness-forgot``, ``log-entries``, ``log-twice``; and ``TransportError`` if the log does not show its entries.
        """
        request = AddCheckpoint.decode(data)
        policy, entry, checkpoint = self._opened_note(request.note)
        require_no_doubt(self._deps, self.times[policy.origin])
        if request.old > checkpoint.size:
            raise DecodeError("the old size is larger than the checkpoint's")
        known = await self._store.witnessed(policy.origin)
        self._check_old(request, checkpoint, known)
        try:
            verify_consistency(known.size, known.root, checkpoint.size, checkpoint.root, request.proof)
            if checkpoint.size > known.size:
                async with self._reading[policy.origin]:
                    await self._still_at(policy.origin, known)
                    await self._advance(entry, policy.origin, known, checkpoint)
        except CryptoError as error:
            raise self._refusal("log-consistency", str(error)) from error
        # signed only now that the tree is stored: a witness that signed first and crashed could cosign another fork
        self.counts["cosigned"] += 1
        self._refused = ""
        line = cosign(checkpoint.body(), self._config.name, self._key, int(self._deps.clock.now()))
        return line.line().encode()

    def _opened_note(self, data: bytes) -> tuple[LogPolicy, WitnessedLog, Checkpoint]:
        note = Note.decode(data)
        checkpoint = Checkpoint.parse(note.text)
        log = self._logs.get(checkpoint.origin)
        if log is None:
            self.counts["unknown_log"] += 1
            raise Abort("about:blank", "this witness does not watch the log", status=404, title="Not Found")
        try:
            log[0].open(data)
        except CryptoError as error:
            self.counts["unsigned"] += 1
            raise Abort("about:blank", "the log's key did not sign this", status=403, title="Forbidden") from error
        return *log, checkpoint

    def _check_old(self, request: AddCheckpoint, checkpoint: Checkpoint, known: Witnessed) -> None:
        """The protocol's first check: the request must begin at the tree that was cosigned last and, if the size is the
        same, must have the same root."""
        if request.old != known.size:
            self.counts["conflict"] += 1
            raise SizeConflict(known.size)
        if checkpoint.size == known.size and checkpoint.root != known.root:
            self._refusal("log-split-view", f"two roots for {known.size} entries")
            raise SizeConflict(known.size)

    async def _still_at(self, origin: str, known: Witnessed) -> None:
        """Raise ``SizeConflict`` if another request has advanced the log while this one waited, before anything is
        read."""
        current = await self._store.witnessed(origin)
        if current != known:
            self.counts["conflict"] += 1
            raise SizeConflict(current.size)

    async def _advance(self, entry: WitnessedLog, origin: str, known: Witnessed, checkpoint: Checkpoint) -> None:
        """Read the new entries, check them, and move on to ``checkpoint``."""
        if checkpoint.size - known.size > self._config.max_step:
            raise Refusal("witness-step", f"at most {self._config.max_step} entries are read for one request")
        if origin not in self._remembered:
            await self._remember(entry, origin, known)
        frontier = Frontier.decode(known.size, known.frontier)
        claims: dict[str, int] = {}
        async for entries in read_entries(log_at(self._deps.transport, entry.url), known.size, checkpoint.size):
            self._read(entries, frontier, claims)
        if frontier.root() != checkpoint.root:
            raise self._refusal("log-entries", "the entries that the log shows do not lead to the root that it signed")
        new = Witnessed(checkpoint.size, checkpoint.root, frontier.encode())
        outcome = await self._store.advance(origin, known, new, claims)
        if isinstance(outcome, Twice):
            raise self._twice(outcome)
        if isinstance(outcome, Moved):
            self.counts["conflict"] += 1
            raise SizeConflict(outcome.size)

    async def _remember(self, entry: WitnessedLog, origin: str, known: Witnessed) -> None:
        """Once after each start: check that the log shows no cosignature of this witness that its database does not
        know of, as it would if all files of this service were from a backup."""
        answer = await self._deps.transport.request("GET", f"{entry.url}/checkpoint")
        if answer.status != 200 and not (answer.status == 404 and problem_type(answer.body)):
            # a proxy's page says nothing about what the log shows, and this is asked once only
            words = f"the log answered {answer.status} for its checkpoint"
            raise make_unanswered(words, answer.headers, self._deps.clock.now())
        if answer.status == 200:
            note = Note.decode(answer.body)
            shown = Checkpoint.parse(note.text)
            ours = newest_cosignature(note, self.key) is not None and shown.origin == origin
            if ours and (shown.size > known.size or (shown.size == known.size and shown.root != known.root)):
                detail = (
                    f"the log shows our cosignature of {shown.size} entries, but our database knows only {known.size}"
                )
                raise self._refusal("witness-forgot", detail)
        self._remembered.add(origin)

    def _read(self, entries: list[bytes], frontier: Frontier, claims: dict[str, int]) -> None:
        for data in entries:
            index = frontier.size
            frontier.append(data)
            self.counts["leaves_read"] += 1
            for claim in claims_in(data):
                if claim in claims:
                    raise self._twice(Twice(claim, index, claims[claim]))
                claims[claim] = index

    def _twice(self, found: Twice) -> Refusal:
        return self._refusal("log-twice", f"leaf {found.index} takes what leaf {found.holder} holds: {found.claim}")

    def _refusal(self, rule: str, detail: str) -> Refusal:
        self.counts["refused"] += 1
        self._refused = f"{rule}: {detail}"
        self._log.warning("checkpoint_refused", rule=rule, detail=detail)
        return Refusal(rule, detail)
