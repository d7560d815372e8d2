"""Seals in batches: the shares of many reports to one aggregator, and requests to one gateway key."""

from __future__ import annotations

from collections.abc import Sequence

from tacit import hpke, ohttp
from tacit.messages import HpkeCiphertext, Role
from tacit.multibuffer.sealing import BatchSealer
from tacit.ports import Entropy
from tacit.task import Task

AHEAD = 64
"""Number of contexts that are set up together."""


def seal_shares(
    task: Task, role: Role, shares: Sequence[tuple[bytes, bytes]], entropy: Entropy
) -> list[HpkeCiphertext]:
    """Seal each (associated data, plaintext) to aggregator ``role``, each with its own ephemeral key."""
    config = task.hpke_config(role)
    suite = hpke.Suite(config.kem_id, config.kdf_id, config.aead_id)
    sealer = BatchSealer(config.public_key, suite, task.version.input_share_info(role))
    return [HpkeCiphertext(config.id, enc, payload) for enc, payload in sealer.seal_all(shares, entropy)]


class RequestSenders:
    """HPKE contexts for OHTTP requests, ``AHEAD`` at a time; each is handed out once."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._ready: dict[ohttp.KeyConfig, list[hpke.SenderContext]] = {}

    def __call__(self, config: ohttp.KeyConfig) -> hpke.SenderContext:
        """Return the next unused context for ``config``."""
        ready = self._ready.setdefault(config, [])
        if not ready:
            sealer = BatchSealer(config.public_key, config.suite(), ohttp.request_info(config))
            ready += sealer.contexts(AHEAD, self._entropy)
        return ready.pop()
