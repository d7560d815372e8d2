"""Privacy Pass structures, headers and the directory: round trips, strictness, and what a repr may tell."""

from __future__ import annotations

import contextlib
import json
from functools import lru_cache

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import CryptoError, DecodeError
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.directory import DirectoryKey, IssuerDirectory, padded_b64url, unpad_b64url
from tacit.tokens.issuance import PendingToken, request_token
from tacit.tokens.issuer_key import IssuerKey, issue
from tacit.tokens.slots import Slot, slot_challenge
from tacit.tokens.structures import Token, TokenChallenge, TokenRequest, TokenResponse

ascii_text = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)
bytes32 = st.binary(min_size=32, max_size=32)
bytes256 = st.binary(min_size=256, max_size=256)


@lru_cache
def issuer_key() -> IssuerKey:
    return IssuerKey.generate()


@given(st.integers(0, 0xFFFF), ascii_text.filter(bool), st.sampled_from([b"", b"c" * 32]), ascii_text)
def test_challenges_survive_a_round_trip(token_type: int, issuer: str, context: bytes, origin: str) -> None:
    challenge = TokenChallenge(token_type, issuer, context, origin)
    encoded = challenge.encode()
    assert TokenChallenge.decode(encoded) == challenge
    with pytest.raises(DecodeError):
        TokenChallenge.decode(encoded + b"\0")
    with pytest.raises(DecodeError):
        TokenChallenge.decode(encoded[:-1])


@given(bytes32, bytes32, bytes32, bytes256)
def test_tokens_survive_a_round_trip(nonce: bytes, digest: bytes, key_id: bytes, signature: bytes) -> None:
    token = Token(nonce, digest, key_id, signature)
    encoded = token.encode()
    assert len(encoded) == 354
    assert Token.decode(encoded) == token
    for wrong in (encoded + b"\0", encoded[:-1], b"\0\1" + encoded[2:]):
        with pytest.raises(DecodeError):
            Token.decode(wrong)


@given(st.integers(0, 255), bytes256)
def test_requests_and_responses_survive_a_round_trip(key_id: int, body: bytes) -> None:
    request = TokenRequest(key_id, body)
    assert len(request.encode()) == 259
    assert TokenRequest.decode(request.encode()) == request
    assert TokenResponse.decode(TokenResponse(body).encode()) == TokenResponse(body)
    for wrong in (request.encode() + b"\0", request.encode()[:-1], b"\0\3" + request.encode()[2:]):
        with pytest.raises(DecodeError):
            TokenRequest.decode(wrong)
    with pytest.raises(DecodeError):
        TokenResponse.decode(body + b"\0")


@given(st.binary(max_size=700))
def test_arbitrary_bytes_give_a_value_or_a_decode_error(data: bytes) -> None:
    """A value has one encoding: whatever is accepted is what it would be written as."""
    for kind in (TokenChallenge, Token, TokenRequest, TokenResponse, PendingToken):
        with contextlib.suppress(DecodeError):
            assert kind.decode(data).encode() == data
    for decode in (IssuerDirectory.decode, TokenKey.from_spki, IssuerKey.from_der):
        with contextlib.suppress(DecodeError):
            decode(data)


PIECES = (
    "PrivateToken",
    "Basic",
    " ",
    ", ",
    "challenge=",
    "token=",
    '"AAE="',
    "AAE=",
    "max-age=",
    "7",
    "token-key=",
    "\u00e9",
)


def test_a_redemption_context_has_0_or_32_bytes() -> None:
    encoded = TokenChallenge(2, "i", b"", "").encode()
    with pytest.raises(DecodeError, match="redemption context"):
        TokenChallenge.decode(encoded[:5] + b"\x01x" + encoded[6:])
    with pytest.raises(ValueError, match="redemption context"):
        TokenChallenge(2, "i", b"x", "")
    with pytest.raises(DecodeError):
        TokenChallenge.decode(b"\0\2\0\0\0\0\0")


@given(st.binary(max_size=40))
def test_padding_may_be_absent_but_not_wrong(data: bytes) -> None:
    text = padded_b64url(data)
    assert len(text) % 4 == 0
    assert unpad_b64url(text, "value") == unpad_b64url(text.rstrip("="), "value") == data
    with pytest.raises(DecodeError):
        unpad_b64url(text + "=", "value")


