"""Wycheproof's RSASSA-PSS cases (2048 bits, SHA-384, salt 48) through the verifier that checks tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tacit.errors import CryptoError
from tacit.tokens import blind_rsa
from tacit.tokens.blind_rsa import TokenKey

pytestmark = pytest.mark.vectors


def test_every_wycheproof_signature_is_judged_as_published(load_vector: Callable[[str], Any]) -> None:
    wrong: list[int] = []
    seen = 0
    for group in load_vector("wycheproof/rsa_pss_2048_sha384_mgf1_48_test.json")["testGroups"]:
        modulus = int(group["publicKey"]["modulus"], 16)
        exponent = int(group["publicKey"]["publicExponent"], 16)
        numbers = rsa.RSAPublicNumbers(exponent, modulus)
        key = TokenKey.from_spki(TokenKey.from_public_key(numbers.public_key()).spki)
        for case in group["tests"]:
            seen += 1
            try:
                blind_rsa.verify(key, bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"]))
                verdict = "valid"
            except CryptoError:
                verdict = "invalid"
            if verdict != case["result"]:
                wrong.append(case["tcId"])
    assert seen == 141
    assert wrong == []
