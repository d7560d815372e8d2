"""The reader's side of the log: what a device, an aggregator or a monitor accepts, and why.

``LogView`` holds one pinned key and the last checkpoint it accepted; its owner persists ``state`` before acting on what
it returned. It refuses rollback, and a log that shows two histories, or two leaves where it may hold one
(``tacit.tlog.once``), is never trusted again: that failure is sticky and keeps the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NoReturn, Self

from tacit.codec import b64url, unb64url
from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validate
from tacit.tlog.checkpoint import Checkpoint, LogPolicy
from tacit.tlog.entries import BundleEntry
from tacit.tlog.fields import Body, Count, Hash
from tacit.tlog.leaves import LEAVES_KEPT, LeafKeys, SignedLeaf, UnknownLeafError
from tacit.tlog.merkle import EMPTY_ROOT, leaf_hash, verify_consistency, verify_inclusion
from tacit.tlog.once import signers_claims_of


@dataclass(frozen=True, slots=True)
class Bundle:
    """A checkpoint, the proof that it extends the one that its reader knows, and entries with their proofs.
    ``tacit.tlog.pages`` transfers them to the reader."""

    checkpoint: bytes
    consistency: tuple[bytes, ...]
    entries: tuple[BundleEntry, ...]


@dataclass(frozen=True, slots=True)
class LogState:
    """What a reader persists: the tree it last accepted, and the sticky failure if there was one."""

    size: int = 0
    root: bytes = EMPTY_ROOT
    failure: str = ""
    evidence: bytes = b""

    def encode(self) -> bytes:
        """Canonical JSON, for a file or a column; see ``decode``."""
        return canonical_bytes(
            {
                "size": self.size,
                "root": b64url(self.root),
                "failure": self.failure,
                "evidence": b64url(self.evidence),
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises DecodeError."""
        wire = validate(_StateBody, parse_canonical(data, "log state"), "log state")
        return cls(wire.size, unb64url(wire.root), wire.failure, unb64url(wire.evidence))


class _StateBody(Body):
    size: Count
    root: Hash
    failure: str
    evidence: str


