"""Wycheproof's Ed25519 cases through ``tacit.signing``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tacit.errors import CryptoError
from tacit.signing import verify

pytestmark = pytest.mark.vectors


def test_ed25519_accepts_valid_and_refuses_invalid_signatures(load_vector: Callable[[str], Any]) -> None:
    document = load_vector("wycheproof/ed25519_test.json")
    seen = {"valid": 0, "invalid": 0}
    for group in document["testGroups"]:
        public = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            signature, message = bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"])
            seen[case["result"]] += 1
            if case["result"] == "valid":
                verify(public, signature, message)
            else:
                with pytest.raises(CryptoError):
                    verify(public, signature, message)
    assert min(seen.values()) > 0
    assert sum(seen.values()) == document["numberOfTests"]
