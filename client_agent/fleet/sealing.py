"""Seals the shares of many reports to one aggregator."""

from __future__ import annotations

from collections.abc import Sequence

from tacit import hpke
from tacit.messages import HpkeCiphertext, Role
from tacit.ports import Entropy
from tacit.task import Task


def seal_shares(
    task: Task, role: Role, shares: Sequence[tuple[bytes, bytes]], entropy: Entropy
) -> list[HpkeCiphertext]:
    """Each (associated data, plaintext) sealed to aggregator ``role`` under a key of its own."""
    config = task.hpke_config(role)
    suite = hpke.Suite(config.kem_id, config.kdf_id, config.aead_id)
    info = task.version.input_share_info(role)
    sealed = (hpke.seal(suite, config.public_key, info, aad, plaintext, entropy) for aad, plaintext in shares)
    return [HpkeCiphertext(config.id, enc, payload) for enc, payload in sealed]
