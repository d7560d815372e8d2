"""A SoftHSM token of one's own: a PKCS#11 module whose keys are files."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pkcs11
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tacit.service.base.hsm import Pkcs11Key
from tacit.service.base.secret_files import write_secret
from tacit.signing import SigningKey

MODULES = (
    "/usr/lib/softhsm/libsofthsm2.so",
    "/usr/lib/x86_64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib/aarch64-linux-gnu/softhsm/libsofthsm2.so",
    "/usr/lib64/pkcs11/libsofthsm2.so",
)
CONFIG = "SOFTHSM2_CONF"
KEY = "analyst"


@dataclass(frozen=True)
class Token:
    """``folder`` holds the token and its PIN; ``env``: what a process that uses it needs."""

    folder: Path
    module: Path
    label: str
    pin: str

    @property
    def env(self) -> dict[str, str]:
        return {CONFIG: str(self.folder / "softhsm2.conf")}

    @property
    def pin_file(self) -> Path:
        return self.folder / f"{self.label}.pin"

    @property
    def place(self) -> Pkcs11Key:
        return Pkcs11Key(module=self.module, token=self.label, key=KEY, pin_file=self.pin_file)

    def set_pin(self, pin: str) -> None:
        write_secret(self.pin_file, f"{pin}\n".encode())

    def take_in(self, key: SigningKey, label: str) -> None:
        """Import a key that was made elsewhere. The module sees it once it is loaded anew."""
        encoded = Ed25519PrivateKey.from_private_bytes(key.private).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
        file = self.folder / f"{label}.pem"
        write_secret(file, encoded)
        line = ["softhsm2-util", "--import", str(file), "--token", self.label, "--label", label, "--id", "01"]
        subprocess.run([*line, "--pin", self.pin], check=True, capture_output=True, timeout=60)
        pkcs11.lib(str(self.module)).reinitialize()

    def flags(self) -> list[str]:
        """The options of the command line."""
        place = self.place
        where = ["--pkcs11", str(place.module), "--token", place.token]
        return [*where, "--key", place.key, "--pin-file", str(place.pin_file)]


def find_module() -> Path | None:
    """The path of SoftHSM's module, if its tool is installed too."""
    found = next((Path(one) for one in MODULES if Path(one).is_file()), None)
    return None if shutil.which("softhsm2-util") is None else found


@contextmanager
def softhsm(folder: Path, module: Path, tokens: int = 1) -> Iterator[list[Token]]:
    """Tokens without a key, which this process and its children see while the block runs."""
    (folder / "tokens").mkdir(parents=True)
    config = f"directories.tokendir = {folder / 'tokens'}\nobjectstore.backend = file\nlog.level = ERROR\n"
    (folder / "softhsm2.conf").write_text(config)
    made = [Token(folder, module, f"tacit-{secrets.token_hex(4)}", secrets.token_hex(8)) for _ in range(tokens)]
    before = os.environ.get(CONFIG)
    os.environ.update(made[0].env)
    try:
        for token in made:
            line = ["softhsm2-util", "--init-token", "--free", "--label", token.label]
            pins = ["--pin", token.pin, "--so-pin", secrets.token_hex(8)]
            subprocess.run([*line, *pins], check=True, capture_output=True, timeout=60)
            token.set_pin(token.pin)
        yield made
    finally:
        pkcs11.lib(str(module)).finalize()  # the next one reads another configuration
        if before is None:
            del os.environ[CONFIG]
        else:
            os.environ[CONFIG] = before
