"""The contents of a log in memory, for readers that begin anew when they start.

``RememberedLog`` reads the live entries. ``LogContents`` is given all entries, in order: it holds the contents of
recipes, series and their leaves, and of key sets, which a log collects without end, the newest ones only.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from tacit.errors import DecodeError, Refusal
from tacit.logview.live import LiveJoin, LiveLog
from tacit.logview.log_source import Get
from tacit.logview.paged import PagedReader
from tacit.logview.signers import LeafSigners, recipe_in, series_in
from tacit.logview.view import LogView, VerifiedEntry, signature_fault
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.tlog.checkpoint import LogPolicy
from tacit.tlog.leaves import LeafType, SignedLeaf

KEYS_KEPT: Final = 64
"""How many of the newest key sets of gateways, and of issuers, are kept."""
_ENDS: Final = {
    kind: f'"type":"{kind.value}","version":1}}'.encode() for kind in (LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG)
}
"""The last bytes of key-set entries. Such entries charge no account, so they are not decoded at once."""


class LogContents:
    """The contents of the first ``count`` entries of a log. ``version`` counts the changes that affect accounts."""

    def __init__(self, policy: Policy, log_key: bytes, version: int = 0) -> None:
        """``policy`` pins the keys of issuers and gateways, ``log_key`` is that of the log's checkpoints."""
        self._signers = LeafSigners(policy, (), log_key)
        self._joined = LiveJoin()
        self._recipes: dict[str, Recipe] = {}
        self._series: dict[str, Series] = {}
        self._keys: dict[LeafType, deque[tuple[int, bytes]]] = {kind: deque(maxlen=KEYS_KEPT) for kind in _ENDS}
        self.count = 0
        self.version = version

    def add(self, entries: Iterable[bytes]) -> None:
        """Examine the next entries. Raises ``DecodeError``, and ``Refusal`` (``leaf-signature``)."""
        for entry in entries:
            kind = next((kind for kind, end in _ENDS.items() if entry.endswith(end)), None)
            if kind is not None:
                self._keys[kind].append((self.count, entry))
            elif (found := self._verify(self.count, SignedLeaf.decode(entry))) is not None:
                self._joined.add(found)
                self.version += 1
            self.count += 1

    def _verify(self, index: int, leaf: SignedLeaf) -> VerifiedEntry | None:
        """Verify the leaf's signature and return the leaf; None if its signer is unknown. Raises ``Refusal``."""
        if leaf.type is LeafType.RECIPE:
            with contextlib.suppress(DecodeError):
                recipe = recipe_in(leaf.body_bytes())
                self._recipes.setdefault(recipe.hash_text, recipe)
        elif leaf.type is LeafType.SERIES:
            with contextlib.suppress(DecodeError):
                series = series_in(leaf.body_bytes())
                self._series.setdefault(series.hash_text, series)
        public = self._signers.key_of(leaf, self._recipes, self._series)
        if public is None:
            return None
        fault = signature_fault(index, leaf, public)
        if fault is not None:
            raise Refusal(fault.rule, fault.detail)
        return VerifiedEntry(index, leaf)

    def live(self) -> LiveLog:
        """Join all examined entries and the newest key sets."""
        keys = LiveJoin()
        for kept in self._keys.values():
            for index, entry in kept:
                if (found := self._verify(index, SignedLeaf.decode(entry))) is not None:
                    keys.add(found)
        directories, configs = tuple(keys.directories.values()), tuple(keys.configs.values())
        return replace(self._joined.live(), directories=directories, ohttp_configs=configs)


class RememberedLog:
    """A log's live entries in memory: a second reading must extend the first, and repeats nothing that it fetched."""

    def __init__(self, get: Get, required: LogPolicy, policy: Policy) -> None:
        """``get`` fetches from the log, which is under the pinned key and the cosignatures of ``required``; ``policy``
        pins the keys of issuers and gateways."""
        self._signers = LeafSigners(policy, (), required.log_key.public)
        self._view = LogView(required)
        self._pages = PagedReader(get)
        self._live = LiveLog()

    async def read(self) -> LiveLog:
        """The log as of now. Raises as ``PagedReader.read``."""
        entries = await self._pages.read(self._view, self._signers)
        if entries is not None:
            self._live = LiveLog.from_entries(entries)
        return self._live
