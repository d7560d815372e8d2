"""How every service with a database learns what is new in the log: fetch, verify, remember."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from tacit.aggregator.config import LogConfig
from tacit.errors import Refusal
from tacit.logview.paged import PagedReader
from tacit.logview.view import LogState, LogView, VerifiedEntry
from tacit.ports import Clock, Transport, TransportError
from tacit.recipe.policy import Policy
from tacit.service.log import get_logger
from tacit.tlog.leaves import LeafKeys, SignedLeaf


class LogReader:
    """Fetches from one log under its pinned key, and under the cosignatures that ``policy`` requires at the time of
    ``clock``. ``UsageError`` where that key is malformed."""

    def __init__(self, config: LogConfig, policy: Policy, transport: Transport, clock: Clock) -> None:
        self._url = config.url
        self._policy = policy.log_policy(config.note_key(), clock.now)
        self._transport = transport
        self._pages = PagedReader(self._get)
        self._log = get_logger("log_reader")

    async def fetch(
        self,
        saved: bytes | None,
        keys: LeafKeys,
        keep: Callable[[bytes], Awaitable[None]],
        known: Sequence[SignedLeaf] = (),
    ) -> tuple[bytes, list[VerifiedEntry]]:
        """Return what the log has beyond ``saved`` (the state that the last fetch returned; None: from the beginning),
        verified, and the new state to store. ``known`` are the leaves that earlier fetches returned.

        Raises ``TransportError``, ``DecodeError``, or ``Refusal`` where the log misbehaves. A log that showed two
        histories, or two leaves in one place, is refused permanently, by the state that ``keep`` stores before this
        raises.
        """
        view = LogView(self._policy, None if saved is None else LogState.decode(saved))
        before = view.state.size
        try:
            entries = await self._pages.read(view, keys, known)
        except Refusal:
            if view.state.failure:
                await keep(view.state.encode())
            raise
        for one in view.left_out:
            if one.index >= before:
                self._log.error("leaf_left_out", index=one.index, rule=one.rule, why=one.detail)
        return view.state.encode(), entries or []

    async def _get(self, path: str) -> bytes | None:
        answer = await self._transport.request("GET", f"{self._url}{path}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise TransportError(f"the log answered with status {answer.status}")
        return answer.body
