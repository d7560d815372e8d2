"""RFC 9180 Appendix A.1.1 and A.2.1, base mode, through both ends of ``tacit.hpke``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tacit import hpke

pytestmark = pytest.mark.vectors


@pytest.fixture(params=[0, 1], ids=["aes-128-gcm", "chacha20-poly1305"])
def vector(request: pytest.FixtureRequest, load_vector: Callable[[str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = load_vector("hpke/rfc9180_base_x25519.json")["vectors"][request.param]
    return found


def _suite(vector: dict[str, Any]) -> hpke.Suite:
    return hpke.Suite(vector["kem_id"], vector["kdf_id"], vector["aead_id"])


def test_public_keys_follow_from_private_ones(vector: dict[str, Any]) -> None:
    for role in "ER":
        pair = hpke.key_pair_from_private(bytes.fromhex(vector[f"sk{role}m"]))
        assert pair.public.hex() == vector[f"pk{role}m"]


def test_sender_and_recipient_reproduce_every_encryption(vector: dict[str, Any]) -> None:
    info = bytes.fromhex(vector["info"])
    sender = hpke.setup_sender(
        _suite(vector), bytes.fromhex(vector["pkRm"]), info, lambda n: bytes.fromhex(vector["skEm"])
    )
    assert sender.enc.hex() == vector["enc"]
    pair = hpke.key_pair_from_private(bytes.fromhex(vector["skRm"]))
    recipient = hpke.setup_recipient(_suite(vector), pair, sender.enc, info)
    wanted = {item["seq"]: item for item in vector["encryptions"]}
    for sequence in range(max(wanted) + 1):
        item = wanted.get(sequence, wanted[0])
        aad, plaintext = bytes.fromhex(item["aad"]), bytes.fromhex(item["pt"])
        ciphertext = sender.seal(aad, plaintext)
        if sequence in wanted:
            assert ciphertext.hex() == item["ct"]
        assert recipient.open(aad, ciphertext) == plaintext


def test_both_ends_export_the_same_secrets(vector: dict[str, Any]) -> None:
    info = bytes.fromhex(vector["info"])
    sender = hpke.setup_sender(
        _suite(vector), bytes.fromhex(vector["pkRm"]), info, lambda n: bytes.fromhex(vector["skEm"])
    )
    pair = hpke.key_pair_from_private(bytes.fromhex(vector["skRm"]))
    recipient = hpke.setup_recipient(_suite(vector), pair, bytes.fromhex(vector["enc"]), info)
    for item in vector["exports"]:
        context = bytes.fromhex(item["exporter_context"])
        assert sender.export(context, item["L"]).hex() == item["exported_value"]
        assert recipient.export(context, item["L"]).hex() == item["exported_value"]
