"""``tacit keys``: make the secret files that configurations name, and show what of them is public."""

from __future__ import annotations

import enum
import hashlib
import json
from pathlib import Path
from typing import Annotated

import typer

from infra.flags import AlwaysJson
from infra.layout import BEARER_PREFIX, bearer_token
from tacit.adapters.system import OsEntropy
from tacit.aggregator.keys import generate_hpke_key, read_hpke_key, write_hpke_key
from tacit.codec import b64url
from tacit.errors import UsageError
from tacit.ports import Entropy
from tacit.service.config import read_secret, write_secret
from tacit.service.keys import read_signing_key, write_signing_key
from tacit.signing import generate_signing_key

app = typer.Typer(help="Make and show key files (mode 0600).", no_args_is_help=True)


class Kind(enum.StrEnum):
    """What a file may hold."""

    SIGNING = "signing"
    HPKE = "hpke"
    BEARER = "bearer"


@app.command("generate")
def generate(
    kind: Annotated[Kind, typer.Argument(help="signing: Ed25519; hpke: X25519; bearer: a token.")],
    out: Annotated[Path, typer.Option("--out", help="The file to make; an existing one is never replaced.")],
    config_id: Annotated[
        int | None, typer.Option("--id", min=0, max=255, help="hpke: the configuration's id (default: drawn).")
    ] = None,
    as_json: AlwaysJson = True,
) -> None:
    """Make a fresh key and print its public part as JSON.

    Example: tacit keys generate signing --out leader/signing.key
    """
    del as_json
    if config_id is not None and kind is not Kind.HPKE:
        raise typer.BadParameter("--id goes with hpke only")
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out}: exists already; remove it yourself or choose another file")
    entropy = OsEntropy()
    try:
        _write(kind, out, entropy, entropy(1)[0] if config_id is None else config_id)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or 'cannot be written'}") from error
    show(out)


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A file that tacit keys generate made.")],
    as_json: AlwaysJson = True,
) -> None:
    """Print the public part of a key file as JSON; of a token, its SHA-256.

    Example: tacit keys show leader/signing.key
    """
    del as_json
    print(json.dumps(public_part(file), indent=1))


def public_part(path: Path) -> dict[str, str | int]:
    """What may be told of the secret in ``path``. Raises ``UsageError``."""
    content = read_secret(path).strip()
    if content.startswith(b"{"):
        config = read_hpke_key(path).config
        return {"kind": Kind.HPKE.value, "id": config.id, "hpke_config": b64url(config.encode())}
    if content.startswith(BEARER_PREFIX):
        return {"kind": Kind.BEARER.value, "sha256": hashlib.sha256(content).hexdigest()}
    return {"kind": Kind.SIGNING.value, "public_key": b64url(read_signing_key(path).public)}


def _write(kind: Kind, out: Path, entropy: Entropy, config_id: int) -> None:
    if kind is Kind.SIGNING:
        write_signing_key(out, generate_signing_key(entropy))
    elif kind is Kind.HPKE:
        write_hpke_key(out, generate_hpke_key(config_id, entropy))
    else:
        write_secret(out, bearer_token(entropy))
