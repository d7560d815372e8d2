"""Evidence of format ``software-root``: an X.509 chain to a configured root, and an ECDSA signature over the binding.

Checks, in this order: form, chain (names, signatures, authority bits, path length), validity now, revocation, the
leaf's key and purposes, the signature.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import itertools
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from attester.verification import AttestedDevice, EvidenceError, stable_id
from tacit.errors import DecodeError, UsageError
from tacit.lines import lines_of
from tacit.tokens.attestation import DEVICE_EKU, SOFTWARE_ROOT, Evidence, SoftwareRootStatement

_ECDSA = ec.ECDSA(hashes.SHA256())
_KNOWN_EXTENSIONS = {
    x509.BasicConstraints.oid,
    x509.KeyUsage.oid,
    x509.ExtendedKeyUsage.oid,
    x509.SubjectKeyIdentifier.oid,
    x509.AuthorityKeyIdentifier.oid,
}
_MALFORMED = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.ExtensionNotFound,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    x509.UnsupportedGeneralNameType,
)


def spki_hash(certificate: x509.Certificate) -> bytes:
    """SHA-256 (32 bytes) of the certificate's SubjectPublicKeyInfo, by which revocation lists and stable ids identify a
    key."""
    der, info = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(certificate.public_key().public_bytes(der, info)).digest()


def load_roots(paths: Sequence[Path]) -> tuple[x509.Certificate, ...]:
    """All certificates of the PEM files. Raises ``UsageError`` for a file that cannot be read or holds none."""
    roots: list[x509.Certificate] = []
    for path in paths:
        try:
            roots += x509.load_pem_x509_certificates(path.read_bytes())
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or 'cannot be read'}") from error
        except ValueError as error:
            raise UsageError(f"{path}: holds no PEM certificate") from error
    return tuple(roots)


class RevocationList:
    """The revoked keys listed in a text file, which is read again when it changes. Without a file nothing is
    revoked."""

    def __init__(self, path: Path | None) -> None:
        """Raises ``UsageError`` for a file that cannot be read."""
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._revoked: frozenset[bytes] = frozenset()
        self.reload()

    def __contains__(self, key_hash: object) -> bool:
        return key_hash in self._revoked

    def reload(self) -> bool:
        """Read the file if it changed; returns whether it did. A broken file raises ``UsageError`` and leaves the list
        as it was."""
        if self._path is None:
            return False
        try:
            status = self._path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            if stamp == self._stamp:
                return False
            lines = lines_of(self._path.read_text(encoding="utf-8-sig"))
            hashes_ = frozenset(bytes.fromhex(text) for line in lines if (text := line.partition("#")[0].strip()))
        except OSError as error:
            raise UsageError(f"{self._path}: {error.strerror or 'cannot be read'}") from error
        except ValueError as error:
            raise UsageError(f"{self._path}: not a list of SHA-256 values in hex") from error
        self._revoked, self._stamp = hashes_, stamp
        return True


class SoftwareRootVerifier:
    """Verifies evidence against ``roots``. Device ids are HMACs under ``secret`` (32 bytes)."""

    def __init__(self, roots: Sequence[x509.Certificate], revoked: RevocationList, secret: bytes) -> None:
        self._roots = tuple(roots)
        self._revoked = revoked
        self._secret = secret
        self._authorities = lru_cache(maxsize=256)(self._verify_authorities)

    @property
    def fmt(self) -> str:
        """The name of this attestation format, ``software-root``."""
        return SOFTWARE_ROOT

    def verify(self, evidence: Evidence, binding: bytes, now: float) -> AttestedDevice:
        """The device behind the evidence, if its certificate chain leads to one of the roots at ``now`` and its key
        signed ``binding``. Raises ``EvidenceError``."""
        try:
            statement = SoftwareRootStatement.decode(evidence.blob)
            leaf = x509.load_der_x509_certificate(statement.chain[0])
            authorities = self._authorities(statement.chain[1:])
            leaf.verify_directly_issued_by(authorities[0])
            when = datetime.datetime.fromtimestamp(now, datetime.UTC)
            _check_validity((leaf, *authorities), when)
            self._check_revocation((leaf, *authorities))
            key = _device_key(leaf)
            key.verify(statement.signature, binding, _ECDSA)
        except InvalidSignature as error:
            raise EvidenceError("signature") from error
        except DecodeError as error:
            raise EvidenceError("malformed") from error
        except _MALFORMED as error:
            raise EvidenceError("chain") from error
        return AttestedDevice(
            stable_id=stable_id(self._secret, SOFTWARE_ROOT, spki_hash(leaf)),
            assurance="software",
            expires=leaf.not_valid_after_utc.timestamp(),
        )

    def _verify_authorities(self, ders: tuple[bytes, ...]) -> tuple[x509.Certificate, ...]:
        """The intermediates and the root above them, after checking signatures and authority bits (not validity
        times)."""
        if not ders:
            raise EvidenceError("chain")
        path = [x509.load_der_x509_certificate(der) for der in ders]
        for child, parent in itertools.pairwise(path):
            child.verify_directly_issued_by(parent)
        path.append(self._root_of(path[-1]))
        for below, certificate in enumerate(path):
            _check_authority(certificate, below)
        return tuple(path)

    def _root_of(self, certificate: x509.Certificate) -> x509.Certificate:
        """The trusted root that issued ``certificate``; two roots may share a name while one replaces the other."""
        for root in self._roots:
            with contextlib.suppress(InvalidSignature, ValueError):
                certificate.verify_directly_issued_by(root)
                return root
        raise EvidenceError("root")

    def _check_revocation(self, chain: Sequence[x509.Certificate]) -> None:
        if any(spki_hash(certificate) in self._revoked for certificate in chain):
            raise EvidenceError("revoked")


def _check_authority(certificate: x509.Certificate, below: int) -> None:
    """Check that ``certificate`` may sign certificates with ``below`` authorities between it and the leaf. Raises
    ``EvidenceError``."""
    _check_critical(certificate)
    constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    too_long = constraints.path_length is not None and below > constraints.path_length
    if not constraints.ca or not usage.key_cert_sign or too_long:
        raise EvidenceError("authority")


def _check_critical(certificate: x509.Certificate) -> None:
    if any(one.critical and one.oid not in _KNOWN_EXTENSIONS for one in certificate.extensions):
        raise EvidenceError("extension")


def _check_validity(chain: Sequence[x509.Certificate], when: datetime.datetime) -> None:
    if any(not one.not_valid_before_utc <= when <= one.not_valid_after_utc for one in chain):
        raise EvidenceError("validity")


def _device_key(leaf: x509.Certificate) -> ec.EllipticCurvePublicKey:
    """The P-256 key of a device certificate. Raises ``EvidenceError`` (extension, purpose or curve), and
    ``x509.ExtensionNotFound`` for a certificate without usages or basic constraints."""
    _check_critical(leaf)
    extensions = leaf.extensions
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    authority = extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    if DEVICE_EKU not in purposes or not usage.digital_signature or authority:
        raise EvidenceError("purpose")
    key = leaf.public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise EvidenceError("curve")
    return key
