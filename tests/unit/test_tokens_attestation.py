"""Device evidence: encoding, binding, the software root's certificates."""

from __future__ import annotations

import hashlib
import os

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import DecodeError
from tacit.tokens.attestation import (
    DEVICE_EKU,
    SOFTWARE_ROOT,
    SoftwareDevice,
    SoftwareRootStatement,
    attestation_binding,
)
from tacit.tokens.software_root import SoftwareRoot
from tacit.tokens.structures import TokenRequest

NOW = 1_800_000_000.0


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=4), st.binary(min_size=1, max_size=80))
def test_statements_survive_a_round_trip(chain: list[bytes], signature: bytes) -> None:
    statement = SoftwareRootStatement(tuple(chain), signature)
    assert SoftwareRootStatement.decode(statement.encode()) == statement
    with pytest.raises(DecodeError):
        SoftwareRootStatement.decode(statement.encode() + b"\0")


@given(st.binary(max_size=200))
def test_arbitrary_statements_give_a_value_or_a_decode_error(data: bytes) -> None:
    try:
        statement = SoftwareRootStatement.decode(data)
    except DecodeError:
        return
    assert statement.encode() == data


def test_a_statement_with_a_long_chain_is_refused() -> None:
    with pytest.raises(DecodeError, match="too many"):
        SoftwareRootStatement.decode(SoftwareRootStatement((b"c",) * 5, b"s").encode())


def test_the_binding_covers_challenge_key_and_blinded_message() -> None:
    request = TokenRequest(5, b"b" * 256)
    expected = hashlib.sha256(b"tacit attest v1" + b"c" * 32 + b"\0\2\5" + b"b" * 256).digest()
    assert attestation_binding(b"c" * 32, request) == expected
    others = {
        attestation_binding(b"d" * 32, request),
        attestation_binding(b"c" * 32, TokenRequest(6, b"b" * 256)),
        attestation_binding(b"c" * 32, TokenRequest(5, b"B" * 256)),
    }
    assert len(others | {expected}) == 4


def test_a_device_signs_under_a_chain_that_ends_at_its_root() -> None:
    authority = SoftwareRoot.create(os.urandom, NOW)
    device = authority.issue("device 1", os.urandom, NOW)
    evidence = device.attest(b"b" * 32)
    assert evidence.fmt == SOFTWARE_ROOT
    statement = SoftwareRootStatement.decode(evidence.blob)
    leaf, intermediate = (x509.load_der_x509_certificate(der) for der in statement.chain)
    leaf.verify_directly_issued_by(intermediate)
    intermediate.verify_directly_issued_by(authority.root)
    assert list(leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value) == [DEVICE_EKU]
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(statement.signature, b"b" * 32, ec.ECDSA(hashes.SHA256()))
    assert x509.load_pem_x509_certificate(authority.root_pem) == authority.root


def test_a_device_identity_loads_from_its_file_and_hides_in_its_repr() -> None:
    authority = SoftwareRoot.create(os.urandom, NOW)
    device = authority.issue("device 1", os.urandom, NOW)
    again = SoftwareDevice.from_pem(device.to_pem())
    assert again.chain == device.chain
    assert again.attest(b"b" * 32) == device.attest(b"b" * 32)
    assert repr(device) == "SoftwareDevice()"
    assert "key" not in repr(authority)
    reloaded = SoftwareRoot.from_pem(authority.to_pem())
    reloaded.issue("device 2", os.urandom, NOW)
    assert reloaded.root == authority.root
    for wrong in (b"", b"-----BEGIN PRIVATE KEY-----\n", authority.root_pem):
        with pytest.raises(DecodeError):
            SoftwareDevice.from_pem(wrong)
        with pytest.raises(DecodeError):
            SoftwareRoot.from_pem(wrong)


def test_the_same_entropy_gives_the_same_authority() -> None:
    def draw(length: int, /) -> bytes:
        return b"\x21" * length

    assert SoftwareRoot.create(draw, NOW).root == SoftwareRoot.create(draw, NOW).root
