"""RFC 9577 and RFC 9578 type 0x0002: structures, headers and issuance, byte for byte, from three sources."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from tacit.errors import DecodeError
from tacit.tokens import blinding
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.issuance import PendingToken
from tacit.tokens.issuer_key import IssuerKey, issue
from tacit.tokens.structures import (
    BLIND_RSA_2048,
    Token,
    TokenChallenge,
    TokenRequest,
    TokenResponse,
    token_input,
)

pytestmark = pytest.mark.vectors

ISSUANCE = [
    "rfc9578_type2_blind_rsa_2048.json",
    "type2-issuance-pat-go.json",
    "type2-issuance-rust.json",
]
CHALLENGES = [
    "rfc9577_challenge_token.json",
    "auth-scheme-token-pat-go.json",
    "auth_scheme_token_v14-ts.json",
]
HEADERS = ["auth_scheme_header_v14-ts.json", "auth_scheme_header_complicated-ts.json"]

Load = Callable[[str], Any]


def entries(load_vector: Load, name: str) -> list[dict[str, Any]]:
    found = load_vector(f"privacypass/{name}")
    chosen: list[dict[str, Any]] = found["vectors"] if isinstance(found, dict) else found
    assert chosen
    return chosen


@pytest.mark.parametrize("name", ISSUANCE)
def test_issuance_of_type_2_reproduces_key_request_response_and_token(load_vector: Load, name: str) -> None:
    for vector in entries(load_vector, name):
        data = {k: bytes.fromhex(v) for k, v in vector.items() if isinstance(v, str) and k[0] != "_"}
        key = IssuerKey.from_pem(data["skS"])
        assert key.token_key.spki == data["pkS"]
        public = TokenKey.from_spki(data["pkS"])
        digest = TokenChallenge.decode(data["token_challenge"]).digest()
        message = token_input(2, data["nonce"], digest, public.token_key_id)
        r = int.from_bytes(data["blind"], "big")
        blinded, state = blinding.blind_with(public, message, salt=data["salt"], r=r)
        request = TokenRequest(public.truncated_token_key_id, blinded)
        assert request.encode() == data["token_request"]
        response = issue(key, TokenRequest.decode(data["token_request"]), os.urandom)
        assert response.encode() == data["token_response"]
        pending = PendingToken(request, data["nonce"], digest, public.token_key_id, state)
        token = PendingToken.decode(pending.encode()).finalize(public, TokenResponse.decode(data["token_response"]))
        assert token.encode() == data["token"]
        assert Token.decode(data["token"]) == token


@pytest.mark.parametrize("name", CHALLENGES)
def test_challenges_encode_to_the_authenticator_input_of_the_vector(load_vector: Load, name: str) -> None:
    for vector in entries(load_vector, name):
        token_type = int(vector["token_type"], 16)
        expected = bytes.fromhex(vector["token_authenticator_input"])
        if token_type != BLIND_RSA_2048:
            with pytest.raises(DecodeError, match="type"):
                Token.decode(expected + bytes(256))
            continue
        challenge = TokenChallenge(
            token_type,
            bytes.fromhex(vector["issuer_name"]).decode(),
            bytes.fromhex(vector["redemption_context"]),
            bytes.fromhex(vector["origin_info"]).decode(),
        )
        assert TokenChallenge.decode(challenge.encode()) == challenge
        nonce, key_id = bytes.fromhex(vector["nonce"]), bytes.fromhex(vector["token_key_id"])
        assert token_input(token_type, nonce, challenge.digest(), key_id) == expected
        token = Token.decode(expected + bytes(256))
        assert token.authenticator_input() == expected


@pytest.mark.parametrize("name", HEADERS)
def test_challenges_and_keys_of_headers_decode(load_vector: Load, name: str) -> None:
    for vector in entries(load_vector, name):
        for i in range(sum(1 for k in vector if k.startswith("token-type-"))):
            encoded = bytes.fromhex(vector[f"token-challenge-{i}"])
            challenge = TokenChallenge.decode(encoded)
            assert challenge.token_type == vector[f"token-type-{i}"]
            assert challenge.encode() == encoded
        TokenKey.from_spki(bytes.fromhex(vector["token-key-0"]))
