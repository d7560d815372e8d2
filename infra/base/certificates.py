"""The certificate authority of a local stack (``tacit up --tls``): one key that signs a certificate for each of the
stack's parties and servers.

A certificate names its holder by address, so that clients can check which server they reached, and by the service's
name at its operator (``leader.leader.example``), so that servers can check who calls. The authority's key lies in a
folder of its own and signs for this stack only. P-256, X.509 v3 (RFC 5280).
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from infra.base.certificate_files import CA_FILE, CERTIFICATE, KEY
from tacit.errors import UsageError
from tacit.service.base.secret_files import read_secret, write_secret

CA_KEY = "ca.key"
LIFETIME = 400 * 86400
"""For how many seconds a stack's certificates are valid; each start makes new ones."""
AUTHORITY_LIFETIME = 3650 * 86400
LOOPBACK = ("127.0.0.1", "::1")
EARLY_SECONDS = 3600
"""How many seconds before it is made a certificate becomes valid, because clocks differ."""
_AUTHORITY_USES = ("key_cert_sign", "crl_sign")
_HOLDER_USES = ("digital_signature",)
_USES = (
    *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
    *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
)


def certify(
    folder: Path, authority: CertificateAuthority, names: Sequence[str], now: float, addresses: Sequence[str] = ()
) -> None:
    """Write a new certificate with its key into ``folder``, valid for loopback and ``addresses``, and the authority's
    certificate beside it."""
    write_secret(folder / CA_FILE, authority.pem)
    authority.issue(folder, names, now, LIFETIME, (*LOOPBACK, *addresses))


@dataclass(frozen=True)
class CertificateAuthority:
    """An authority with its key in memory; ``pem`` is its certificate."""

    key: ec.EllipticCurvePrivateKey = field(repr=False)
    certificate: x509.Certificate

    @classmethod
    def create(cls, name: str, now: float, lifetime: int) -> CertificateAuthority:
        """Make a new authority, valid for ``lifetime`` seconds from ``now``."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(name, _name(name), key.public_key(), now, lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(_AUTHORITY_USES), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def load(cls, folder: Path) -> CertificateAuthority:
        """Load the authority that ``save`` wrote into ``folder``. Raises ``UsageError``."""
        try:
            key = serialization.load_pem_private_key(read_secret(folder / CA_KEY), None)
            certificate = x509.load_pem_x509_certificate((folder / CA_FILE).read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{folder}: no certificate authority here") from error
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise UsageError(f"{folder / CA_KEY}: not a P-256 key")
        return cls(key, certificate)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def save(self, folder: Path) -> None:
        """Write key and certificate into ``folder``, each atomically and with mode 0600."""
        write_secret(folder / CA_KEY, _key_pem(self.key))
        write_secret(folder / CA_FILE, self.pem)

    def issue(
        self, folder: Path, names: Sequence[str], now: float, lifetime: int, addresses: Sequence[str] = LOOPBACK
    ) -> None:
        """Write ``tls.pem`` and ``tls.key`` (0600) into ``folder``, replacing what is there: a certificate for
        ``names`` at ``addresses``, with the first name as its subject."""
        key = ec.generate_private_key(ec.SECP256R1())
        alternatives = [x509.DNSName(name) for name in names]
        places = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        builder = (
            _builder(names[0], self.certificate.subject, key.public_key(), now, lifetime)
            .add_extension(x509.SubjectAlternativeName([*alternatives, *places]), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(_HOLDER_USES), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        certificate = builder.sign(self.key, hashes.SHA256())
        write_secret(folder / KEY, _key_pem(key))
        write_secret(folder / CERTIFICATE, certificate.public_bytes(serialization.Encoding.PEM))


def _builder(
    name: str, issuer: x509.Name, public: ec.EllipticCurvePublicKey, now: float, lifetime: int
) -> x509.CertificateBuilder:
    made = datetime.datetime.fromtimestamp(now, datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(made - datetime.timedelta(seconds=EARLY_SECONDS))
        .not_valid_after(made + datetime.timedelta(seconds=lifetime))
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(wanted: Sequence[str]) -> x509.KeyUsage:
    return x509.KeyUsage(**{use: use in wanted for use in _USES})


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
