"""Finds the (epoch, slot) of a truncated key id in the issuer's directory, which is cached for as long as the issuer
says."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from tacit.errors import DecodeError
from tacit.ports import Clock, HttpResponse, Transport, TransportError
from tacit.retry_after import make_unanswered
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.directory import WELL_KNOWN_PATH, DirectoryKey, IssuerDirectory
from tacit.tokens.structures import BLIND_RSA_2048

REFETCH_SECONDS = 5.0
MAX_AGE_SECONDS = 86400
_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})(?:$|[\s,])")


@dataclass(frozen=True, slots=True)
class SlotWindow:
    """A slot, its token key, and the POSIX seconds between which its tokens are issued."""

    epoch: int
    slot: int
    not_before: int
    not_after: int
    token_key: TokenKey = field(repr=False)

    def open(self, now: float) -> bool:
        """Whether the issuer signs for this slot at ``now``."""
        return self.not_before <= now < self.not_after


class KeyDirectory:
    """The issuer's live keys. Only one fetch runs at a time. If the issuer does not answer, a directory past its age
    stays in use, since every key carries its own window."""

    def __init__(self, issuer_url: str, transport: Transport, clock: Clock) -> None:
        self._url = issuer_url + WELL_KNOWN_PATH
        self._transport = transport
        self._clock = clock
        self._lock = asyncio.Lock()
        self._slots: dict[int, list[SlotWindow]] | None = None
        self._fetched = float("-inf")
        self._fresh_until = float("-inf")

    async def open_slot(self, truncated_id: int) -> SlotWindow | None:
        """The slot that the id stands for now, or None. Raises ``TransportError`` if no directory was fetched yet and
        the issuer does not answer."""
        now = self._clock.now()
        if not self._fetched <= now < self._fresh_until:  # past its age, or fetched when the clock was ahead
            await self._refresh(self._fresh_until)
        slot = self._find(truncated_id, now)
        if slot is None and now >= self._fetched + REFETCH_SECONDS:
            await self._refresh(self._fresh_until)
            slot = self._find(truncated_id, now)
        return slot

    def _find(self, truncated_id: int, now: float) -> SlotWindow | None:
        windows = (self._slots or {}).get(truncated_id, [])
        current = [window for window in windows if window.open(now)]
        return current[0] if len(current) == 1 else None

    async def _refresh(self, seen: float) -> None:
        async with self._lock:
            if self._fresh_until != seen:
                return
            try:
                await self._fetch()
            except TransportError as error:
                if self._slots is None:
                    raise
                self._fetched = self._clock.now()
                self._fresh_until = self._fetched + max(REFETCH_SECONDS, error.retry_after)

    async def _fetch(self) -> None:
        response = await self._transport.request("GET", self._url)
        if response.status != 200:
            words = f"the issuer answered {response.status} for its directory"
            raise make_unanswered(words, response.headers, self._clock.now())
        try:
            self._slots = _slots_of(IssuerDirectory.decode(response.body))
        except DecodeError as error:
            raise TransportError("the issuer's directory is malformed") from error
        self._fetched = self._clock.now()
        self._fresh_until = self._fetched + max(_max_age(response), 1)


def _max_age(response: HttpResponse) -> int:
    match = _MAX_AGE.search(response.headers.get("cache-control", ""))
    return min(int(match[1]), MAX_AGE_SECONDS) if match else 0


def _slots_of(directory: IssuerDirectory) -> dict[int, list[SlotWindow]]:
    slots: dict[int, list[SlotWindow]] = {}
    for key in directory.keys:
        window = _window(key)
        if window is not None:
            slots.setdefault(window.token_key.truncated_token_key_id, []).append(window)
    return slots


def _window(key: DirectoryKey) -> SlotWindow | None:
    if key.token_type != BLIND_RSA_2048 or key.epoch is None or key.slot is None:
        return None
    if key.not_before is None or key.not_after is None:
        return None
    try:
        token_key = TokenKey.from_spki(key.token_key)
    except DecodeError:
        return None  # a malformed key closes only its own slot
    return SlotWindow(key.epoch, key.slot, key.not_before, key.not_after, token_key)
