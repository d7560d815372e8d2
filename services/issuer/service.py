"""The issuer: one RSA key per (epoch, slot), blind signatures, a directory, and its leaf in the log (P8).

Windows. The tokens of epoch e are spent in [e * epoch_seconds, (e + 1) * epoch_seconds) and issued during epochs e - 1
and e: devices fetch them ahead, at random times, and a device that joins late may still take part in the current epoch.
Outside that time the key signs nothing. A key is destroyed ``grace_seconds`` after its epoch, once that is over by the
log's clock too (P37): no second directory of an epoch can take its place. Its directory leaf stays.

The issuer learns which slot a request is for and that the attester vouches for it, nothing else. It counts every
signature before the signature leaves (P15), so that no crash makes its count smaller than what is out there.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import gmpy2

from services.issuer.config import IssuerConfig
from services.issuer.store import IssuerStore, StoredKey
from tacit import media_types
from tacit.answers import may_pass
from tacit.codec import b64url
from tacit.errors import REFUSAL_PREFIX, Abort, DecodeError, Fatal
from tacit.problem import problem_type
from tacit.retry_after import make_unanswered
from tacit.service.app import ServiceEnv, voucher_of
from tacit.service.base.group_commit import GroupCommitter
from tacit.service.base.keys import read_signing_key
from tacit.service.base.log import get_logger
from tacit.service.base.vouched import UNVOUCHED
from tacit.service.metrics import Reading
from tacit.service.operated import HeldKey
from tacit.tlog.leaves import LeafType, sign_leaf
from tacit.tlog.token_directories import IssuerDirectory as DirectoryBody
from tacit.tlog.token_directories import SlotKey
from tacit.tokens.directory import DirectoryKey, IssuerDirectory
from tacit.tokens.issuer_key import IssuerKey, issue
from tacit.tokens.structures import TokenRequest, TokenResponse

TOKEN_REQUEST_PROBLEM = "urn:tacit:problem:token-request"  # noqa: S105
GIVEN_UP, NOT_OURS = -1, -2
"""Stored in place of a log index for a leaf that the log will never take: it came too late, or the log holds another
directory of its epoch."""

_REFUSALS = {f"{REFUSAL_PREFIX}{rule}": rule for rule in ("directory-over", "directory-late", "directory-exists")}
_LEAVES_PATH = "/v1/leaves"
COUNTED_TOGETHER = 256
"""Most signatures whose counts share one transaction."""

SlotId = tuple[int, int]
"""An epoch and a slot within it."""


@dataclass(frozen=True, slots=True)
class LiveKey:
    """A key that can still sign, of one slot."""

    epoch: int
    slot: int
    key: IssuerKey = field(repr=False)


def _release_lock() -> None:
    """Release the interpreter lock, so that the arithmetic of this thread runs beside other threads."""
    gmpy2.get_context().allow_release_gil = True


def make_refusal(detail: str) -> Abort:
    """The 422 of RFC 9578 section 6.1 for a request that cannot be signed."""
    return Abort(TOKEN_REQUEST_PROBLEM, detail, status=422, title="The token request cannot be signed.")


class Issuer:
    """The issuer's state and operations. Call ``open`` before use and ``close`` after."""

    def __init__(self, config: IssuerConfig, deps: ServiceEnv, store: IssuerStore) -> None:
        """Raises ``UsageError`` for a signing key that cannot be read."""
        self._config = config
        self._deps = deps
        self._signing_key = read_signing_key(config.signing_key)
        self._log = get_logger("issuer")
        self._keys: dict[SlotId, LiveKey] = {}
        self._not_ours = frozenset[int]()
        self._unlogged: dict[SlotId, int] = {}
        self._issued = GroupCommitter[SlotId, None](self._count, COUNTED_TOGETHER, 0.0, deps.clock)
        self._store = store
        self._log_transport = voucher_of(deps, "the log")
        self._threads = ThreadPoolExecutor(config.sign_threads, "issuer", initializer=_release_lock)

    async def open(self) -> None:
        """Open the store and load the live keys."""
        await self._store.open()
        for stored in await self._store.keys():
            self._hold(stored, IssuerKey.from_der(stored.private_key))
        self._not_ours = await self._store.epochs_at(NOT_OURS)

    async def close(self) -> None:
        """Write and log the counts, and close the store."""
        await self._issued.close()
        self.log_counts()
        self._threads.shutdown()
        await self._store.close()

    def _hold(self, stored: StoredKey, key: IssuerKey) -> None:
        self._keys[stored.epoch, stored.slot] = LiveKey(stored.epoch, stored.slot, key)

    def epoch_now(self) -> int:
        """The number of the epoch at the present moment."""
        return int(self._deps.clock.now() // self._config.epoch_seconds)

    def held_keys(self) -> list[HeldKey]:
        """The keys that the operator sees: those of each epoch, which end with it, and the key that signs leaves."""
        seconds = self._config.epoch_seconds
        epochs = Counter(live.epoch for live in self._keys.values())
        tokens = [HeldKey("tokens", f"epoch {e}, {n} slots", (e + 1) * seconds) for e, n in sorted(epochs.items())]
        return [HeldKey("leaves", b64url(self._signing_key.public)), *tokens]

    def _open_for_issuance(self, epoch: int) -> bool:
        is_shown = epoch > self._closed_epoch(1) and epoch not in self._not_ours
        return epoch - 1 <= self.epoch_now() <= epoch and is_shown

    def _closed_epoch(self, ahead: int) -> int:
        """The last epoch that stays closed because the database was restored from a backup, which covers the epochs
        begun by the time of the restore and ``ahead`` more; -1 if there is none."""
        closed = self._store.closed_until
        return closed // self._config.epoch_seconds + ahead if closed else -1

    async def sign(self, body: bytes) -> bytes:
        """The token response to an authenticated attester's request; the signature is counted. Raises ``Abort``
        (422)."""
        try:
            request = TokenRequest.decode(body)
        except DecodeError as error:
            raise make_refusal(str(error)) from error
        live = self._open_key(request.truncated_token_key_id)
        if live is None:
            raise make_refusal("no key of this id is open for issuance")
        loop = asyncio.get_running_loop()
        try:
            response: TokenResponse = await loop.run_in_executor(
                self._threads, issue, live.key, request, self._deps.entropy
            )
        except DecodeError as error:
            raise make_refusal(str(error)) from error
        # counted durably before the signature leaves: a crash in between counts one that nobody has, never hides one
        await self._issued.submit((live.epoch, live.slot))
        self._deps.saw("issuer", epoch=live.epoch, slot=live.slot)
        return response.encode()

    def _open_key(self, truncated_id: int) -> LiveKey | None:
        """The key with this id that signs now. Ids differ between all that sign at one time (``_generate``)."""
        named = (one for one in self._keys.values() if one.key.token_key.truncated_token_key_id == truncated_id)
        return next((one for one in named if self._open_for_issuance(one.epoch)), None)

    def directory(self) -> tuple[bytes, int]:
        """The directory document (keys of the current and later epochs), and for how many seconds it may be cached."""
        seconds, now = self._config.epoch_seconds, self._deps.clock.now()
        current = self.epoch_now()
        live = sorted(self._keys.values(), key=lambda one: (one.epoch, one.slot))
        keys = tuple(
            DirectoryKey(
                token_key=one.key.token_key.spki,
                not_before=max(one.epoch - 1, 0) * seconds,
                not_after=(one.epoch + 1) * seconds,
                epoch=one.epoch,
                slot=one.slot,
            )
            for one in live
            if current <= one.epoch <= current + self._config.lookahead
            and one.epoch > self._closed_epoch(1)
            and one.epoch not in self._not_ours
        )
        until_next = max(int((current + 1) * seconds - now), 0)
        max_age = min(self._config.directory_max_age, until_next) if keys else 0
        return IssuerDirectory(self._config.request_uri, keys).encode(), max_age

    async def make_epoch(self) -> int:
        """Make the keys and the leaf of the first epoch in [now, now + lookahead] that has none.

        Returns the number of keys made, 0 if none are due. A clock in doubt makes none, and one for which nobody
        vouches yet only those that follow what there is.
        """
        current = self.epoch_now()
        made = await self._store.epochs()
        if not self._may_follow(current, made):
            return 0
        lost = self._closed_epoch(self._config.lookahead)  # the log may already hold other keys for these epochs
        due = [e for e in range(current, current + self._config.lookahead + 1) if e not in made and e > lost]
        if not due:
            return 0
        epoch = due[0]
        keys = await self._generate(epoch, self._config.slots_per_epoch)
        stored = [StoredKey(epoch, slot, key.to_der()) for slot, key in enumerate(keys)]
        body = DirectoryBody(
            issuer=self._config.name,
            epoch=epoch,
            epoch_seconds=self._config.epoch_seconds,
            request_uri=self._config.request_uri,
            keys=[SlotKey(slot=i, token_key=b64url(key.token_key.spki)) for i, key in enumerate(keys)],
        )
        leaf = sign_leaf(LeafType.ISSUER_DIRECTORY, body, self._config.name, self._signing_key)
        # stored before any of them signs or is shown: the log takes one directory for each epoch, so keys that a crash
        # lost after that could not be replaced
        await self._store.add_epoch(epoch, stored, leaf.encode())
        for one, key in zip(stored, keys, strict=True):
            self._hold(one, key)
        self._log.info("epoch_made", epoch=epoch, slots=len(keys))
        return len(keys)

    def _may_follow(self, current: int, made: Collection[int]) -> bool:
        vouched = self._deps.vouched
        if vouched.past() != UNVOUCHED or not made:
            return not vouched.doubt()
        return not vouched.doubt() and min(made) <= current <= max(made) + 1

    async def _generate(self, epoch: int, count: int) -> list[IssuerKey]:
        """Fresh keys for ``epoch`` whose truncated ids differ from each other and from those of all keys that may be in
        one directory with them."""
        loop = asyncio.get_running_loop()
        beside = [one for one in self._keys.values() if abs(one.epoch - epoch) <= self._config.lookahead + 1]
        taken = {one.key.token_key.truncated_token_key_id for one in beside}
        keys: dict[int, IssuerKey] = {}
        while len(keys) < count:
            key = await loop.run_in_executor(self._threads, IssuerKey.generate, self._config.key_bits)
            if key.token_key.truncated_token_key_id not in taken:
                keys.setdefault(key.token_key.truncated_token_key_id, key)
        return list(keys.values())

    async def destroy_expired(self) -> int:
        """Delete keys whose epoch ended more than ``grace_seconds`` ago, by the log's clock too; returns how many."""
        past = self._deps.vouched.past()
        if past == UNVOUCHED:
            return 0
        first_kept = int((past - self._config.grace_seconds) // self._config.epoch_seconds)
        expired = [place for place, live in self._keys.items() if live.epoch < first_kept]
        if not expired:
            return 0
        # the database first: where that fails the keys are still held here, so the next step tries again
        destroyed = await self._store.destroy_before(first_kept)
        for place in expired:
            del self._keys[place]
        self._log.info("slots_destroyed", count=destroyed, before_epoch=first_kept)
        return destroyed

    async def publish(self) -> int:
        """Send the earliest leaf that the log has not acknowledged; returns 1, or 0 if none waits or it is of an epoch
        further ahead than keys are made for: those were made while this clock was ahead, and wait for their time.

        The same stored bytes are sent every time. A leaf that came too late, by this clock too, is given up, so that it
        does not hold up those of later epochs; so is one for whose epoch the log holds another directory. Raises
        ``TransportError``, or ``Fatal`` if the log refuses for another reason.
        """
        waiting = await self._store.unpublished()
        if waiting is None:
            return 0
        epoch, leaf = waiting
        if epoch > self.epoch_now() + self._config.lookahead:
            return 0
        response = await self._log_transport.request(
            "POST",
            self._config.recipe_server_url + _LEAVES_PATH,
            headers={"Content-Type": media_types.JSON},
            body=leaf,
        )
        rule = _REFUSALS.get(problem_type(response.body), "") if response.status == 422 else ""
        if rule == "directory-exists":
            await self._store.published(epoch, NOT_OURS)
            self._not_ours |= {epoch}
            self._log.error("directory_not_ours", epoch=epoch)
            return 1
        if rule and self._deps.vouched.is_past((epoch - 1) * self._config.epoch_seconds):
            await self._store.published(epoch, GIVEN_UP)
            self._log.error("directory_too_late", epoch=epoch)
            return 1
        if may_pass(response.status):
            words = f"the log answered {response.status} to a directory"
            raise make_unanswered(words, response.headers, self._deps.clock.now())
        if response.status not in {200, 201}:
            why = f", {rule} by its clock" if rule else ""
            raise Fatal(f"the log answered {response.status} to the directory leaf of epoch {epoch}{why}")
        await self._store.published(epoch, _log_index(response.body))
        self._log.info("directory_published", epoch=epoch, in_time=self.epoch_now() < epoch - 1)
        return 1

    async def _count(self, signed: Sequence[SlotId]) -> list[None]:
        """Add signatures to the stored counts, and note the new totals for logging."""
        self._unlogged |= await self._store.add_counts(Counter(signed))
        return [None] * len(signed)

    def log_counts(self) -> None:
        """Log how many tokens each slot issued (P15), where that number changed."""
        totals, self._unlogged = self._unlogged, {}
        for (epoch, slot), total in sorted(totals.items()):
            self._log.info("issued", epoch=epoch, slot=slot, count=total)

    async def issuance(self) -> dict[SlotId, int]:
        """How many signatures each slot has given."""
        return await self._store.counts()

    async def issued_by_epoch(self) -> Reading:
        """Metric: signatures by epoch, for the epochs that are open."""
        counts: Counter[tuple[str, ...]] = Counter()
        for (epoch, _), count in (await self._store.counts()).items():
            if self._open_for_issuance(epoch):
                counts[str(epoch),] += count
        return counts

    def trouble(self) -> str:
        """That devices ask for tokens of a key which this issuer does not have, in words fit for the public; otherwise
        the empty string."""
        lost = sorted(self._not_ours & {self.epoch_now(), self.epoch_now() + 1})
        if not lost:
            return ""
        return f"the log shows another directory for epoch {lost[0]} than this issuer has; put its database back"

    @property
    def keys_end(self) -> float:
        """When the last epoch ends that has keys, of those that should have some (POSIX seconds); 0 if none has."""
        newest = self.epoch_now() + self._config.lookahead
        last = max((live.epoch for live in self._keys.values() if live.epoch <= newest), default=-1)
        return float((last + 1) * self._config.epoch_seconds)


def _log_index(body: bytes) -> int:
    try:
        index = json.loads(body)["index"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Fatal("the log's answer holds no index") from error
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise Fatal("the log's answer holds no index")
    return index


class KeyDriver:
    """One step makes one epoch's keys, or destroys keys that are over."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Returns the number of keys made or destroyed."""
        return await self._issuer.make_epoch() or await self._issuer.destroy_expired()


class DirectoryDriver:
    """One step sends one leaf to the log; a failed one is sent again with the same bytes."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Returns 1 if a leaf was acknowledged, else 0."""
        return await self._issuer.publish()


class CountDriver:
    """One step logs the issuance counts that changed; it never asks for the next step at once."""

    def __init__(self, issuer: Issuer) -> None:
        self._issuer = issuer

    async def step(self) -> int:
        """Returns 0 always: counts are gathered between steps."""
        self._issuer.log_counts()
        return 0
