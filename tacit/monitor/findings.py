"""What a monitor found, in words, and the checks of the log as a whole; ``tacit.monitor.audit`` checks its leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tacit.errors import CryptoError, DecodeError
from tacit.logview.whole import Tick, WholeLog, nothing
from tacit.ports import TransportError
from tacit.tlog.checkpoint import Note
from tacit.tlog.cosignature import Quorum
from tacit.tlog.tiles import tile_bytes, tiles_of

_EVIDENCE = "the first checkpoint of a split view is kept as evidence, and reported at every later look"
KINDS: Mapping[str, str] = {
    "log-checkpoint": "the checkpoint cannot be read, or is not signed by the log",
    "log-rollback": "the log is smaller than what was seen before",
    "log-split-view": f"the log is not what was seen before; {_EVIDENCE}",
    "log-inclusion": "the entries do not have the root that the log signed",
    "log-tile": "a hash tile that cannot be read or does not fit (`verify` alone)",
    "witnesses": "cosignatures that the policy demands and the checkpoint lacks",
    "leaf-malformed": "a leaf that nobody can read",
    "leaf-unknown": "a leaf of an unknown kind",
    "leaf-signer": "a leaf of a signer without that part",
    "leaf-signature": "a leaf that is not signed by its signer",
    "second-leaf": "a leaf that takes what another one holds",
    "recipe": "a rule of the policy refuses a recipe; claims are recomputed",
    "series": "a rule of the policy refuses a series; claims are recomputed",
    "ledger": "a period in which an account of the policy holds more than it may",
    "late": (
        "the log was seen without a leaf when it was due: a directory one epoch before its epoch (unless the log "
        "showed none of that issuer yet), a key set at the start of its period (unless it is the gateway's first), an "
        "opt-in at the start of the interval, a void leaf 31 days after its end"
    ),
    "silent": (
        "a recipe that all opted in to, without a result or void leaves 31 days after its end; an issuer without a "
        "directory of this epoch, a gateway without a key set of this period"
    ),
    "results": (
        "the server has a list of results (not 404) that cannot be read, so that `silent` and `void-released` cannot "
        "be checked"
    ),
    "void-released": "the aggregators said that nothing was released, and a result is published",
}
"""Kinds of findings -> what each means."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem, of one of ``KINDS``. ``index`` is the index of the leaf, where the problem is about one."""

    kind: str
    what: str
    index: int | None = None

    def document(self) -> dict[str, Any]:
        """The finding as a JSON object; ``index`` is null where the problem is about no single leaf."""
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
