"""The issuer directory (RFC 9578 section 4): where an issuer states with which keys it signs.

Tacit's issuer adds members per key, ``epoch``, ``slot`` and ``not-after``; other clients ignore them. Devices trust the
transparency log's directory leaf, not this document; the attester uses it to find the (epoch, slot) of a truncated key
id.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError
from tacit.tokens.blind_rsa import TokenKey
from tacit.tokens.structures import BLIND_RSA_2048

WELL_KNOWN_PATH = "/.well-known/private-token-issuer-directory"


def padded_b64url(data: bytes) -> str:
    """URL-safe base64 with padding, as Privacy Pass writes it."""
    text = b64url(data)
    return text + "=" * (-len(text) % 4)


def unpad_b64url(text: str, what: str) -> bytes:
    """Inverse of ``padded_b64url``; absent padding is accepted, wrong padding is not. Raises ``DecodeError``."""
    bare = text.rstrip("=")
    if len(text) - len(bare) not in {0, -len(bare) % 4}:
        raise DecodeError(f"{what} has wrong base64 padding")
    return unb64url(bare, what=what)


@dataclass(frozen=True, slots=True)
class DirectoryKey:
    """One key: its SPKI bytes, the POSIX seconds between which it signs, and the slot to which it belongs."""

    token_key: bytes
    token_type: int = BLIND_RSA_2048
    not_before: int | None = None
    not_after: int | None = None
    epoch: int | None = None
    slot: int | None = None

    @property
    def truncated_token_key_id(self) -> int:
        """Last byte of the key id. Raises ``DecodeError`` where the key is not of type 0x0002."""
        return TokenKey.from_spki(self.token_key).truncated_token_key_id


@dataclass(frozen=True, slots=True)
class IssuerDirectory:
    """``request_uri`` is the URL (absolute, or relative to the directory) that takes token requests."""

    request_uri: str
    keys: tuple[DirectoryKey, ...]

    def encode(self) -> bytes:
        """The directory's JSON document; what a key does not state is left out."""
        keys: list[dict[str, object]] = []
        for key in self.keys:
            entry: dict[str, object] = {
                "token-type": key.token_type,
                "token-key": padded_b64url(key.token_key),
            }
            optional = {
                "not-before": key.not_before,
                "not-after": key.not_after,
                "epoch": key.epoch,
                "slot": key.slot,
            }
            entry.update({name: value for name, value in optional.items() if value is not None})
            keys.append(entry)
        document = {"issuer-request-uri": self.request_uri, "token-keys": keys}
        return json.dumps(document, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> IssuerDirectory:
        """Decode the document; unknown members are ignored, known ones must have their type. Raises ``DecodeError``."""
        try:
            document = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DecodeError("issuer directory is not JSON") from error
        if not isinstance(document, dict):
            raise DecodeError("issuer directory is not an object")
        uri, keys = document.get("issuer-request-uri"), document.get("token-keys")
        if not isinstance(uri, str) or not isinstance(keys, list):
            raise DecodeError("issuer directory must have issuer-request-uri and token-keys")
        return cls(uri, tuple(_key(entry) for entry in keys))


def _number(entry: dict[str, Any], name: str) -> int | None:
    value = entry.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise DecodeError(f"issuer directory: {name} is not a number")
    return value


def _key(entry: object) -> DirectoryKey:
    if not isinstance(entry, dict) or not isinstance(entry.get("token-key"), str):
        raise DecodeError("issuer directory holds a malformed key")
    token_type = _number(entry, "token-type")
    if token_type is None:
        raise DecodeError("issuer directory holds a key without a type")
    return DirectoryKey(
        token_key=unpad_b64url(entry["token-key"], "token-key"),
        token_type=token_type,
        not_before=_number(entry, "not-before"),
        not_after=_number(entry, "not-after"),
        epoch=_number(entry, "epoch"),
        slot=_number(entry, "slot"),
    )
