"""Takes reports: each is opened when it arrives, and one transaction records it and adds it to the sum.

A report that is answered with success is durably counted, now or before. Nothing is kept of a report except its id, a
digest of its bytes, the nullifier of its token and, if the recipe's reports are searched, its randomised answer; a
report without a valid token only increases a counter (P31).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tacit.aggregator.one_server.config import OneServerConfig
from tacit.aggregator.one_server.records import Aggregate
from tacit.aggregator.one_server.store import OneServerTx
from tacit.aggregator.records import ACCEPTED, Known, OutcomeRow
from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import DecodeError, Refusal
from tacit.messages.one_server import OneServerReport
from tacit.roles.aggregator import Rejection
from tacit.roles.analyzer import AnalyzerParty, Counted, add_up, open_reports
from tacit.service.app import ServiceEnv
from tacit.service.base.group_commit import GroupCommitter
from tacit.service.base.store import Transactions
from tacit.task.one_server import INVALID, OVER, REPLAYED, OneServerTask, digest_of

ENOUGH = 32
"""Number of reports that are processed together without waiting for more."""
TOO_EARLY = "report-too-early"
_WORDS = {
    INVALID: "the report does not count",
    REPLAYED: "the report's id has another report, or its token was spent",
    OVER: "the recipe takes no more reports",
    TOO_EARLY: "the recipe's interval has not begun",
}
_SPENT = "token-spent"


Answers = dict[bytes, str | None]
"""By report id: the rule that refuses the report, or None if it counts."""


@dataclass(frozen=True, slots=True)
class Upload:
    """One report that arrived and waits to be stored."""

    party: AnalyzerParty
    report: OneServerReport
    digest: bytes = field(repr=False)

    def refused(self, known: Known) -> str | None:
        """Why this report is refused, given the outcome of a report with the same id, or None: the same bytes get the
        same answer."""
        if known.digest != self.digest:
            return REPLAYED
        return None if known.code == ACCEPTED else INVALID


class Uploads:
    """Counts reports in groups. What was answered is durable."""

    def __init__(self, store: Transactions[OneServerTx], deps: ServiceEnv, config: OneServerConfig, name: str) -> None:
        """``name``: the server's name to an observer."""
        self._store = store
        self._name = name
        self._deps = deps
        self._clock = deps.clock
        self._grace = config.release_grace
        self._crypto = config.job_crypto()
        self._committer: GroupCommitter[Upload, str | None] = GroupCommitter(
            self._flush, config.group_size, config.group_delay, deps.clock, ENOUGH
        )

    async def take(self, party: AnalyzerParty, body: bytes) -> None:
        """Count one report. Raises ``Refusal`` ``report-invalid``, ``report-replayed``, ``recipe-over`` or
        ``report-too-early``; only for the last may the answer be different later."""
        try:
            report = party.task.report_in(body)
        except DecodeError as error:
            raise Refusal(INVALID, str(error)) from error
        refused = await self._committer.submit(Upload(party, report, digest_of(body)))
        if refused is not None:
            raise Refusal(refused, _WORDS[refused])

    async def close(self) -> None:
        """Count the reports that are still gathered."""
        await self._committer.close()

    async def _flush(self, uploads: Sequence[Upload]) -> list[str | None]:
        """For each report the rule that refuses it, or None if it counts. Of several with one id only the first is
        examined."""
        groups: dict[bytes, dict[bytes, Upload]] = {}
        for upload in uploads:
            groups.setdefault(upload.party.task.task_id, {}).setdefault(upload.report.report_id, upload)
        answers = {task_id: await self._count(group) for task_id, group in groups.items()}
        refusals: list[str | None] = []
        for upload in uploads:
            task_id, report_id = upload.party.task.task_id, upload.report.report_id
            same = groups[task_id][report_id].digest == upload.digest
            refusals.append(answers[task_id][report_id] if same else REPLAYED)
        return refusals

    async def _count(self, uploads: Mapping[bytes, Upload]) -> Answers:
        """Decide on the reports of one recipe, given by report id."""
        party = next(iter(uploads.values())).party
        async with self._store.read() as tx:
            before = await tx.known(party.task.task_id, list(uploads))
        answers = {report_id: uploads[report_id].refused(known) for report_id, known in before.items()}
        fresh = [upload for report_id, upload in uploads.items() if report_id not in before]
        closed = self._why_closed(party)
        if closed is not None or not fresh:
            return answers | {upload.report.report_id: closed for upload in fresh}
        reports = [upload.report for upload in fresh]
        opened = await asyncio.to_thread(open_reports, party, reports, self._crypto)
        for upload, contents in zip(fresh, opened, strict=True):
            if isinstance(contents, Counted):
                seen = party.reading.shown(contents.numbers, contents.record)
                self._deps.saw(self._name, report_id=upload.report.report_id.hex(), **seen)
        return answers | await self._commit(party, fresh, opened)

    def _why_closed(self, party: AnalyzerParty) -> str | None:
        try:
            party.check_time(self._clock.now(), self._grace)
        except ReportRejected as rejected:
            return TOO_EARLY if rejected.code is ReportError.REPORT_TOO_EARLY else OVER
        return None

    async def _commit(
        self, party: AnalyzerParty, uploads: Sequence[Upload], opened: Sequence[Counted | Rejection]
    ) -> Answers:
        """Decide the outcome of each report and record it, in one transaction."""
        task = party.task
        pairs = {upload.report.report_id: (upload, contents) for upload, contents in zip(uploads, opened, strict=True)}
        rows = [row for upload, contents in pairs.values() if (row := _row(upload, contents)) is not None]
        async with self._store.transaction() as tx:
            if not await tx.is_open(party, self._clock.now()) or await tx.is_closed(task.task_id):
                return dict.fromkeys(pairs, OVER)
            taken = await tx.record(task.task_id, rows)
            known = await tx.known(task.task_id, sorted(taken)) if taken else {}
            new = {report_id: pair for report_id, pair in pairs.items() if report_id not in taken}
            counted = {report_id: contents for report_id, (_, contents) in new.items() if isinstance(contents, Counted)}
            await _add(tx, task, counted)
            causes = Counter(contents.cause for _, contents in new.values() if isinstance(contents, Rejection))
            await tx.count_rejections(task.task_id, causes + Counter({_SPENT: len(taken) - len(known)}))
        answers: Answers = {
            one: None if isinstance(contents, Counted) else INVALID for one, (_, contents) in new.items()
        }
        answers |= dict.fromkeys(taken, REPLAYED)
        return answers | {one: pairs[one][0].refused(outcome) for one, outcome in known.items()}


async def _add(tx: OneServerTx, task: OneServerTask, counted: Mapping[bytes, Counted]) -> None:
    """Add new reports, by their ids, to the recipe's sum, and keep their records, if it has any."""
    if not counted:
        return
    numbers = [one.numbers for one in counted.values()]
    await tx.add(task.task_id, Aggregate(len(numbers), add_up(task.cells, numbers)))
    records = b"".join(one.record for one in counted.values())
    if records:
        await tx.keep_records(task.task_id, min(counted), records)


def _row(upload: Upload, found: Counted | Rejection) -> OutcomeRow | None:
    """The outcome row of a report: None without a valid token. Inserting the row spends the token."""
    report_id, digest = upload.report.report_id, upload.digest
    if isinstance(found, Counted):
        return OutcomeRow(report_id, found.nullifier, ACCEPTED, digest=digest)
    if found.nullifier is None:
        return None
    return OutcomeRow(report_id, found.nullifier, int(found.code), found.cause, digest=digest)
