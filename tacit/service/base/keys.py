"""Ed25519 key files: base64url of the 32-byte seed, mode 0600. One format for every party."""

from __future__ import annotations

from pathlib import Path

from tacit.codec import b64url, unb64url
from tacit.errors import DecodeError, UsageError
from tacit.ports import Entropy
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.signing import KEY_SIZE, SigningKey, generate_signing_key, signing_key_from_private


def read_signing_key(path: Path) -> SigningKey:
    """The key in ``path``. Raises ``UsageError``."""
    try:
        return signing_key_from_private(unb64url(read_secret(path).decode("ascii").strip(), length=KEY_SIZE))
    except (DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: not the base64url of a 32-byte signing key") from error


def write_signing_key(path: Path, key: SigningKey) -> None:
    """Write ``key``, atomically, mode 0600."""
    write_secret(path, b64url(key.private).encode())


def open_signing_key(path: Path, entropy: Entropy) -> SigningKey:
    """Read the key in ``path``, which is generated on the first start. Raises ``UsageError``."""
    if not path.exists():
        write_signing_key(path, generate_signing_key(entropy))
    return read_signing_key(path)