def test_the_directory_survives_a_round_trip_and_ignores_foreign_members() -> None:
    spki = issuer_key().token_key.spki
    keys = (DirectoryKey(spki, not_before=5, epoch=3, slot=0), DirectoryKey(b"raw", token_type=1))
    directory = IssuerDirectory("/token-request", keys)
    assert IssuerDirectory.decode(directory.encode()) == directory
    document = json.loads(directory.encode())
    assert document["token-keys"][0]["token-key"] == padded_b64url(spki)
    assert document["token-keys"][0]["token-type"] == 2
    document["other"] = document["token-keys"][0]["other"] = 1
    assert IssuerDirectory.decode(json.dumps(document).encode()) == directory
    assert keys[0].truncated_token_key_id == issuer_key().token_key.truncated_token_key_id


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"[" * 100_000,
        b"{}",
        b'{"issuer-request-uri":1,"token-keys":[]}',
        b'{"issuer-request-uri":"/","token-keys":[1]}',
        b'{"issuer-request-uri":"/","token-keys":[{"token-key":"AA=="}]}',
        b'{"issuer-request-uri":"/","token-keys":[{"token-type":2,"token-key":"?"}]}',
        b'{"issuer-request-uri":"/","token-keys":[{"token-type":true,"token-key":"AA=="}]}',
        b'{"issuer-request-uri":"/","token-keys":[{"token-type":2,"token-key":"AA==","epoch":"1"}]}',
    ],
)
def test_malformed_directories_are_refused(document: bytes) -> None:
    with pytest.raises(DecodeError):
        IssuerDirectory.decode(document)


def test_only_the_one_spelling_of_a_2048_bit_pss_key_is_a_token_key() -> None:
    key = issuer_key().token_key
    assert TokenKey.from_spki(key.spki) == key
    assert key.token_key_id[-1] == key.truncated_token_key_id
    der, info = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    plain = key.verifier.public_bytes(der, info)
    short = IssuerKey.generate(1024).token_key.spki
    curve = ec.generate_private_key(ec.SECP256R1()).public_key().public_bytes(der, info)
    for wrong in (plain, short, curve, key.spki + b"\0", key.spki[:-1], b""):
        with pytest.raises(DecodeError):
            TokenKey.from_spki(wrong)


def test_issuer_keys_load_from_what_they_write_and_from_nothing_else() -> None:
    key = issuer_key()
    again = IssuerKey.from_der(key.to_der())
    assert (again.token_key, again.p, again.q) == (key.token_key, key.p, key.q)
    foreign = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for wrong in (b"", b"-----BEGIN", foreign):
        with pytest.raises(DecodeError):
            IssuerKey.from_pem(wrong)


def test_an_answer_of_another_key_or_to_another_request_is_no_token() -> None:
    key, other = issuer_key(), IssuerKey.generate()
    challenge = slot_challenge(Slot("issuer", 1, 0))
    entropy = iter(range(1, 1000))

    def draw(length: int, /) -> bytes:
        return next(entropy).to_bytes(4, "big") * (length // 4) + b"\x07" * (length % 4)

    first = request_token(key.token_key, challenge, b"n" * 32, draw)
    second = request_token(key.token_key, challenge, b"m" * 32, draw)
    answer = issue(key, first.request, draw)
    with pytest.raises(CryptoError):
        second.finalize(key.token_key, answer)
    with pytest.raises(CryptoError, match="another key"):
        first.finalize(other.token_key, answer)
    assert first.finalize(key.token_key, answer).nonce == b"n" * 32


def test_nothing_secret_shows_in_a_repr() -> None:
    key = issuer_key()
    pending = request_token(key.token_key, slot_challenge(Slot("i", 0, 0)), b"n" * 32, lambda n: b"\x05" * n)
    token = pending.finalize(key.token_key, issue(key, pending.request, lambda n: b"\x06" * n))
    shown = " ".join(map(repr, (key, pending, pending.state, pending.request, token)))
    for secret in (key.p, key.d_q, pending.state.inverse, token.nonce, token.authenticator, pending.nonce):
        assert str(secret) not in shown
        assert repr(secret) not in shown
