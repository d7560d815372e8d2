"""A certificate authority for devices without attestation hardware: root, one intermediate, device leaves.

Used where fleets are simulated or provisioned by their owner. Keys and serial numbers come from the
``entropy`` argument, validity from the caller's clock.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tacit.errors import DecodeError
from tacit.ports import Entropy
from tacit.tokens.attestation import DEVICE_EKU, SoftwareDevice

_CURVE = ec.SECP256R1()
_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_DAY = 86400.0


def _private_key(entropy: Entropy) -> ec.EllipticCurvePrivateKey:
    """Uniform P-256 key by rejection."""
    while True:
        value = int.from_bytes(entropy(32), "big")
        if 0 < value < _P256_ORDER:
            return ec.derive_private_key(value, _CURVE)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _when(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC)


def _key_usage(*, authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )


@dataclass(frozen=True)
class Validity:
    """Start and end of validity, POSIX seconds."""

    not_before: float
    not_after: float


def _certificate(
    subject: tuple[str, ec.EllipticCurvePublicKey],
    issuer: tuple[x509.Name, ec.EllipticCurvePrivateKey],
    validity: Validity,
    entropy: Entropy,
    constraints: x509.BasicConstraints,
    *,
    eku: x509.ObjectIdentifier | None = None,
) -> x509.Certificate:
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(subject[0]))
        .issuer_name(issuer[0])
        .public_key(subject[1])
        .serial_number(int.from_bytes(b"\x01" + entropy(15), "big"))
        .not_valid_before(_when(validity.not_before))
        .not_valid_after(_when(validity.not_after))
        .add_extension(constraints, critical=True)
        .add_extension(_key_usage(authority=constraints.ca), critical=True)
    )
    if eku is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage([eku]), critical=True)
    return builder.sign(issuer[1], hashes.SHA256(), ecdsa_deterministic=True)


@dataclass(frozen=True)
class SoftwareRoot:
    """The authority: two certificates and the intermediate's key. The root's key is used once and discarded."""

    root: x509.Certificate
    intermediate: x509.Certificate
    intermediate_key: ec.EllipticCurvePrivateKey = field(repr=False)

    @classmethod
    def create(cls, entropy: Entropy, now: float, lifetime: float = 3650 * _DAY) -> SoftwareRoot:
        """A fresh authority, valid from one day before ``now`` for ``lifetime`` seconds."""
        validity = Validity(now - _DAY, now + lifetime)
        root_key, intermediate_key = _private_key(entropy), _private_key(entropy)
        name = "Software attestation root"
        root = _certificate(
            (name, root_key.public_key()),
            (_name(name), root_key),
            validity,
            entropy,
            x509.BasicConstraints(ca=True, path_length=1),
        )
        intermediate = _certificate(
            ("Software attestation intermediate", intermediate_key.public_key()),
            (root.subject, root_key),
            validity,
            entropy,
            x509.BasicConstraints(ca=True, path_length=0),
        )
        return cls(root, intermediate, intermediate_key)

    @property
    def root_pem(self) -> bytes:
        """The root certificate with which an attester is configured."""
        return self.root.public_bytes(serialization.Encoding.PEM)

    def issue(
        self,
        name: str,
        entropy: Entropy,
        now: float,
        lifetime: float = 365 * _DAY,
        eku: x509.ObjectIdentifier | None = DEVICE_EKU,
    ) -> SoftwareDevice:
        """A device with a fresh key and a certificate for ``name`` (1 to 64 characters)."""
        key = _private_key(entropy)
        leaf = _certificate(
            (name, key.public_key()),
            (self.intermediate.subject, self.intermediate_key),
            Validity(now - _DAY, now + lifetime),
            entropy,
            x509.BasicConstraints(ca=False, path_length=None),
            eku=eku,
        )
        der = serialization.Encoding.DER
        return SoftwareDevice((leaf.public_bytes(der), self.intermediate.public_bytes(der)), key)

    def to_pem(self) -> bytes:
        """Key of the intermediate, intermediate, root: one file that only the authority may read."""
        key = self.intermediate_key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return key + self.intermediate.public_bytes(serialization.Encoding.PEM) + self.root_pem

    @classmethod
    def from_pem(cls, pem: bytes) -> SoftwareRoot:
        """Inverse of ``to_pem``. Raises ``DecodeError``."""
        try:
            key = serialization.load_pem_private_key(pem, password=None)
            certificates = x509.load_pem_x509_certificates(pem)
        except (ValueError, TypeError) as error:
            raise DecodeError("attestation authority is not a PEM key with certificates") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey) or len(certificates) != 2:
            raise DecodeError("attestation authority is not an elliptic-curve key with two certificates")
        return cls(certificates[1], certificates[0], key)
