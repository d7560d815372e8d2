"""What a monitor found, in words.

Kinds: ``log-checkpoint``, ``log-rollback``, ``log-split-view``, ``log-inclusion``, ``log-tile`` (the log itself);
``witnesses`` (cosignatures that the policy requires); ``leaf-malformed``, ``leaf-unknown``, ``leaf-signer``,
``leaf-signature``, ``second-leaf``; ``recipe`` and ``series`` (refused by a rule, claims recomputed); ``ledger``;
``late``; ``silent``; ``void-released``; ``results`` (the list of results cannot be read).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. ``index`` is the index of the leaf, where the problem is about one."""

    kind: str
    what: str
    index: int | None = None

    def document(self) -> dict[str, Any]:
        """The finding as a JSON object."""
        return asdict(self)
