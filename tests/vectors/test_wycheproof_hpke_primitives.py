"""Wycheproof's X25519 and AES-GCM cases through the wrappers that HPKE uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tacit import hpke
from tacit.errors import CryptoError

pytestmark = pytest.mark.vectors


def _cases(document: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    found = [(group, case) for group in document["testGroups"] for case in group["tests"]]
    assert len(found) == document["numberOfTests"]
    return found


def test_x25519_agrees_with_every_case_and_refuses_zero_secrets(load_vector: Callable[[str], Any]) -> None:
    refused = 0
    for _, case in _cases(load_vector("wycheproof/x25519_test.json")):
        pair = hpke.key_pair_from_private(bytes.fromhex(case["private"]))
        public, shared = bytes.fromhex(case["public"]), bytes.fromhex(case["shared"])
        assert case["result"] in ("valid", "acceptable"), case["tcId"]
        if any(shared):
            assert pair.exchange(public) == shared, case["tcId"]
        else:
            refused += 1
            with pytest.raises(CryptoError):
                pair.exchange(public)
    assert refused > 0


def test_aes_128_gcm_agrees_with_every_case_of_its_sizes(load_vector: Callable[[str], Any]) -> None:
    seen = {"valid": 0, "invalid": 0}
    for group, case in _cases(load_vector("wycheproof/aes_gcm_test.json")):
        if (group["keySize"], group["ivSize"], group["tagSize"]) != (128, 96, 128):
            continue
        key, nonce, aad = (bytes.fromhex(case[name]) for name in ("key", "iv", "aad"))
        plaintext, sealed = bytes.fromhex(case["msg"]), bytes.fromhex(case["ct"] + case["tag"])
        seen[case["result"]] += 1
        if case["result"] == "valid":
            assert hpke.aead_seal(hpke.AEAD_AES128GCM, key, nonce, aad, plaintext) == sealed, case["tcId"]
            assert hpke.aead_open(hpke.AEAD_AES128GCM, key, nonce, aad, sealed) == plaintext, case["tcId"]
        else:
            with pytest.raises(CryptoError):
                hpke.aead_open(hpke.AEAD_AES128GCM, key, nonce, aad, sealed)
    assert min(seen.values()) > 0


def test_aes_gcm_with_other_key_or_nonce_sizes_is_refused(load_vector: Callable[[str], Any]) -> None:
    refused = 0
    for group, case in _cases(load_vector("wycheproof/aes_gcm_test.json")):
        if (group["keySize"], group["ivSize"]) == (128, 96):
            continue
        refused += 1
        key, nonce, aad = (bytes.fromhex(case[name]) for name in ("key", "iv", "aad"))
        with pytest.raises(ValueError, match="key must have the AEAD's size"):
            hpke.aead_open(hpke.AEAD_AES128GCM, key, nonce, aad, bytes.fromhex(case["ct"] + case["tag"]))
    assert refused > 0
