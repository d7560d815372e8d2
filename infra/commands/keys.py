"""``tacit keys``: makes the secret files that configurations name, and shows their public parts."""

from __future__ import annotations

import enum
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infra.backing.sealed_files import PRIVATE, backup_public_key, generate_backup_key
from infra.base.flags import AlwaysJson
from infra.base.token_options import Module, PinFile, Token, place_of
from infra.stacks.options import BEARER_PREFIX, bearer_token
from infra.views.terminal import print_json
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.codec import b64url
from tacit.errors import DecodeError, UsageError
from tacit.extension_points import STATE_KEYS
from tacit.ports import Entropy
from tacit.service.base.keys import read_signing_key, write_signing_key
from tacit.service.base.secret_files import read_secret, write_secret
from tacit.service.http.token_files import read_tokens
from tacit.signing import Signer, generate_signing_key
from tacit.tlog.checkpoint import COSIGNATURE, ED25519, NoteKey

if TYPE_CHECKING:
    from tacit.tokens.software_root import SoftwareRoot


app = typer.Typer(help="Make and show key files (mode 0600).", no_args_is_help=True)


class Kind(enum.StrEnum):
    """The kinds of secret that a file may hold."""

    SIGNING = "signing"
    HPKE = "hpke"
    BEARER = "bearer"
    STATE = "state"
    PEER = "peer"
    DEVICE_ROOT = "device-root"
    BACKUP = "backup"


WitnessName = Annotated[
    str | None, typer.Option("--witness-name", help="signing: also print it as the key of the witness with this name.")
]
LogName = Annotated[
    str | None,
    typer.Option("--log-name", help="signing: also print it as the key of the log with this name (log.key)."),
]

KeyLabel = Annotated[str | None, typer.Option("--key", help="Label of the key in the token (with --pkcs11).")]


@app.command("generate")
def generate(
    kind: Annotated[
        Kind,
        typer.Argument(
            help="signing: Ed25519; hpke: X25519; bearer: a token; state: ElGamal (pan-private); peer: what "
            "leader and helper share; device-root: the authority of devices in a staging deployment; backup: what "
            "decrypts backups."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("--out", help="The file to create; an existing one is never replaced.")
    ] = None,
    config_id: Annotated[
        int | None, typer.Option("--id", min=0, max=255, help="hpke: the configuration's id (default: drawn).")
    ] = None,
    pkcs11: Module = None,
    token: Token = None,
    key: KeyLabel = None,
    pin_file: PinFile = None,
    as_json: AlwaysJson = True,
) -> None:
    """Make a new key and print its public part as JSON. With --pkcs11, a signing key is made in a token, which it
    never leaves.

    Example: tacit keys generate signing --out leader/signing.key
    """
    from tacit.service.base.hsm import generate_hsm_key

    del as_json
    if config_id is not None and kind is not Kind.HPKE:
        raise typer.BadParameter("--id goes with hpke only")
    if (place := place_of(key, pkcs11, token, pin_file)) is not None:
        if kind is not Kind.SIGNING or out is not None:
            raise typer.BadParameter("a token holds only signing keys, and no file is made: leave --out out")
        print_json(_public_of(generate_hsm_key(place)))
        return
    if out is None:
        raise typer.BadParameter("give --out, or --pkcs11 with --token, --key and --pin-file")
    _require_new(out)
    entropy = OsEntropy()
    try:
        _write(kind, out, entropy, entropy(1)[0] if config_id is None else config_id)
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or 'cannot be written'}") from error
    show(out)


@app.command("show")
def show(
    file: Annotated[
        Path | None, typer.Argument(help="A file that tacit keys generate, or a gateway, made.", show_default=False)
    ] = None,
    log_name: LogName = None,
    witness_name: WitnessName = None,
    pkcs11: Module = None,
    token: Token = None,
    key: KeyLabel = None,
    pin_file: PinFile = None,
    as_json: AlwaysJson = True,
) -> None:
    """Print the public part of a key file, or of a signing key in a token, as JSON. For a secret that two parties share
    it is the SHA-256, for them to compare.

    Example: tacit keys show leader/signing.key
    """
    from tacit.service.base.hsm import HsmKey

    del as_json
    place = place_of(key, pkcs11, token, pin_file)
    if place is not None:
        if file is not None or log_name is not None or witness_name is not None:
            raise typer.BadParameter("--pkcs11 goes with --token, --key and --pin-file alone")
        print_json(_public_of(HsmKey(place)))
        return
    if file is None:
        raise typer.BadParameter("give a FILE, or --pkcs11 with --token, --key and --pin-file")
    shown = public_part(file)
    for member, name, kind in (("log_key", log_name, ED25519), ("witness_key", witness_name, COSIGNATURE)):
        if name is None:
            continue
        if shown["kind"] != Kind.SIGNING:
            raise typer.BadParameter("only a signing key can belong to a log or a witness")
        try:
            shown[member] = NoteKey(name, read_signing_key(file).public, kind).encode()
        except ValueError as error:
            raise typer.BadParameter(f"not a name for a log or a witness: {error}") from error
    print_json(shown)


