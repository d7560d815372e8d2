"""Sends finished reports until they are durably stored (P11).

Every try resends the identical report bytes in a fresh encapsulation. No error ever leads to a second
randomisation: an error is retried later, is terminal, or the report's deadline comes first.

When a device is on, or has a network, is its own affair: a report that came the moment it is back would tell whose it
is (P28). So a report is offered at its drawn time, or at the time drawn for another try; where either passed while the
device was off, at another random moment (P33). What misses its deadline is not sent at all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from client_agent.config import Timing
from client_agent.journal import AgentStore, Entry, State
from client_agent.oblivious import ObliviousClient
from client_agent.supervision import words_of
from tacit import bhttp
from tacit.backoff import uniform
from tacit.errors import Refusal
from tacit.models.devices import device_side
from tacit.models.interfaces.device import DeviceSide, Fate
from tacit.ports import Clock, Entropy, TransportError
from tacit.retry_after import retry_after

MISSED_SECONDS = 10.0
"""Seconds by which a device that is on may send later than planned."""


@dataclass(frozen=True)
class AttemptResult:
    """Outcome of one try: the entry's next state (``SCHEDULED``: try again later), and why."""

    state: State
    detail: str
    asked: float = 0.0
    """For how many seconds whoever answered asked to be left alone."""


class Requester(Protocol):
    """Sends a request to the party that takes answers: for a device, through the relay."""

    async def request(
        self, method: str, url: str, *, media_type: str | None = None, content: bytes = b""
    ) -> bhttp.Response:
        """One exchange. Raises ``TransportError`` and ``Refusal``."""
        ...


STATE_OF = {Fate.STORED: State.SENT, Fate.LATER: State.SCHEDULED, Fate.REFUSED: State.FAILED}


async def offer(client: Requester, model: DeviceSide, url: str, report: bytes) -> AttemptResult:
    """Try once to send ``report``, the encoded submission of ``model``."""
    try:
        response = await client.request("POST", url, media_type=model.media_type, content=report)
    except TransportError as error:
        return AttemptResult(State.SCHEDULED, str(error), error.retry_after)
    except Refusal as refusal:
        return AttemptResult(State.FAILED, str(refusal))
    except Exception as error:  # of this report or of a key: the same bytes are sent later, and the others go on
        return AttemptResult(State.SCHEDULED, words_of(error))
    verdict = model.verdict(response)
    asked = retry_after(dict(response.fields))
    return AttemptResult(STATE_OF[verdict.fate], verdict.detail, asked)


class Uploader:
    """Uploads the scheduled entries of the journal."""

    def __init__(
        self, store: AgentStore, client: ObliviousClient, clock: Clock, entropy: Entropy, timing: Timing
    ) -> None:
        self._store = store
        self._client = client
        self._clock = clock
        self._entropy = entropy
        self._timing = timing

    async def due(self, entry: Entry) -> Entry:
        """``send`` an entry that is due. If its time, or that of its next try, passed while the device was off, it gets
        a new random time."""
        now, resume = self._clock.now(), self._timing.resume_seconds
        if now - entry.send_at <= MISSED_SECONDS or now >= entry.deadline or not resume:
            return await self.send(entry)
        planned = replace(entry, send_at=uniform(self._entropy, now, now + resume))
        await self._store.update(planned)
        return planned

    async def send(self, entry: Entry) -> Entry:
        """Try once to upload a scheduled entry; returns and stores the outcome. After its deadline nothing is sent; it
        is given up once that is over by the relay's clock too."""
        if self._clock.now() >= entry.deadline and not self._client.vouched.is_over(entry.deadline):
            pause = self._timing.backoff.pause(entry.attempts, self._entropy)
            waits = replace(entry, send_at=self._clock.now() + pause)
            await self._store.update(waits)
            return waits
        if self._clock.now() >= entry.deadline:
            last = f"; at the last attempt: {entry.detail}" if entry.attempts else ""
            result = AttemptResult(State.EXPIRED, f"its deadline passed before the report could be stored{last}")
        else:
            result = await offer(self._client, device_side(entry.model), entry.url, entry.report)
        done = result.state is not State.SCHEDULED
        pause = 0.0 if done else self._timing.backoff.pause(entry.attempts, self._entropy, result.asked)
        after = replace(
            entry,
            state=result.state,
            detail=result.detail,
            attempts=entry.attempts + (result.state is not State.EXPIRED),
            send_at=entry.send_at if done else self._clock.now() + pause,
            report=b"" if done else entry.report,
        )
        await self._store.update(after)
        return after
