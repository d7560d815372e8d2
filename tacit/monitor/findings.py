"""What a monitor found, in words, and the checks of the log as a whole; ``tacit.monitor.audit`` checks its leaves.

Kinds: ``log-checkpoint``, ``log-rollback``, ``log-split-view``, ``log-inclusion``, ``log-tile`` (the log itself);
``witnesses`` (cosignatures that the policy requires); ``leaf-malformed``, ``leaf-unknown``, ``leaf-signer``,
``leaf-signature``, ``second-leaf``; ``recipe`` and ``series`` (refused by a rule, claims recomputed); ``ledger``;
``late``; ``silent``; ``void-released``; ``results`` (the list of results cannot be read).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from tacit.errors import CryptoError, DecodeError
from tacit.logview.whole import Tick, WholeLog, nothing
from tacit.ports import TransportError
from tacit.tlog.checkpoint import Note
from tacit.tlog.cosignature import Quorum
from tacit.tlog.tiles import tile_bytes, tiles_of


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. ``index`` is the index of the leaf, where the problem is about one."""

    kind: str
    what: str
    index: int | None = None

    def document(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return asdict(self)


async def check_tiles(log: WholeLog, tick: Tick = nothing) -> list[Finding]:
    """Compare every hash tile that the log serves with the entries."""
    findings = []
    for tile in tiles_of(log.tree.size):
        try:
            right = await log.fetch(f"/{tile.path()}") == tile_bytes(tile, log.tree.read)
        except TransportError as error:
            findings.append(Finding("log-tile", f"{tile.path()} cannot be read: {error}"))
        else:
            findings += [] if right else [Finding("log-tile", f"{tile.path()} does not hold the entries' hashes")]
        tick(1)
    return findings


def check_evidence(log: WholeLog) -> list[Finding]:
    """The finding that an earlier reading proved permanently, if there is one."""
    what = "an earlier reading saw another history of the log; its checkpoint is kept as evidence"
    return [Finding("log-split-view", what)] if log.state.evidence else []


def check_witnesses(log: WholeLog, quorum: Quorum | None) -> list[Finding]:
    """Findings about cosignatures that the policy requires and the checkpoint read last does not have."""
    if quorum is None:
        return []
    try:
        quorum.require(Note.decode(log.note))
    except (CryptoError, DecodeError) as error:
        return [Finding("witnesses", str(error))]
    return []