@app.command("device")
def device(
    root: Annotated[Path, typer.Option("--root", help="The authority: a file of tacit keys generate device-root.")],
    name: Annotated[str, typer.Option("--name", help="The device's name for the attester.")],
    out: Annotated[Path, typer.Option("--out", help="The device's identity; an existing one is never replaced.")],
    as_json: AlwaysJson = True,
) -> None:
    """Make the identity of a staging device, by which the attester knows it.

    Example: tacit keys device --root .tacit/vendor/authority.pem --name device-0 --out device/identity.pem
    """
    del as_json
    _require_new(out)
    try:
        identity = _device_root(root).issue(name, OsEntropy(), SystemClock().now())
        write_secret(out, identity.to_pem())
    except ValueError as error:
        raise typer.BadParameter(f"--name: {error}") from error
    except OSError as error:
        raise UsageError(f"{out}: {error.strerror or 'cannot be written'}") from error
    sha256 = hashlib.sha256(identity.chain[0]).hexdigest()
    print_json({"kind": "device", "name": name, "sha256": sha256})


def public_part(path: Path) -> dict[str, Any]:
    """Return the public part of the secret in ``path``, with its ``kind``. Raises ``UsageError``."""
    from services.gateway.keys import read_key_ring
    from tacit.aggregator.keys import read_hpke_key, read_peer_file, state_key_text

    content = read_secret(path).strip()
    if PRIVATE.encode() in content:
        return {"kind": Kind.BACKUP.value, "public_key": backup_public_key(path)}
    if content.startswith(b"-----BEGIN"):
        pem = _device_root(path).root_pem
        sha256 = hashlib.sha256(pem).hexdigest()
        return {"kind": Kind.DEVICE_ROOT.value, "certificate": pem.decode(), "sha256": sha256}
    if b'"verify_key_seed"' in content:
        peer = read_peer_file(path)
        shared = peer.verify_key_seed + "\n".join(peer.tokens).encode()
        return {"kind": Kind.PEER.value, "seed_id": peer.seed_id, "sha256": hashlib.sha256(shared).hexdigest()}
    if b'"rotation_seconds"' in content:
        ring = read_key_ring(path)
        periods = {str(period): b64url(config.encode()) for period, config in ring.by_period().items()}
        return {"kind": "ohttp", "rotation_seconds": ring.rotation, "periods": periods}
    if b'"state_key"' in content:
        return {"kind": Kind.STATE.value, "state_key": state_key_text(STATE_KEYS["read-state-key"](path))}
    if content.startswith(b"{"):
        config = read_hpke_key(path).config
        return {"kind": Kind.HPKE.value, "id": config.id, "hpke_config": b64url(config.encode())}
    if content.startswith(BEARER_PREFIX):
        shown, *further = [hashlib.sha256(token.encode()).hexdigest() for token in read_tokens(path)]
        return {"kind": Kind.BEARER.value, "sha256": shown, **({"further": further} if further else {})}
    return _public_of(read_signing_key(path))


def _public_of(key: Signer) -> dict[str, Any]:
    return {"kind": Kind.SIGNING.value, "public_key": b64url(key.public)}


def _device_root(path: Path) -> SoftwareRoot:
    """The authority in a file. Raises ``UsageError``, also for a device's identity, which has the same format."""
    from tacit.tokens.software_root import SoftwareRoot

    try:
        found = SoftwareRoot.from_pem(read_secret(path))
    except DecodeError as error:
        raise UsageError(f"{path}: {error}") from error
    if found.root.subject != found.root.issuer:
        raise UsageError(f"{path}: not an authority of devices; make one with: tacit keys generate device-root")
    return found


def _require_new(out: Path) -> None:
    if out.exists() or out.is_symlink():
        raise UsageError(f"{out}: exists already; remove it yourself or choose another file")


def _write(kind: Kind, out: Path, entropy: Entropy, config_id: int) -> None:
    from tacit.aggregator.keys import generate_hpke_key, generate_peer_secrets, write_hpke_key, write_peer_file
    from tacit.tokens.software_root import SoftwareRoot

    if kind is Kind.BACKUP:
        generate_backup_key(out)
    elif kind is Kind.SIGNING:
        write_signing_key(out, generate_signing_key(entropy))
    elif kind is Kind.HPKE:
        write_hpke_key(out, generate_hpke_key(config_id, entropy))
    elif kind is Kind.STATE:
        STATE_KEYS["write-state-key"](out, STATE_KEYS["generate-state-key"](entropy))
    elif kind is Kind.PEER:
        write_peer_file(out, generate_peer_secrets(f"seed-{entropy(4).hex()}", entropy))
    elif kind is Kind.DEVICE_ROOT:
        write_secret(out, SoftwareRoot.create(entropy, SystemClock().now()).to_pem())
    else:
        write_secret(out, bearer_token(entropy) + b"\n")
