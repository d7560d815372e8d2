"""``tacit.hpke`` and ``tacit.signing``: round trips and refusals."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import hpke, signing
from tacit.errors import CryptoError, DecodeError

SUITES = [
    hpke.DEFAULT_SUITE,
    hpke.Suite(hpke.KEM_X25519, hpke.KDF_HKDF_SHA256, hpke.AEAD_CHACHA20POLY1305),
]
PAIR = hpke.key_pair_from_private(bytes(range(32)))


def counted(length: int) -> bytes:
    return bytes(7 * i % 256 for i in range(1, length + 1))


@settings(max_examples=50, deadline=None)
@given(suite=st.sampled_from(SUITES), info=st.binary(), aad=st.binary(), plaintext=st.binary())
def test_what_is_sealed_opens(suite: hpke.Suite, info: bytes, aad: bytes, plaintext: bytes) -> None:
    enc, ciphertext = hpke.seal(suite, PAIR.public, info, aad, plaintext, counted)
    assert hpke.open_(suite, PAIR, enc, info, aad, ciphertext) == plaintext
    assert hpke.Opener(suite, PAIR, info).open(enc, aad, ciphertext) == plaintext


@pytest.mark.parametrize("changed", ["info", "aad", "ciphertext", "enc", "key", "truncated", "empty"])
def test_a_change_anywhere_keeps_a_ciphertext_closed(changed: str) -> None:
    enc, ciphertext = hpke.seal(hpke.DEFAULT_SUITE, PAIR.public, b"info", b"aad", b"text", counted)
    info = b"other" if changed == "info" else b"info"
    aad = b"other" if changed == "aad" else b"aad"
    pair = hpke.generate_key_pair(counted) if changed == "key" else PAIR
    enc = bytes(reversed(enc)) if changed == "enc" else enc
    if changed == "ciphertext":
        ciphertext = bytes((ciphertext[0] ^ 1,)) + ciphertext[1:]
    ciphertext = {"truncated": ciphertext[:15], "empty": b""}.get(changed, ciphertext)
    with pytest.raises(CryptoError):
        hpke.open_(hpke.DEFAULT_SUITE, pair, enc, info, aad, ciphertext)
    with pytest.raises(CryptoError):
        hpke.Opener(hpke.DEFAULT_SUITE, pair, info).open(enc, aad, ciphertext)


@pytest.mark.parametrize("suite", [hpke.Suite(0x10, 1, 1), hpke.Suite(0x20, 2, 1), hpke.Suite(0x20, 1, 2)], ids=str)
def test_suites_that_are_not_supported_are_refused(suite: hpke.Suite) -> None:
    assert not suite.supported
    with pytest.raises(CryptoError):
        hpke.setup_sender(suite, PAIR.public, b"", counted)
    with pytest.raises(CryptoError):
        hpke.setup_recipient(suite, PAIR, PAIR.public, b"")
    with pytest.raises(CryptoError):
        hpke.Opener(suite, PAIR, b"")
    with pytest.raises(CryptoError):
        _ = suite.key_size


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31), b"", bytes(31), bytes(33)], ids=bytes.hex)
def test_public_keys_of_low_order_or_wrong_size_are_refused(public: bytes) -> None:
    with pytest.raises(CryptoError):
        hpke.setup_sender(hpke.DEFAULT_SUITE, public, b"", counted)
    with pytest.raises(CryptoError):
        hpke.setup_recipient(hpke.DEFAULT_SUITE, PAIR, public, b"")
    with pytest.raises(CryptoError):
        hpke.Opener(hpke.DEFAULT_SUITE, PAIR, b"").open(public, b"", bytes(20))


def test_a_failed_open_does_not_advance_the_sequence() -> None:
    sender = hpke.setup_sender(hpke.DEFAULT_SUITE, PAIR.public, b"", counted)
    recipient = hpke.setup_recipient(hpke.DEFAULT_SUITE, PAIR, sender.enc, b"")
    ciphertext = sender.seal(b"", b"first")
    with pytest.raises(CryptoError):
        recipient.open(b"wrong", ciphertext)
    assert recipient.open(b"", ciphertext) == b"first"


def test_key_material_of_a_wrong_size_is_refused() -> None:
    with pytest.raises(DecodeError):
        hpke.key_pair_from_private(bytes(31))
    with pytest.raises(DecodeError):
        hpke.KeyPair(bytes(32), bytes(31))
    with pytest.raises(ValueError, match="8160"):
        hpke.expand(bytes(32), b"", 8161)


def test_private_keys_do_not_show_in_repr() -> None:
    assert PAIR.private.hex() not in repr(PAIR)
    assert repr(PAIR.private) not in repr(PAIR)
    key = signing.generate_signing_key(counted)
    assert repr(key.private) not in repr(key)


def test_a_signature_verifies_under_its_own_label_only() -> None:
    key = signing.generate_signing_key(counted)
    signature = key.sign(b"one\0", b"data")
    signing.verify(key.public, signature, b"data", label=b"one\0")
    signing.verify(key.public, signature, b"one\0data")
    with pytest.raises(CryptoError):
        signing.verify(key.public, signature, b"data", label=b"two\0")


def test_signing_keys_and_signatures_of_a_wrong_size_are_refused() -> None:
    key = signing.generate_signing_key(counted)
    with pytest.raises(DecodeError):
        signing.sign(bytes(31), b"", b"")
    with pytest.raises(CryptoError):
        signing.verify(key.public, bytes(63), b"")
    with pytest.raises(CryptoError):
        signing.verify(bytes(31), bytes(64), b"")
