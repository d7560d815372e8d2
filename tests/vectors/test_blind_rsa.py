"""RFC 9474: the published vectors and every step of the four variants."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import gmpy2
import pytest

from tacit.errors import CryptoError, DecodeError
from tacit.tokens import blind_rsa, blinding
from tacit.tokens.blind_rsa import Variant
from tacit.tokens.issuer_key import IssuerKey, blind_sign

pytestmark = pytest.mark.vectors

FILE = "blind-rsa/rfc9474_test_vectors.json"
VARIANT_OF_SALT = {48: Variant.PSS_DETERMINISTIC, 0: Variant.PSSZERO_DETERMINISTIC}


class Counting:
    """Bytes that never repeat, the same in every run."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, length: int, /) -> bytes:
        self.calls += 1
        return hashlib.shake_256(self.calls.to_bytes(8, "big")).digest(length)


def key_of(vector: dict[str, str]) -> IssuerKey:
    return IssuerKey.from_primes(int(vector["p"], 16), int(vector["q"], 16), int(vector["e"], 16))


@pytest.fixture(params=[0, 1])
def vector(request: pytest.FixtureRequest, load_vector: Callable[[str], Any]) -> dict[str, str]:
    found: dict[str, str] = load_vector(FILE)[request.param]
    return found


def test_encoding_blinding_signing_and_unblinding_reproduce_every_byte(vector: dict[str, str]) -> None:
    key = key_of(vector)
    public = key.token_key
    message, salt = bytes.fromhex(vector["msg"]), bytes.fromhex(vector["salt"])
    variant = VARIANT_OF_SALT[len(salt)]
    assert int(public.n) == int(vector["n"], 16)
    assert blinding.pss_encode(message, public.n.bit_length() - 1, salt).hex() == vector["encoded_msg"]
    r = int(gmpy2.invert(int(vector["inv"], 16), public.n))
    blinded, state = blinding.blind_with(public, message, salt=salt, r=r)
    assert blinded.hex() == vector["blinded_msg"]
    assert state.inverse == int(vector["inv"], 16)
    signed = blind_sign(key, blinded, Counting())
    assert signed.hex() == vector["blind_sig"]
    assert blinding.finalize(public, message, signed, state, variant).hex() == vector["sig"]
    blind_rsa.verify(public, message, bytes.fromhex(vector["sig"]), variant)


def test_signatures_of_one_salt_size_do_not_verify_as_the_other(vector: dict[str, str]) -> None:
    public = key_of(vector).token_key
    other = VARIANT_OF_SALT[48 - len(bytes.fromhex(vector["salt"]))]
    with pytest.raises(CryptoError):
        blind_rsa.verify(public, bytes.fromhex(vector["msg"]), bytes.fromhex(vector["sig"]), other)


@pytest.mark.parametrize("variant", Variant)
def test_every_variant_issues_a_signature_that_verifies(variant: Variant) -> None:
    key = IssuerKey.generate()
    entropy = Counting()
    prepared = blinding.prepare(variant, b"question", entropy)
    assert len(prepared) == len(b"question") + (32 if variant.randomized else 0)
    blinded, state = blinding.blind(key.token_key, prepared, entropy, variant)
    signed = blind_sign(key, blinded, entropy)
    signature = blinding.finalize(key.token_key, prepared, signed, state, variant)
    blind_rsa.verify(key.token_key, prepared, signature, variant)
    with pytest.raises(CryptoError):
        blind_rsa.verify(key.token_key, prepared + b"!", signature, variant)


def test_a_message_of_the_wrong_size_or_above_the_modulus_is_not_signed(vector: dict[str, str]) -> None:
    key = key_of(vector)
    blinded = bytes.fromhex(vector["blinded_msg"])
    above = b"\xff" * len(blinded)
    for wrong in (
        b"",
        blinded[:-1],
        blinded + b"\0",
        above,
        int(key.token_key.n).to_bytes(len(blinded), "big"),
    ):
        with pytest.raises(DecodeError):
            blind_sign(key, wrong, Counting())


def test_a_modulus_too_short_for_the_salt_is_refused() -> None:
    assert len(blinding.pss_encode(b"", 8 * 98, b"s" * 48)) == 98
    with pytest.raises(ValueError, match="too short"):
        blinding.pss_encode(b"", 8 * 97, b"s" * 48)
