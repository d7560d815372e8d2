"""The gateway's key sets for devices that have no valid key with which to ask the log (P3).

A device that was away for longer than its keys live, or whose image is old, cannot reach the log, because it can do so
only through the gateway. The relay holds the key sets that the log shows for the gateway, verified, and serves the same
bytes to every caller; the device verifies them again. So a relay can withhold key sets but cannot replace them; and
since all callers get the same answer, a log cannot use it to hand each device a different key.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relay.config import RelayLog
from tacit.adapters.network.origins import require_secure_url
from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError, Refusal, UsageError
from tacit.logview.log_source import consistency, log_at
from tacit.logview.view import Bundle, LogState, LogView
from tacit.ports import TransportError
from tacit.service.app import ServiceEnv, voucher_of
from tacit.service.base.log import get_logger
from tacit.service.base.secret_files import write_secret
from tacit.signing import KEY_SIZE
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validate
from tacit.tlog.checkpoint import LogPolicy, NoteKey
from tacit.tlog.fields import Blob, Body
from tacit.tlog.key_sets import KeySets, OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf

FILE = "key-sets.json"
LEAVES_KEPT = 16
"""Most key sets of one gateway for the periods around now, of whatever length. An honest gateway has four."""
AWAY_SECONDS = 3600.0
"""Seconds for which the log may be unreachable before the relay reports trouble: key sets change only once in a period.
"""


class _Kept(Body):
    state: Blob
    document: Blob
    leaves: list[Blob]


class _Signer:
    """``LeafKeys`` of one gateway: only its key sets count."""

    def __init__(self, gateway: str, key: bytes) -> None:
        self._gateway = gateway
        self._key = key

    def keys_of(self, leaves: Sequence[SignedLeaf]) -> list[bytes | None]:
        """The gateway's signing key for its own key sets, None for every other leaf."""
        return [self._key if self._is_ours(leaf) else None for leaf in leaves]

    def _is_ours(self, leaf: SignedLeaf) -> bool:
        return leaf.type is LeafType.OHTTP_CONFIG and leaf.body.get("gateway") == self._gateway == leaf.signer


def _concerns(leaf: SignedLeaf, now: float) -> bool:
    """Whether a device may use a key set at ``now``, or keep it for the period that follows."""
    try:
        config = leaf.body_as(OhttpConfig)
    except DecodeError:
        return False
    return config.start - config.rotation_seconds <= now < config.end


class LoggedKeySets:
    """Fetches one gateway's key sets from the log, and keeps the newest answer that it could verify."""

    def __init__(self, config: RelayLog, deps: ServiceEnv, folder: Path | None, *, insecure_http: bool) -> None:
        """The state is saved in ``folder`` (None: not saved). Raises ``UsageError`` for a malformed key, a URL that P7
        forbids, or a saved file that is malformed."""
        require_secure_url(config.url, insecure_http=insecure_http)
        try:
            policy = LogPolicy(NoteKey.decode(config.key))
            signing_key = unb64url(config.signing_key, length=KEY_SIZE)
        except DecodeError as error:
            raise UsageError(f"log: {error}") from error
        self.document = b""
        self._config = config
        self._deps = deps
        self._get = log_at(voucher_of(deps, "the log"), config.url)
        self._signer = _Signer(config.gateway, signing_key)
        self._path = None if folder is None else folder / FILE
        self._leaves: list[SignedLeaf] = []
        self._view = LogView(policy)
        self._trouble = ""
        self._away = False
        self._read_at = deps.clock.now()
        if self._path is not None and self._path.exists():
            self._restore(policy, self._path)

    async def step(self) -> int:
        """One fetch. Returns 1 if the log showed something new, else 0."""
        try:
            changed = await self._fetch()
        except TransportError as error:
            self._say(str(error), away=True)
            return 0
        except (DecodeError, Refusal) as error:
            self._say(str(error))
            return 0
        self._read_at = self._deps.clock.now()
        self._say("")
        return int(changed)

    def trouble(self) -> str:
        """Why nothing new came from the log, or the empty string."""
        waiting = self._away and self._deps.clock.now() < self._read_at + AWAY_SECONDS
        return "" if waiting or not self._trouble else f"key sets of the gateway: {self._trouble}"

    async def _fetch(self) -> bool:
        content = await self._get("/v1/key-sets")
        if content is None:
            raise TransportError("the log has no key sets")
        key_sets = KeySets.decode(content)
        before = self._view.state
        try:
            size = self._view.opened(key_sets.checkpoint).size
            bundle = Bundle(key_sets.checkpoint, await consistency(self._get, before.size, size), key_sets.entries)
            entries = self._view.accept(bundle, self._signer, self._leaves)
        except Refusal:
            if self._view.state.failure:
                self._save()
            raise
        now = self._deps.clock.now()
        entries = [entry for entry in entries if _concerns(entry.leaf, now)]
        past = self._deps.vouched.past()
        held = [leaf for leaf in self._leaves if _concerns(leaf, now) or leaf.body_as(OhttpConfig).end > past]
        known = {leaf.encode() for leaf in held}
        held += [entry.leaf for entry in entries if entry.leaf.encode() not in known]
        if len(held) > LEAVES_KEPT:  # no key set is dropped before its time: another could then take its place
            raise DecodeError("the log shows more key sets than a gateway has")
        shown = {entry.index for entry in entries}
        ours = tuple(entry for entry in key_sets.entries if entry.index in shown)
        document = KeySets(key_sets.checkpoint, ours).encode()
        if document == self.document:
            return False
        self._leaves = held
        self.document = document
        self._save()
        return True

    def _say(self, trouble: str, *, away: bool = False) -> None:
        if trouble and trouble != self._trouble:
            get_logger("relay").warning("key_sets_not_read", reason=trouble)
        self._trouble, self._away = trouble, away

    def _save(self) -> None:
        if self._path is None:
            return
        kept = {
            "state": b64url(self._view.state.encode()),
            "document": b64url(self.document or b"{}"),
            "leaves": [b64url(leaf.encode()) for leaf in self._leaves],
        }
        write_secret(self._path, canonical_bytes(kept))

    def _restore(self, policy: LogPolicy, path: Path) -> None:
        try:
            kept = validate(_Kept, parse_canonical(path.read_bytes(), FILE), FILE)
            self._view = LogView(policy, LogState.decode(unb64url(kept.state)))
            self._leaves = [SignedLeaf.decode(unb64url(leaf)) for leaf in kept.leaves]
        except (OSError, DecodeError) as error:
            raise UsageError(f"{path}: not what a relay keeps of the log") from error
        if not self._view.state.failure:
            self.document = unb64url(kept.document)
            if self.document == b"{}":
                self.document = b""