@dataclass(frozen=True, slots=True)
class VerifiedEntry:
    """An entry whose inclusion and signature were checked."""

    index: int
    leaf: SignedLeaf


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An entry that is in the log but should not be: the rule that it breaks, and how."""

    index: int
    rule: str
    detail: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Signatures:
    """Leaves by who signed them: those that their signer signed, faults of those that it did not sign, and, by index,
    those of signers that the reader does not know."""

    entries: list[VerifiedEntry] = field(default_factory=list)
    forged: list[LeftOut] = field(default_factory=list)
    unknown: dict[int, SignedLeaf] = field(default_factory=dict)


class LogView:
    """One reader's view of one log. Refusals: ``log-split-view`` and ``log-second-leaf`` (sticky), ``log-consistency``,
    ``log-rollback``, ``log-checkpoint``, ``log-inclusion``; invalid single leaves are left out as ``leaf-malformed`` or
    ``leaf-signature``."""

    def __init__(self, policy: LogPolicy, state: LogState | None = None) -> None:
        self._policy = policy
        self._state = state or LogState()
        self._left_out: tuple[LeftOut, ...] = ()

    @property
    def left_out(self) -> tuple[LeftOut, ...]:
        """The leaves of the last accepted bundle that are in the log but should not be."""
        return self._left_out

    @property
    def state(self) -> LogState:
        """The state to persist; changes with every accepted checkpoint and with a sticky failure."""
        return self._state

    def opened(self, note: bytes) -> Checkpoint:
        """The checkpoint in ``note``, which the policy accepts; that it extends the last one is not proved yet. Raises
        Refusal, also where the log is not trusted any more. Two roots for one size are the log's own fault, whether a
        witness cosigned the second or not."""
        self.check_trusted()
        known = self._state
        try:
            checkpoint = self._policy.open(note)
            if checkpoint.size == known.size and checkpoint.root != known.root:
                self._fail("log-split-view", f"the log signed two different roots for size {checkpoint.size}", note)
            self._policy.require_witnesses(note)
        except (DecodeError, CryptoError) as error:
            raise Refusal("log-checkpoint", str(error)) from error
        return checkpoint

    def advance(self, note: bytes, consistency: Sequence[bytes]) -> Checkpoint:
        """Accept a checkpoint that extends the last one. Raises Refusal."""
        checkpoint = self.opened(note)
        known = self._state
        if checkpoint.size < known.size:
            raise Refusal("log-rollback", f"the log shows {checkpoint.size} entries, but it had {known.size} before")
        try:
            verify_consistency(known.size, known.root, checkpoint.size, checkpoint.root, consistency)
        except CryptoError as error:
            detail = f"from {known.size} to {checkpoint.size} entries: {error}"
            raise Refusal("log-consistency", detail) from error
        self._state = replace(known, size=checkpoint.size, root=checkpoint.root)
        return checkpoint

    def accept(self, bundle: Bundle, keys: LeafKeys, known: Sequence[SignedLeaf] = ()) -> list[VerifiedEntry]:
        """Advance to the bundle's checkpoint and return its entries, each included in the tree and signed by the key
        that ``keys`` gives.

        Entries of signers that ``keys`` does not know, and of kinds that this reader does not know, are left out: a
        bundle is the log's own choice of entries, so safety cannot depend on the presence of one. Entries that are
        malformed or that their signer did not sign are left out too (``left_out``): one of them must not keep this
        reader from all others. ``known`` are leaves that this reader accepted before: a second leaf in the place of any
        is a sticky failure. Raises Refusal.
        """
        checkpoint = self.advance(bundle.checkpoint, bundle.consistency)
        read: list[tuple[int, SignedLeaf]] = []
        malformed: list[LeftOut] = []
        for entry in bundle.entries:
            leaf = _verify_inclusion(entry, checkpoint)
            if isinstance(leaf, LeftOut):
                malformed.append(leaf)
            elif leaf is not None:
                read.append((entry.index, leaf))
        signed = check_signatures([index for index, _ in read], [leaf for _, leaf in read], keys)
        self._left_out = (*malformed, *signed.forged)
        self._check_places([*known, *(entry.leaf for entry in signed.entries)], bundle.checkpoint)
        return signed.entries

    def _check_places(self, leaves: Sequence[SignedLeaf], note: bytes) -> None:
        """Refuse permanently a log that holds two leaves, both signed, where it may hold one."""
        held: dict[str, SignedLeaf] = {}
        for leaf in leaves:
            for claim in signers_claims_of(leaf):
                first = held.setdefault(claim, leaf)
                if first.body_bytes() != leaf.body_bytes():
                    evidence = {"checkpoint": note.decode(), "leaves": [b64url(one.encode()) for one in (first, leaf)]}
                    detail = f"the log holds two leaves for one {claim}"
                    self._fail("log-second-leaf", detail, canonical_bytes(evidence))

    def check_trusted(self) -> None:
        """Raise the ``Refusal`` since which the log is not trusted any more, if there is one."""
        if self._state.failure:
            rule, _, detail = self._state.failure.partition(": ")
            raise Refusal(rule, detail)

    def _fail(self, rule: str, detail: str, evidence: bytes) -> NoReturn:
        self._state = replace(self._state, failure=f"{rule}: {detail}", evidence=evidence)
        raise Refusal(rule, detail)


def signature_fault(index: int, leaf: SignedLeaf, public: bytes) -> LeftOut | None:
    """Why the leaf at ``index`` is not signed with the key ``public`` (32 bytes, Ed25519); None if it is."""
    try:
        leaf.verify(public)
    except CryptoError as error:
        return LeftOut(index, "leaf-signature", f"{leaf.type} leaf {index}: {error}")
    return None


def check_signatures(indices: Sequence[int], leaves: Sequence[SignedLeaf], keys: LeafKeys) -> Signatures:
    """Verify the leaves at ``indices``, each with the key that ``keys`` gives. Nothing is raised: a leaf that fails is
    among the result's ``forged``, one without a key among its ``unknown``."""
    found = Signatures()
    for index, leaf, public in zip(indices, leaves, keys.keys_of(leaves), strict=True):
        if public is None:
            found.unknown[index] = leaf
        elif (fault := signature_fault(index, leaf, public)) is not None:
            found.forged.append(fault)
        else:
            found.entries.append(VerifiedEntry(index, leaf))
    return found


@lru_cache(maxsize=LEAVES_KEPT)
def _verify_inclusion(entry: BundleEntry, checkpoint: Checkpoint) -> SignedLeaf | LeftOut | None:
    """The entry's leaf, verified to be in the tree; None where it is of a kind that this reader does not know. Cached:
    which tree is the log's, each reader decides by itself. Raises Refusal, which is not."""
    try:
        verify_inclusion(leaf_hash(entry.leaf), entry.index, checkpoint.size, entry.inclusion, checkpoint.root)
    except CryptoError as error:
        raise Refusal("log-inclusion", f"entry {entry.index}: {error}") from error
    try:
        return SignedLeaf.decode(entry.leaf)
    except UnknownLeafError:
        return None
    except DecodeError as error:
        return LeftOut(entry.index, "leaf-malformed", f"entry {entry.index}: {error}")
