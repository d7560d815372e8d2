"""Public keys under which nothing is secret or everything verifies are refused wherever a key is decoded."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.recipes import NOW, RecipeKit, changed
from tacit import curve25519, hpke, ohttp, signing
from tacit.aggregator.keys import generate_hpke_key, read_hpke_key, write_hpke_key
from tacit.codec import b64url
from tacit.errors import CryptoError, DecodeError, Refusal, UsageError
from tacit.messages import HpkeConfig
from tacit.recipe import derive
from tacit.recipe.context import Context, Stage
from tacit.rules import table as rules
from tacit.service.base.secret_files import write_secret
from tacit.tlog.checkpoint import NoteKey
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.issuer_key import IssuerKey

P = 2**255 - 19
ENTROPY = SeededEntropy(b"weak keys")
KIT = RecipeKit()
DRAFT = Context(stage=Stage.DRAFT, now=NOW)

ORDER_8 = 325606250916557431795983626356110631294008115727848805560023387167927233504
"""A u-coordinate of order 8 on Curve25519; its inverse is the other one (RFC 7748 section 7 names the set)."""
LOW_ORDER_U = (0, 1, P - 1, ORDER_8, pow(ORDER_8, -1, P))
LOW_ORDER_X25519 = sorted(
    {
        (u + multiple * P + high * 2**255).to_bytes(32, "little")
        for u in LOW_ORDER_U
        for multiple in (0, 1)
        for high in (0, 1)
        if u + multiple * P < 2**255
    }
)
NON_CANONICAL_X25519 = [(9 + P).to_bytes(32, "little"), (9 + 2**255).to_bytes(32, "little")]

Y_ORDER_8 = (ORDER_8 - 1) * pow(ORDER_8 + 1, -1, P) % P
"""Of the same point on the Edwards curve (RFC 7748 section 4.1)."""
LOW_ORDER_ED25519 = [
    (y + sign * 2**255).to_bytes(32, "little")
    for y in (0, 1, P - 1, P, P + 1, Y_ORDER_8, P - Y_ORDER_8)
    for sign in (0, 1)
]


def _hpke_text(public: bytes) -> str:
    suite = hpke.DEFAULT_SUITE
    return b64url(HpkeConfig(1, suite.kem_id, suite.kdf_id, suite.aead_id, public).encode())


def test_the_low_order_points_are_all_that_the_library_itself_refuses() -> None:
    assert len(LOW_ORDER_X25519) == 14
    pair = hpke.generate_key_pair(ENTROPY)
    for public in LOW_ORDER_X25519:
        with pytest.raises(CryptoError, match="low order"):
            pair.exchange(public)


@pytest.mark.parametrize("public", [*LOW_ORDER_X25519, *NON_CANONICAL_X25519], ids=bytes.hex)
def test_a_weak_or_second_spelling_of_an_x25519_key_is_no_key_anywhere(public: bytes, tmp_path: Path) -> None:
    with pytest.raises(DecodeError):
        curve25519.checked_public_key(public)
    algorithms = ((hpke.KDF_HKDF_SHA256, hpke.AEAD_AES128GCM),)
    encoded = ohttp.KeyConfig(1, hpke.KEM_X25519, public, algorithms).encode()
    with pytest.raises(DecodeError):
        ohttp.KeyConfig.decode(encoded)
    with pytest.raises(Refusal, match="hpke-key-invalid"):
        derive.hpke_config(_hpke_text(public))
    for party in ("leader", "helper", "collector"):
        recipe = changed(KIT.recipe(), f"parties.{party}.hpke_config", _hpke_text(public))
        assert [one.rule for one in rules.check(recipe, KIT.policy, DRAFT, only={"hpke-key-invalid"})]
    write_secret(
        tmp_path / "key", json.dumps({"config": _hpke_text(public), "private_key": b64url(bytes(32))}).encode()
    )
    with pytest.raises(UsageError):
        read_hpke_key(tmp_path / "key")


def test_an_ordinary_x25519_key_passes_in_one_spelling() -> None:
    for _ in range(50):
        public = hpke.generate_key_pair(ENTROPY).public
        assert curve25519.checked_public_key(public) == public
    for wrong in (b"", bytes(31), bytes(33)):
        with pytest.raises(DecodeError):
            curve25519.checked_public_key(wrong)


def test_a_private_key_that_does_not_belong_to_its_configuration_is_noticed_when_it_is_read(tmp_path: Path) -> None:
    key, other = generate_hpke_key(1, ENTROPY), generate_hpke_key(1, ENTROPY)
    write_hpke_key(tmp_path / "good", key)
    assert read_hpke_key(tmp_path / "good") == key
    write_hpke_key(tmp_path / "mixed", replace(key, key_pair=other.key_pair))
    with pytest.raises(UsageError, match="does not belong"):
        read_hpke_key(tmp_path / "mixed")


@pytest.mark.parametrize("public", LOW_ORDER_ED25519, ids=bytes.hex)
def test_no_signature_verifies_under_a_verification_key_of_small_order(public: bytes) -> None:
    """Under such a key one signature may fit any message: S = 0 and R = A or the identity, for some of them."""
    for commitment in {public, *LOW_ORDER_ED25519}:
        for message in (b"one", b"two", b"three", b"four", b"five"):
            with pytest.raises(CryptoError):
                signing.verify(public, commitment + bytes(32), message)
    with pytest.raises(DecodeError):
        NoteKey("log.example", public)
    for party in ("analyst", "leader", "helper", "gateway", "issuer"):
        recipe = changed(KIT.recipe(), f"parties.{party}.signing_key", b64url(public))
        found = rules.check(recipe, KIT.policy, DRAFT, only={"signing-key-invalid"})
        assert [one.rule for one in found] == ["signing-key-invalid"]


def test_ordinary_signing_keys_pass_and_bytes_that_are_no_point_do_not() -> None:
    for _ in range(20):
        key = signing.generate_signing_key(ENTROPY)
        assert signing.checked_public_key(key.public) == key.public
        signing.verify(key.public, key.sign(b"label\0", b"data"), b"data", label=b"label\0")
    off_curve = next(
        y.to_bytes(32, "little")
        for y in range(2, 50)
        if pow((y * y - 1) * pow(-121665 * pow(121666, -1, P) * y * y + 1, -1, P), (P - 1) // 2, P) == P - 1
    )
    for wrong in (off_curve, bytes(31), bytes(33), b"\xff" * 32):
        with pytest.raises(DecodeError):
            signing.checked_public_key(wrong)


def _spki(e: int, n: int) -> bytes:
    """A token key with these numbers, in the form that directories use."""
    known = IssuerKey.generate().token_key.spki
    head = known[: known.index(b"\x03\x82") + 5]
    whole = _der(2, n) + _der(2, e)
    pkcs1 = b"\x30\x82" + len(whole).to_bytes(2, "big") + whole
    algorithm = head[4:-5]
    bits = b"\x03\x82" + (len(pkcs1) + 1).to_bytes(2, "big") + b"\x00" + pkcs1
    return b"\x30\x82" + (len(algorithm) + len(bits)).to_bytes(2, "big") + algorithm + bits


def _der(tag: int, number: int) -> bytes:
    data = number.to_bytes(number.bit_length() // 8 + 1, "big")
    size = bytes([len(data)]) if len(data) < 128 else b"\x82" + len(data).to_bytes(2, "big")
    return bytes([tag]) + size + data


def test_a_token_key_has_2048_bits_an_odd_modulus_and_the_usual_exponent() -> None:
    numbers = rsa.generate_private_key(65537, 2048).public_key().public_numbers()
    assert TokenKey.from_spki(_spki(65537, numbers.n)).n == numbers.n
    spoilt = [(e, numbers.n) for e in (1, 2, 3, 17, 65539, 2**64 + 1, numbers.n - 2)]
    spoilt += [(65537, n) for n in (numbers.n - 1, numbers.n >> 1, numbers.n << 1 | 1, 1, 0)]
    for e, n in spoilt:
        with pytest.raises(DecodeError):
            TokenKey.from_spki(_spki(e, n))
    other = rsa.generate_private_key(3, 2048).public_key()
    plain = other.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    for garbage in (plain, b"", b"\x30" * 4000):
        with pytest.raises(DecodeError):
            TokenKey.from_spki(garbage)
