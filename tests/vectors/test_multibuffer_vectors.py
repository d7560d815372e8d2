"""Published vectors through the multi-buffer kernels: RFC 7748, RFC 9180, Wycheproof's X25519 and RSASSA-PSS."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from tacit import hpke
from tacit.hpke import RecipientContext, Suite
from tacit.multibuffer.hpke import BatchOpener
from tacit.multibuffer.interface import DerivedKeys, Multibuffer, Setup
from tacit.multibuffer.sealing import BatchSealer
from tacit.multibuffer.tokens import verify_signatures
from tacit.tokens.blind_rsa import TokenKey
from tests.kit.multibuffer import LEVELS, chosen_kernels

FILLING = 9
"""Messages per batch, so that the vector is in every lane of a full group and alone in the next."""


@pytest.fixture(params=LEVELS)
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Multibuffer:
    """The kernels themselves, with nothing behind them."""
    return chosen_kernels(request.param, monkeypatch)


def test_a_thousand_iterations_of_rfc_7748(kernels: Multibuffer) -> None:
    scalar = point = (9).to_bytes(32, "little")
    for iteration in range(1000):
        secret, _ = kernels.x25519(scalar, point)
        scalar, point = secret, scalar
        if iteration == 0:
            assert scalar.hex() == "422c8e7a6227d7bca1350b3e2bb7279f7897b87bb6854b783c60e80311ae3079"
    assert scalar.hex() == "684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51"


@pytest.mark.vectors
def test_every_wycheproof_x25519_case_at_once(kernels: Multibuffer, load_vector: Callable[[str], Any]) -> None:
    groups = load_vector("wycheproof/x25519_test.json")["testGroups"]
    cases = [case for group in groups for case in group["tests"]]
    scalars, points, secrets = (
        b"".join(bytes.fromhex(case[name]) for case in cases) for name in ("private", "public", "shared")
    )
    found, flags = kernels.x25519(scalars, points)
    assert [case["tcId"] for i, case in enumerate(cases) if found[32 * i : 32 * i + 32].hex() != case["shared"]] == []
    assert found == secrets
    assert [bool(flag) for flag in flags] == [not any(bytes.fromhex(case["shared"])) for case in cases]
    assert len(cases) == 518
    assert sum(flags) > 0


@pytest.fixture(params=[0, 1], ids=["aes-128-gcm", "chacha20-poly1305"])
def vector(request: pytest.FixtureRequest, load_vector: Callable[[str], Any]) -> dict[str, Any]:
    """A vector of RFC 9180 A.1.1 or A.2.1."""
    found: dict[str, Any] = load_vector("hpke/rfc9180_base_x25519.json")["vectors"][request.param]
    return found


def _setup(vector: dict[str, Any]) -> tuple[Suite, Setup]:
    suite = Suite(vector["kem_id"], vector["kdf_id"], vector["aead_id"])
    public, info = bytes.fromhex(vector["pkRm"]), bytes.fromhex(vector["info"])
    return suite, Setup(public, *hpke.key_schedule_context(suite, info), suite.key_size)


def _rows(made: DerivedKeys) -> list[bytes]:
    return [bytes(rows) for rows in (made.keys, made.nonces, made.exporters, made.flags)]


@pytest.mark.vectors
def test_the_kernels_derive_the_keys_of_rfc_9180(kernels: Multibuffer, vector: dict[str, Any]) -> None:
    _, setup = _setup(vector)
    enc, key, nonce, exporter = (
        bytes.fromhex(vector[name]) * FILLING for name in ("enc", "key", "base_nonce", "exporter_secret")
    )
    opened = kernels.hpke_open(bytes.fromhex(vector["skRm"]), setup, enc, exporters=True)
    assert _rows(opened) == [key, nonce, exporter, bytes(FILLING)]
    encs, sealed = kernels.hpke_seal(setup, bytes.fromhex(vector["skEm"]) * FILLING)
    assert [encs, *_rows(sealed)] == [enc, key, nonce, b"", bytes(FILLING)]


@pytest.mark.vectors
@pytest.mark.usefixtures("kernels")
def test_messages_of_rfc_9180_open_and_seal_in_a_batch(vector: dict[str, Any]) -> None:
    suite, setup = _setup(vector)
    info, enc = bytes.fromhex(vector["info"]), bytes.fromhex(vector["enc"])
    pair = hpke.key_pair_from_private(bytes.fromhex(vector["skRm"]))
    first = vector["encryptions"][0]
    aad, plaintext, ciphertext = (bytes.fromhex(first[name]) for name in ("aad", "pt", "ct"))
    opener = BatchOpener(pair, suite, info)
    assert opener.open_all([(enc, aad, ciphertext)] * FILLING) == [plaintext] * FILLING
    sealer = BatchSealer(setup.public_key, suite, info)
    ephemeral = bytes.fromhex(vector["skEm"])
    sealed = sealer.seal_all([(aad, plaintext)] * FILLING, lambda length: ephemeral * (length // len(ephemeral)))
    assert sealed == [(enc, ciphertext)] * FILLING
    for context in opener.contexts([enc] * FILLING):
        assert isinstance(context, RecipientContext)
        for item in vector["exports"]:
            exported = context.export(bytes.fromhex(item["exporter_context"]), item["L"])
            assert exported.hex() == item["exported_value"]


@pytest.mark.vectors
def test_every_wycheproof_signature_is_judged_as_published(load_vector: Callable[[str], Any]) -> None:
    seen = 0
    for group in load_vector("wycheproof/rsa_pss_2048_sha384_mgf1_48_test.json")["testGroups"]:
        modulus, exponent = (int(group["publicKey"][name], 16) for name in ("modulus", "publicExponent"))
        key = TokenKey.from_public_key(rsa.RSAPublicNumbers(exponent, modulus).public_key())
        cases = [case for case in group["tests"] if len(case["sig"]) == 512]
        odd = [case for case in group["tests"] if len(case["sig"]) != 512]
        for batch in (cases, odd):
            signed = [(bytes.fromhex(case["msg"]), bytes.fromhex(case["sig"])) for case in batch]
            verdicts = verify_signatures(key, signed)
            assert [c["tcId"] for c, ok in zip(batch, verdicts, strict=True) if ok != (c["result"] == "valid")] == []
            seen += len(batch)
    assert seen == 141


@pytest.mark.vectors
def test_the_kernels_alone_judge_wycheproof_signatures_as_published(
    kernels: Multibuffer, load_vector: Callable[[str], Any]
) -> None:
    for group in load_vector("wycheproof/rsa_pss_2048_sha384_mgf1_48_test.json")["testGroups"]:
        modulus = int(group["publicKey"]["modulus"], 16)
        cases = [case for case in group["tests"] if len(case["sig"]) == 512]
        hashes = b"".join(hashlib.sha384(bytes.fromhex(case["msg"])).digest() for case in cases)
        signatures = b"".join(bytes.fromhex(case["sig"]) for case in cases)
        numbers = (modulus.to_bytes(256, "big"), pow(2, 2 * kernels.r_bits, modulus).to_bytes(256, "big"))
        verdicts = kernels.rsa_verify(*numbers, signatures, hashes)
        assert list(verdicts) == [int(case["result"] == "valid") for case in cases]
