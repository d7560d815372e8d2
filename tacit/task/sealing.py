"""The sealing of a task's shares (DAP-18).

Every AAD begins with the task id and the whole task configuration, whose bytes are computed once per task.
"""

from __future__ import annotations

from tacit import hpke
from tacit.codec import Writer
from tacit.errors import CryptoError
from tacit.messages import HpkeCiphertext, HpkeConfig, PlaintextInputShare, ReportMetadata, Role
from tacit.ports import Entropy
from tacit.task.task import Task


def seal_input_share(
    task: Task,
    role: Role,
    metadata: ReportMetadata,
    public_share: bytes,
    plaintext: PlaintextInputShare,
    entropy: Entropy,
) -> HpkeCiphertext:
    """Client: seal one input share to the aggregator ``role``, bound to the report's metadata and public share."""
    info = task.version.input_share_info(role)
    return _seal(
        task.hpke_config(role), info, input_share_aad(task, metadata, public_share), plaintext.encode(), entropy
    )


def seal_aggregate_share(
    task: Task, role: Role, collection_job_req: bytes, agg_share: bytes, entropy: Entropy
) -> HpkeCiphertext:
    """Aggregator ``role``: seal its encoded aggregate share to the task's collector. ``collection_job_req`` holds the
    bytes that the collector sent."""
    info = task.version.aggregate_share_info(role)
    return _seal(task.hpke_config(Role.COLLECTOR), info, task.aad_prefix + collection_job_req, agg_share, entropy)


def open_aggregate_share(
    task: Task, role: Role, key_pair: hpke.KeyPair, collection_job_req: bytes, ciphertext: HpkeCiphertext
) -> bytes:
    """Collector: open the aggregate share of aggregator ``role``. Raises ``CryptoError``."""
    config = task.hpke_config(Role.COLLECTOR)
    if ciphertext.config_id != config.id:
        raise CryptoError("aggregate share is sealed to another HPKE configuration")
    info = task.version.aggregate_share_info(role)
    return _open(config, key_pair, info, task.aad_prefix + collection_job_req, ciphertext)


def input_share_aad(task: Task, metadata: ReportMetadata, public_share: bytes) -> bytes:
    """Encoded ``InputShareAad`` of the report, from the cached prefix; both of its shares are sealed with it."""
    writer = Writer().raw(task.aad_prefix)
    metadata.write(writer)
    return writer.opaque(public_share, 4).bytes()


def _suite(config: HpkeConfig) -> hpke.Suite:
    return hpke.Suite(config.kem_id, config.kdf_id, config.aead_id)


def _seal(config: HpkeConfig, info: bytes, aad: bytes, plaintext: bytes, entropy: Entropy) -> HpkeCiphertext:
    enc, payload = hpke.seal(_suite(config), config.public_key, info, aad, plaintext, entropy)
    return HpkeCiphertext(config.id, enc, payload)


def _open(config: HpkeConfig, key_pair: hpke.KeyPair, info: bytes, aad: bytes, ciphertext: HpkeCiphertext) -> bytes:
    return hpke.open_(_suite(config), key_pair, ciphertext.enc, info, aad, ciphertext.payload)
