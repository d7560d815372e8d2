"""What this service reads of the log, and how the failures of other services are told."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from services.admin.core.config import AdminConfig
from services.admin.core.problems import Problem, away, refuse
from tacit.errors import REFUSAL_PREFIX, Abort, CryptoError, DecodeError, Refusal
from tacit.monitor.reading import WholeLog
from tacit.operations.burn_down import BurnDown, burn_downs
from tacit.operations.ledger import Ledger, ledger_of
from tacit.operations.services import NoAnswerError, get_bytes
from tacit.ports import TransportError
from tacit.recipe.live import LeafSigners, LiveLog
from tacit.service.app import Deps, refused
from tacit.tlog.client import LogView, signed_entries
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.pages import PagedReader

BURN_SECONDS = 300.0
"""How long a burn-down is shown while the log does not grow: it is of days, and takes a third of a second of a core
for a thousand recipes."""


class Log:
    """The log, verified under its pinned key and the policy's witnesses; what did not change is not read again."""

    def __init__(self, config: AdminConfig, deps: Deps) -> None:
        self.url = config.log.url
        self.transport = deps.transport
        self._signers = LeafSigners(config.policy)
        self._view = LogView(config.policy.log_policy(config.log.note_key(), deps.clock.now))
        self._pages = PagedReader(self._get)
        self._reading = asyncio.Lock()
        self._live = LiveLog.from_entries(())

    async def live(self) -> LiveLog:
        """The log as of now. Raises ``Abort``: 503 where it does not answer, 502 where it cannot be believed."""
        async with told("log"), self._reading:
            try:
                entries = await self._pages.read(self._view, self._signers)
            except Refusal as refusal:
                words = f"{refusal.rule}: {refusal.detail}"
                raise refuse(Problem.LOG_UNVERIFIED, words) from refusal
            if entries is not None:
                self._live = LiveLog.from_entries(entries)
            return self._live

    async def _get(self, path: str) -> bytes | None:
        try:
            return await get_bytes(self.transport, f"{self.url}{path}")
        except Abort as problem:
            if problem.status == 404:
                return None
            raise


class Whole:
    """Every entry of the log, hashed again, and the accounts that they charge; read on where it was left, and not more
    often than every ``poll_seconds``."""

    def __init__(self, config: AdminConfig, deps: Deps) -> None:
        self._policy = config.policy
        self._pause = config.log.poll_seconds
        self._clock = deps.clock
        self._log = WholeLog(deps.transport, config.log.url, config.log.note_key())
        self._reading = asyncio.Lock()
        self._read_at = -math.inf
        self._joining = asyncio.Lock()
        self._live: tuple[int, LiveLog] = (0, LiveLog.from_entries(()))
        self._ledger: tuple[float, Ledger] | None = None
        self._burning = asyncio.Lock()
        self._burnt: tuple[float, LiveLog, list[BurnDown]] | None = None

    async def read(self) -> WholeLog:
        """The log as it was at most ``poll_seconds`` ago. Raises ``Abort``: 502 where it does not verify, 503."""
        async with told("log"), self._reading:
            now = self._clock.now()
            if now - self._read_at >= self._pause:
                try:
                    await self._log.read(await self._log.checkpoint(), now)
                except Refusal as refusal:
                    words = f"{refusal.rule}: {refusal.detail}"
                    raise refuse(Problem.LOG_UNVERIFIED, words) from refusal
                self._read_at = now
            return self._log

    async def live(self) -> LiveLog:
        """What all entries say together. Raises as ``read``."""
        tree = (await self.read()).tree
        async with self._joining:
            if self._live[0] != tree.size:
                self._live = tree.size, await asyncio.to_thread(self._signed, list(tree.entries))
            return self._live[1]

    async def ledger(self) -> Ledger:
        """What the log's recipes leave in each account. Raises as ``read``."""
        live = await self.live()
        if self._ledger is None or self._ledger[0] != self._read_at:
            self._ledger = self._read_at, await asyncio.to_thread(ledger_of, live, self._policy, self._clock.now())
        return self._ledger[1]

    async def burn_downs(self) -> list[BurnDown]:
        """How each account was spent and when it would be used up, as of at most ``BURN_SECONDS`` ago and of every
        recipe of the log. Raises as ``read``."""
        live = await self.live()
        async with self._burning:
            now = self._clock.now()
            if self._burnt is None or self._burnt[1] is not live or now - self._burnt[0] >= BURN_SECONDS:
                self._burnt = now, live, await asyncio.to_thread(burn_downs, live, self._policy, now)
            return self._burnt[2]

    def _signed(self, entries: Sequence[bytes]) -> LiveLog:
        leaves = [SignedLeaf.decode(entry) for entry in entries]
        return LiveLog.from_entries(signed_entries(range(len(leaves)), leaves, LeafSigners(self._policy)))


@asynccontextmanager
async def told(peer: str) -> AsyncIterator[None]:
    """Have what another service did wrong appear as its doing, not as the caller's: 503 where it does not answer or
    cannot for now, 502 where its answer cannot be used; refusals by a rule stay what they are, and so does 404."""
    try:
        yield
    except NoAnswerError as error:
        raise away(peer, "it does not answer") from error
    except TransportError as error:
        raise away(peer, str(error)) from error
    except (DecodeError, CryptoError) as error:
        raise refuse(Problem.PEER_ANSWER, str(error)) from error
    except Abort as problem:
        if problem.type.startswith(REFUSAL_PREFIX):
            raise refused(Refusal(problem.type.removeprefix(REFUSAL_PREFIX), problem.detail)) from problem
        if problem.type == Problem.LOG_UNVERIFIED.uri or problem.status == 404:
            raise
        if problem.status in {408, 429} or problem.status >= 500:
            raise away(peer, problem.detail or problem.title) from problem
        words = problem.detail or problem.title
        raise refuse(Problem.PEER_ANSWER, words) from problem
    except Refusal as refusal:
        raise refused(refusal) from refusal
