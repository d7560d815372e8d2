"""How an aggregator opens one input share (DAP-18 section 4.5.3.3)."""

from __future__ import annotations

from tacit import hpke
from tacit.dap_errors import ReportError, ReportRejected
from tacit.errors import CryptoError, DecodeError
from tacit.messages import HpkeCiphertext, PlaintextInputShare, ReportMetadata, Role
from tacit.task import Task
from tacit.task.sealing import _open, input_share_aad


def open_input_share(
    task: Task,
    role: Role,
    key_pair: hpke.KeyPair,
    metadata: ReportMetadata,
    public_share: bytes,
    ciphertext: HpkeCiphertext,
) -> PlaintextInputShare:
    """Aggregator ``role``: open its input share under its own copy of the task configuration.

    Raises ``ReportRejected``: the version's aggregation code for an unknown configuration id,
    ``HPKE_DECRYPT_ERROR`` when it does not open, ``INVALID_MESSAGE`` when the plaintext is malformed.
    """
    config = task.hpke_config(role)
    if ciphertext.config_id != config.id:
        raise ReportRejected(task.version.aggregation_unknown_config, "hpke-config")
    info = task.version.input_share_info(role)
    try:
        plaintext = _open(config, key_pair, info, input_share_aad(task, metadata, public_share), ciphertext)
    except (CryptoError, DecodeError) as error:
        raise ReportRejected(ReportError.HPKE_DECRYPT_ERROR, "hpke-decrypt") from error
    try:
        return PlaintextInputShare.decode(plaintext)
    except DecodeError as error:
        raise ReportRejected(ReportError.INVALID_MESSAGE, "share-malformed") from error
