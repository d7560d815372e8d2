"""Batched token verification: the same verdicts as OpenSSL's, whatever the lanes hold."""

from __future__ import annotations

import hashlib
import itertools
import random
from functools import cache

import gmpy2
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tacit.dap_errors import ReportRejected
from tacit.errors import CryptoError
from tacit.multibuffer import tokens
from tacit.multibuffer.crypto import BatchCrypto
from tacit.multibuffer.tokens import verify_signatures, verify_tokens
from tacit.tokens import blind_rsa, blinding
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.slots import Slot, TokenVerifier, slot_challenge
from tacit.tokens.structures import Token, token_input
from tests.kit.multibuffer import LEVELS, chosen_kernels

SIZES = [*range(18), 65]


@pytest.fixture(params=[*LEVELS, "off"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test runs with the kernels that the processor runs, and with OpenSSL alone."""
    chosen = str(request.param)
    if chosen == "off":
        monkeypatch.setenv("TACIT_NATIVE", "off")
    else:
        chosen_kernels(chosen, monkeypatch)
    return chosen


@cache
def private_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(65537, 2048)


def token_key() -> TokenKey:
    return TokenKey.from_public_key(private_key().public_key())


def sign(message: bytes, salt: int = 48) -> bytes:
    scheme = padding.PSS(padding.MGF1(hashes.SHA384()), salt)
    return private_key().sign(message, scheme, hashes.SHA384())


def power(encoded: int) -> bytes:
    """What the private key makes of an encoded message."""
    numbers = private_key().private_numbers()
    return int(gmpy2.powmod(encoded, numbers.d, numbers.public_numbers.n)).to_bytes(256, "big")


@cache
def signed() -> tuple[tuple[bytes, bytes], ...]:
    messages = [bytes((i,)) * (i + 30) for i in range(20)]
    return tuple((message, sign(message)) for message in messages)


@cache
def signed_small() -> tuple[bytes, bytes]:
    """A signature whose first byte is zero: one in 256 is, of any message."""
    for number in itertools.count():
        message = number.to_bytes(4, "big")
        signature = sign(message)
        if signature[0] == 0:
            return message, signature
    raise AssertionError("unreachable")


def openssl(pairs: list[tuple[bytes, bytes]]) -> list[bool]:
    def alone(message: bytes, signature: bytes) -> bool:
        try:
            blind_rsa.verify(token_key(), message, signature)
        except CryptoError:
            return False
        return True

    return [alone(*pair) for pair in pairs]


@pytest.mark.parametrize("size", SIZES)
def test_every_batch_size_accepts_good_signatures_and_refuses_the_one_damaged(size: int) -> None:
    pairs = [signed()[i % 20] for i in range(size)]
    assert verify_signatures(token_key(), pairs) == [True] * size
    if size:
        chance = random.Random(size)
        damaged = chance.randrange(size)
        message, signature = pairs[damaged]
        at, bit = chance.randrange(256), chance.randrange(8)
        pairs[damaged] = (message, signature[:at] + bytes((signature[at] ^ 1 << bit,)) + signature[at + 1 :])
        assert verify_signatures(token_key(), pairs) == [i != damaged for i in range(size)]


def test_values_outside_the_range_of_the_modulus_are_refused() -> None:
    modulus = int(token_key().n)
    edges = [0, 1, 2, modulus - 1, modulus, modulus + 1, 2**2048 - 1, 2**2047, 2**2048 - 2**1996]
    pairs = [(b"edge", value.to_bytes(256, "big")) for value in edges]
    shifted = [
        (message, (int.from_bytes(signature, "big") + modulus).to_bytes(257, "big")[-256:])
        for message, signature in signed()
    ]
    negated = [(m, (modulus - int.from_bytes(s, "big")).to_bytes(256, "big")) for m, s in signed()]
    everything = [*pairs, *shifted, *negated, *signed()]
    verdicts = verify_signatures(token_key(), everything)
    assert verdicts == openssl(everything)
    assert sum(verdicts) == len(signed())


def test_every_part_of_the_encoded_message_is_checked() -> None:
    """Encodings with one bit changed, signed again with the private key, so that only the PSS check can refuse."""
    message = b"encoded"
    salt = bytes(range(48))
    good = int.from_bytes(blinding.pss_encode(message, 2047, salt), "big")
    flips = [*range(0, 2047, 16), 2046, *range(8), 8, 391, 392, 393, 775, 776, 783, 784, 785]
    pairs = [(message, power(good ^ 1 << bit)) for bit in flips if good ^ 1 << bit < token_key().n]
    pairs.append((message, power(good)))
    verdicts = verify_signatures(token_key(), pairs)
    assert verdicts == openssl(pairs)
    assert verdicts == [False] * (len(pairs) - 1) + [True]


@pytest.mark.parametrize("salt", [0, 1, 20, 32, 47, 49, 64, 157])
def test_other_salt_lengths_are_refused(salt: int) -> None:
    pairs = [(b"salted", sign(b"salted", salt)) for _ in range(3)] + list(signed()[:3])
    assert verify_signatures(token_key(), pairs) == [False] * 3 + [True] * 3


def test_other_hashes_are_refused() -> None:
    scheme = padding.PSS(padding.MGF1(hashes.SHA256()), 48)
    other = private_key().sign(b"hash", scheme, hashes.SHA384())
    mixed = private_key().sign(b"hash", padding.PSS(padding.MGF1(hashes.SHA384()), 48), hashes.SHA512())
    pairs = [(b"hash", other), (b"hash", mixed), (b"hash", sign(b"hash")), *signed()[:5]]
    assert verify_signatures(token_key(), pairs) == [False, False] + [True] * 6


def test_signatures_of_another_length_are_refused_and_their_neighbours_are_not() -> None:
    message, signature = signed()[0]
    pairs = [(message, b""), (message, signature[1:]), (message, b"\0" + signature), *signed()]
    assert verify_signatures(token_key(), pairs) == [False] * 3 + [True] * 20


def test_a_signature_that_begins_with_a_zero_byte_is_taken_whole_and_not_without_it() -> None:
    message, signature = signed_small()
    assert verify_signatures(token_key(), [signed_small(), *signed()]) == [True] * 21
    shorter = (message, signature[1:])
    assert verify_signatures(token_key(), [shorter, *signed()]) == [False] + [True] * 20
    with pytest.raises(CryptoError, match="255 bytes, not 256"):
        blind_rsa.verify(token_key(), *shorter)


@pytest.mark.parametrize(("bits", "exponent"), [(2048, 3), (1024, 65537), (3072, 65537)])
def test_keys_that_the_kernels_do_not_know_go_to_openssl(bits: int, exponent: int) -> None:
    private = rsa.generate_private_key(exponent, bits)
    key = TokenKey.from_public_key(private.public_key())
    scheme = padding.PSS(padding.MGF1(hashes.SHA384()), 48)
    pairs = [(bytes((i,)), private.sign(bytes((i,)), scheme, hashes.SHA384())) for i in range(4)]
    pairs[2] = (b"x", pairs[2][1])
    assert verify_signatures(key, pairs) == [True, True, False, True]


def _token(slot: Slot, nonce: bytes, signature: bytes | None = None) -> bytes:
    digest, key_id = slot_challenge(slot).digest(), token_key().token_key_id
    return Token(nonce, digest, key_id, signature or sign(token_input(2, nonce, digest, key_id))).encode()


def test_a_verdict_is_what_the_verifier_says_of_each_token() -> None:
    slot = Slot("issuer.example", 7, 3)
    verifier = TokenVerifier(token_key().spki, slot)
    good = [_token(slot, hashlib.sha256(bytes((i,))).digest()) for i in range(9)]
    forged = [_token(slot, bytes(32), bytes(256)), _token(slot, bytes(32), good[0][-256:])]

    def alone(token: bytes) -> bool:
        try:
            verifier.verify(token)
        except ReportRejected:
            return False
        return True

    batch = [*good[:4], *forged, *good[4:]]
    assert verify_tokens(verifier, batch) == [alone(token) for token in batch]
    assert BatchCrypto().verify_tokens(verifier, batch) == [True] * 4 + [False] * 2 + [True] * 5


def test_kernels_that_refuse_everything_cost_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_accept", lambda _, pairs: bytes(len(pairs)))
    assert verify_signatures(token_key(), list(signed())) == [True] * 20
