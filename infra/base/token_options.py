"""Command line options for a signing key: a file, or a key in a PKCS#11 token."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.errors import UsageError

if TYPE_CHECKING:
    from tacit.service.base.hsm import Pkcs11Key
    from tacit.signing import Signer


Module = Annotated[
    Path | None, typer.Option("--pkcs11", help="Shared library of the PKCS#11 token that holds the key.")
]
Token = Annotated[str | None, typer.Option("--token", help="Label of the token (with --pkcs11).")]
PinFile = Annotated[Path | None, typer.Option("--pin-file", help="File (0600) with its PIN (with --pkcs11).")]


def signer_of(key: str, module: Path | None, token: str | None, pin_file: Path | None) -> Signer:
    """Return the key in the file ``key``, or the one with the label ``key`` in a token. Raises ``UsageError``."""
    from tacit.service.base.hsm import HsmKey
    from tacit.service.base.keys import read_signing_key

    place = place_of(key, module, token, pin_file)
    return read_signing_key(Path(key)) if place is None else HsmKey(place)


def place_of(key: str | None, module: Path | None, token: str | None, pin_file: Path | None) -> Pkcs11Key | None:
    """Return where in a token the key is; None if no option names a token. Raises ``UsageError``, and
    ``typer.BadParameter`` if only some of the options are given."""
    from pydantic import ValidationError

    from tacit.service.base.hsm import Pkcs11Key
    from tacit.validation_words import reason_of

    given = (module, token, pin_file)
    if given == (None, None, None):
        return None
    if None in given or key is None:
        raise typer.BadParameter("--pkcs11, --token, --key and --pin-file go together")
    try:
        return Pkcs11Key.model_validate({"module": module, "token": token, "key": key, "pin_file": pin_file})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        flag = {"module": "pkcs11", "pin_file": "pin-file"}.get(str(first["loc"][0]), str(first["loc"][0]))
        raise UsageError(f"--{flag}: {reason_of(first)}") from error
