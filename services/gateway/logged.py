"""What the log shows of this gateway: the key sets by which devices seal.

The gateway reads them again and again, although it published them: they are the one record of its keys that a wrong
clock, a lost file or a backup put back does not change. Its own signature says that a key set is its own, so it needs
no key of the log, and no proof: a log that shows an old one keeps a key from being deleted, nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping

from tacit.codec import unb64url
from tacit.errors import CryptoError, DecodeError
from tacit.ports import Transport, TransportError
from tacit.signing import SigningKey
from tacit.tlog.key_sets import KeySets, OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf


async def read_shown(transport: Transport, log_url: str, gateway: str, signing_key: SigningKey) -> Mapping[int, bytes]:
    """The gateway's encoded active key configurations that the log shows, by period. Raises ``TransportError``, also
    for an answer that is none."""
    answer = await transport.request("GET", f"{log_url}/v1/key-sets")
    if answer.status != 200:
        raise TransportError(f"the log answered {answer.status} for its key sets")
    try:
        entries = KeySets.decode(answer.body).entries
    except DecodeError as error:
        raise TransportError("the log's key sets are malformed") from error
    key_sets: dict[int, bytes] = {}
    for entry in entries:
        try:
            leaf = SignedLeaf.decode(entry.leaf)
            if leaf.type is not LeafType.OHTTP_CONFIG or leaf.signer != gateway:
                continue
            leaf.verify(signing_key.public)
            config = leaf.body_as(OhttpConfig)
        except (DecodeError, CryptoError):  # of another gateway of this name, or of a future version
            continue
        key_sets[config.period] = unb64url(config.active)
    return key_sets
