"""An authenticator in software: makes and uses passkeys, as honestly as a test says."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor
from fido2.cose import ES256

from tacit.codec import b64url

PRESENT, VERIFIED, ATTESTED = 0x01, 0x04, 0x40


@dataclass
class Authenticator:
    """``flags``: what it says of its user; ``counter``: of the last use; ``origin``: of the page that it believes to be
    on; ``said``: laid over its client data."""

    origin: str
    rp_id: str = "localhost"
    flags: int = PRESENT | VERIFIED
    counter: int = 0
    id: bytes = b"credential-1"
    said: dict[str, Any] = field(default_factory=dict)
    key: EllipticCurvePrivateKey = field(default_factory=lambda: generate_private_key(SECP256R1()))

    def make(self, options: dict[str, Any]) -> dict[str, Any]:
        """Make a passkey from a server's options."""
        cose: Any = ES256
        public = cbor.encode(dict(cose.from_cryptography_key(self.key.public_key())))
        attested = bytes(16) + len(self.id).to_bytes(2, "big") + self.id + public
        attestation = cbor.encode({"fmt": "none", "attStmt": {}, "authData": self._data(ATTESTED) + attested})
        client = self._client("webauthn.create", options)
        return self._answer(clientDataJSON=client, attestationObject=attestation)

    def show(self, options: dict[str, Any]) -> dict[str, Any]:
        """Use the passkey with a server's options."""
        self.counter += 1
        client, data = self._client("webauthn.get", options), self._data(0)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ECDSA(SHA256()))
        return self._answer(clientDataJSON=client, authenticatorData=data, signature=signature)

    def _data(self, flags: int) -> bytes:
        return (
            hashlib.sha256(self.rp_id.encode()).digest() + bytes([self.flags | flags]) + self.counter.to_bytes(4, "big")
        )

    def _client(self, kind: str, options: dict[str, Any]) -> bytes:
        said = {
            "type": kind,
            "challenge": options["challenge"],
            "origin": self.origin,
            "crossOrigin": False,
            **self.said,
        }
        return json.dumps(said).encode()

    def _answer(self, **response: bytes) -> dict[str, Any]:
        named = {name: b64url(value) for name, value in response.items()}
        id_text = b64url(self.id)
        return {"id": id_text, "rawId": id_text, "type": "public-key", "response": named, "clientExtensionResults": {}}
