"""What a device proves to the attester about itself: evidence bound to one challenge and one token request.

``SoftwareDevice`` is the device side of the format ``software-root``: a certificate chain and an ECDSA P-256 signature
over the binding. It takes the place of a phone's hardware-backed key.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tacit.codec import Reader, Writer, b64url, unb64url
from tacit.errors import DecodeError
from tacit.tokens.structures import TokenRequest

SOFTWARE_ROOT = "software-root"
CHALLENGE_SIZE = 32
MAX_CHAIN = 4
_BINDING_LABEL = b"tacit attest v1"

DEVICE_EKU = x509.ObjectIdentifier("2.25.3484514375988928338760989750627880034")
"""Extended key usage of a device certificate; an arc that needs no registration (ITU-T X.667)."""

_SIGNATURE = ec.ECDSA(hashes.SHA256(), deterministic_signing=True)


@dataclass(frozen=True, slots=True)
class Evidence:
    """An attestation statement: the name of its format and its bytes."""

    fmt: str
    blob: bytes = field(repr=False)


def attestation_binding(challenge: bytes, request: TokenRequest) -> bytes:
    """SHA-256("tacit attest v1" || challenge || token request): what evidence must cover.

    The request holds the truncated key id and the blinded message, so evidence is good for one token only.
    """
    return hashlib.sha256(_BINDING_LABEL + challenge + request.encode()).digest()


def token_request_body(evidence: Evidence, challenge: bytes, request: TokenRequest) -> bytes:
    """JSON body of a device's POST /v1/token-requests to the attester."""
    document = {
        "evidence": {"fmt": evidence.fmt, "blob": b64url(evidence.blob)},
        "challenge": b64url(challenge),
        "token_request": b64url(request.encode()),
    }
    return json.dumps(document, separators=(",", ":")).encode()


def challenge_of(body: bytes) -> bytes:
    """The 32 bytes in the attester's answer to POST /v1/challenge. Raises ``DecodeError``."""
    try:
        text = json.loads(body)["challenge"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DecodeError("challenge response is malformed") from error
    if not isinstance(text, str):
        raise DecodeError("challenge response is malformed")
    return unb64url(text, length=CHALLENGE_SIZE, what="challenge")


@dataclass(frozen=True, slots=True)
class SoftwareRootStatement:
    """Blob of format ``software-root``: DER certificates, leaf first, without the root; a signature (DER)."""

    chain: tuple[bytes, ...] = field(repr=False)
    signature: bytes = field(repr=False)

    def encode(self) -> bytes:
        """struct { Certificate chain<1..2^16-1>; opaque signature<1..2^16-1>; }"""
        certificates = Writer()
        for certificate in self.chain:
            certificates.opaque(certificate, 2)
        return Writer().opaque(certificates.bytes(), 2).opaque(self.signature, 2).bytes()

    @classmethod
    def decode(cls, data: bytes) -> SoftwareRootStatement:
        """Strict inverse of ``encode``; one to four certificates. Raises ``DecodeError``."""
        reader = Reader(data, "software-root evidence")
        chain = reader.vector(2, lambda inner: inner.opaque(2, minimum=1), minimum=1)
        signature = reader.opaque(2, minimum=1)
        reader.end()
        if len(chain) > MAX_CHAIN:
            raise DecodeError("software-root evidence has too many certificates")
        return cls(tuple(chain), signature)


@dataclass(frozen=True)
class SoftwareDevice:
    """A device's attestation identity: certificates (DER, leaf first, without the root) and the leaf's key."""

    chain: tuple[bytes, ...] = field(repr=False)
    key: ec.EllipticCurvePrivateKey = field(repr=False)

    def attest(self, binding: bytes) -> Evidence:
        """Evidence over ``binding`` (32 bytes from ``attestation_binding``): the certificates, and a signature by the
        leaf's key."""
        statement = SoftwareRootStatement(self.chain, self.key.sign(binding, _SIGNATURE))
        return Evidence(SOFTWARE_ROOT, statement.encode())

    @property
    def fingerprint(self) -> bytes:
        """SHA-256 of the public key, with which a device tells a copy of its identity from another identity; used on
        the device only."""
        return hashlib.sha256(
            self.key.public_key().public_bytes(
                serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        ).digest()

    def to_pem(self) -> bytes:
        """Key, then certificates: one file that only the device may read."""
        key = self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        certificates = (x509.load_der_x509_certificate(der) for der in self.chain)
        return key + b"".join(c.public_bytes(serialization.Encoding.PEM) for c in certificates)

    @classmethod
    def from_pem(cls, pem: bytes) -> SoftwareDevice:
        """Inverse of ``to_pem``. Raises ``DecodeError``."""
        try:
            key = serialization.load_pem_private_key(pem, password=None)
            chain = tuple(c.public_bytes(serialization.Encoding.DER) for c in x509.load_pem_x509_certificates(pem))
        except (ValueError, TypeError) as error:
            raise DecodeError("device identity is not a PEM key with certificates") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise DecodeError("device key is not an elliptic-curve key")
        return cls(chain, key)
