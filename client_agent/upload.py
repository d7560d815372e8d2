"""Sends finished reports until they are durably stored (P11).

Every try resends the identical report bytes in a fresh encapsulation. No error ever leads to a second
randomisation: an error is retried later, is terminal, or the report's deadline comes first.

When a device is on, or has a network, is its own affair: a report that came the moment it is back would tell whose it
is (P28). So a report is offered for a short while from its drawn time on, and where that passed while the device was
off, at another random moment; what misses its deadline is not sent at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from client_agent.config import Timing
from client_agent.journal import AgentStore, Entry, State
from client_agent.oblivious import ObliviousClient
from client_agent.pace import backoff, uniform
from client_agent.supervision import words_of
from tacit import bhttp
from tacit.errors import DAP_ERROR_PREFIX, DapProblem, DecodeError, Refusal, ReportError
from tacit.media_types import dap
from tacit.messages import UploadErrors
from tacit.ports import Clock, Entropy, TransportError
from tacit.problem import party_of, problem_type

RETRIED = frozenset({ReportError.REPORT_TOO_EARLY, ReportError.TASK_NOT_STARTED})
"""Clocks that differ; every other verdict on a report is final, ``OUTDATED_CONFIG`` too (P11)."""
TERMINAL = frozenset(
    {
        DapProblem.INVALID_MESSAGE,
        DapProblem.UNSUPPORTED_EXTENSION,
        DapProblem.INVALID_EXTENSION,
        DapProblem.INVALID_TASK,
    }
)
"""Refusals of the report itself. Any other (a task that the leader has not learnt of yet, say) may pass later."""


MISSED_SECONDS = 10.0
"""How much later than planned a device that was on may look."""


@dataclass(frozen=True)
class Answer:
    """What became of one try: the entry's next state (``SCHEDULED``: try again later), and why."""

    state: State
    detail: str


class Way(Protocol):
    """How a request gets to the Leader: for a device, through the relay."""

    async def request(
        self, method: str, url: str, *, media_type: str | None = None, content: bytes = b""
    ) -> bhttp.Response:
        """One exchange. Raises ``TransportError`` and ``Refusal``."""
        ...


async def offer(client: Way, url: str, report: bytes) -> Answer:
    """Try once to upload ``report``, the bytes of an upload request with one report."""
    try:
        response = await client.request("POST", url, media_type=dap("upload-req"), content=report)
    except TransportError as error:
        return Answer(State.SCHEDULED, str(error))
    except Refusal as refusal:
        return Answer(State.FAILED, str(refusal))
    except Exception as error:  # of this report or of a key: the same bytes again later, and the others go on
        return Answer(State.SCHEDULED, words_of(error))
    if not 200 <= response.status < 300:
        return _refused(response)
    try:
        statuses = UploadErrors.decode(response.content).status
    except DecodeError:
        return Answer(State.SCHEDULED, "the leader's answer cannot be read")
    if not statuses:
        return Answer(State.SENT, "durably stored")
    code = statuses[0].error
    return Answer(State.SCHEDULED if code in RETRIED else State.FAILED, code.name.lower())


class Uploader:
    """Uploads what the journal has scheduled."""

    def __init__(
        self, store: AgentStore, client: ObliviousClient, clock: Clock, entropy: Entropy, timing: Timing
    ) -> None:
        self._store = store
        self._client = client
        self._clock = clock
        self._entropy = entropy
        self._timing = timing

    async def due(self, entry: Entry) -> Entry:
        """``send`` what is due; a report whose time passed while the device was off is planned anew."""
        now, resume = self._clock.now(), self._timing.resume_seconds
        if entry.attempts or now - entry.send_at <= MISSED_SECONDS or now >= entry.deadline or not resume:
            return await self.send(entry)
        planned = replace(entry, send_at=uniform(self._entropy, now, now + resume))
        await self._store.update(planned)
        return planned

    async def send(self, entry: Entry) -> Entry:
        """Try once to upload a scheduled entry; returns and stores what became of it. Past its deadline nothing is
        sent."""
        if self._clock.now() >= entry.deadline:
            answer = Answer(State.EXPIRED, "its time was over before the report could be stored")
        else:
            answer = await offer(self._client, entry.url, entry.report)
        done = answer.state is not State.SCHEDULED
        pause = 0.0 if done else backoff(self._entropy, self._timing, entry.attempts)
        after = replace(
            entry,
            state=answer.state,
            detail=answer.detail,
            attempts=entry.attempts + (answer.state is not State.EXPIRED),
            send_at=entry.send_at if done else self._clock.now() + pause,
            report=b"" if done else entry.report,
        )
        await self._store.update(after)
        return after


def _refused(response: bhttp.Response) -> Answer:
    """What a problem document means. Its words are not kept, only which of the known types it is."""
    problem = problem_type(response.content)
    known = next((one for one in DapProblem if problem == DAP_ERROR_PREFIX + one), None)
    state = State.FAILED if known in TERMINAL else State.SCHEDULED
    party = party_of(response.content, "the leader")
    return Answer(state, f"{party} answered {response.status}" + (f", {known}" if known else ""))
