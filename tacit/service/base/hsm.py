"""An Ed25519 signing key that never leaves a PKCS#11 token (OASIS PKCS#11 version 3.0, mechanism ``CKM_EDDSA``).

The token makes the signature over exactly what ``tacit.signing`` signs, so signatures do not show where a key is kept.
The PIN is in a 0600 file and in no error. A token counts wrong PINs and locks itself after a few: a PIN that it has
refused is not shown to it again, unless the file's content changes.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from tacit.errors import CryptoError, DecodeError, HarmfulToRetryError, UsageError
from tacit.extras import require_extra
from tacit.ports import TransportError
from tacit.service.base.config_files import ConfigPath, Frozen
from tacit.service.base.secret_files import read_secret
from tacit.signing import KEY_SIZE, checked_public_key, verify

if TYPE_CHECKING:
    import pkcs11

EXTRA: Final = "hsm"
_ED25519: Final = (b"\x06\x03\x2b\x65\x70", b"\x13\x0cedwards25519")
"""``CKA_EC_PARAMS`` of the curve: its object identifier (RFC 8410), or its name (PKCS#11 3.0 section 2.3.6)."""
_OCTETS: Final = b"\x04\x20"
"""Precedes the 32 bytes in a ``CKA_EC_POINT`` that is a DER octet string; some tokens omit it."""
_PIN_TROUBLE: Final = {
    "PinIncorrect": "the PIN is wrong",
    "PinLenRange": "the PIN is wrong",
    "PinInvalid": "the PIN is wrong",
    "PinLocked": "the PIN is locked; its security officer has to set a new one",
    "PinExpired": "the PIN has expired; set a new one",
    "UserPinNotInitialized": "the token has no user PIN yet",
}


class Pkcs11Key(Frozen):
    """A signing key in a PKCS#11 token."""

    module: ConfigPath
    """The token's PKCS#11 module, a shared library such as ``/usr/lib/softhsm/libsofthsm2.so``."""
    token: str = Field(min_length=1, max_length=32)
    """The label of the PKCS#11 token."""
    key: str = Field(min_length=1, max_length=255)
    """The label of the Ed25519 key in it, for both halves."""
    pin_file: ConfigPath
    """File (0600) with the PIN of the token's user."""


class HsmKey:
    """The key that ``place`` names: a ``tacit.signing.Signer``. Raises ``UsageError`` where it cannot be used."""

    def __init__(self, place: Pkcs11Key) -> None:
        self._place = place
        self._refused = b""
        with self._open_session() as session:
            self._private(session)
            self._public = self._point(session)

    def __repr__(self) -> str:
        return f"HsmKey(token={self._place.token!r}, key={self._place.key!r})"

    @property
    def public(self) -> bytes:
        """The public half, 32 bytes, read from the token when this object was made."""
        return self._public

    def sign(self, label: bytes, data: bytes) -> bytes:
        """The signature over ``label + data``, 64 bytes, verified. Blocks until the token answers. Raises
        ``TransportError`` where the token does not sign."""
        import pkcs11

        try:
            with self._open_session() as session:
                signature = bytes(self._private(session).sign(label + data, mechanism=pkcs11.Mechanism.EDDSA))
        except UsageError as error:
            raise TransportError(str(error)) from error
        try:
            verify(self._public, signature, data, label=label)
        except CryptoError as error:
            raise TransportError(f"{self._where()} signs with a key that does not match its public half") from error
        return signature

    @contextmanager
    def _open_session(self) -> Iterator[pkcs11.Session]:
        """A session of the token's user; one at a time, since a process logs in to a token as a whole."""
        require_extra("a key in a PKCS#11 token", EXTRA, "pkcs11")
        import pkcs11

        with _ONE_AT_A_TIME:  # after waiting, do not show the token a PIN that it has refused meanwhile
            pin = read_pin(self._place)
            shown = hashlib.sha256(pin.encode()).digest()
            if shown == self._refused:
                raise UsageError(
                    f"token {self._place.token}: it has refused this PIN before; correct {self._place.pin_file}"
                )
            try:
                token = token_of(self._place)
                with token.open(user_pin=pin) as session:
                    yield session
            except pkcs11.PKCS11Error as error:
                if type(error).__name__ in _PIN_TROUBLE:
                    self._refused = shown
                    raise HarmfulToRetryError(words_of_error(self._place, error)) from error
                raise UsageError(words_of_error(self._place, error)) from error

    def _private(self, session: pkcs11.Session) -> Any:
        import pkcs11

        key = _only(session, self._place, pkcs11.ObjectClass.PRIVATE_KEY)
        _require_ed25519(key, self._where())
        return key

    def _point(self, session: pkcs11.Session) -> bytes:
        import pkcs11

        key = _only(session, self._place, pkcs11.ObjectClass.PUBLIC_KEY)
        _require_ed25519(key, self._where())
        point = bytes(key[pkcs11.Attribute.EC_POINT])
        try:
            return checked_public_key(point[2:] if point[:2] == _OCTETS and len(point) > KEY_SIZE else point)
        except DecodeError as error:
            raise UsageError(f"{self._where()}: {error}") from error

    def _where(self) -> str:
        return f"token {self._place.token}: key {self._place.key}"


_ONE_AT_A_TIME = threading.Lock()


def generate_hsm_key(place: Pkcs11Key) -> HsmKey:
    """Generate a key in the token, which never reveals its private half. Raises ``UsageError``, also where a key
    already has this label."""
    require_extra("a key in a PKCS#11 token", EXTRA, "pkcs11")
    import pkcs11
    from pkcs11 import Attribute, KeyType, Mechanism

    private = {Attribute.SENSITIVE: True, Attribute.EXTRACTABLE: False, Attribute.PRIVATE: True}
    pin = read_pin(place)
    try:
        with _ONE_AT_A_TIME, token_of(place).open(rw=True, user_pin=pin) as session:
            if list(session.get_objects({Attribute.LABEL: place.key})):
                raise UsageError(f"token {place.token}: there already is a key {place.key}; choose another label")
            curve = session.create_domain_parameters(KeyType.EC_EDWARDS, {Attribute.EC_PARAMS: _ED25519[0]}, local=True)
            curve.generate_keypair(
                mechanism=Mechanism.EC_EDWARDS_KEY_PAIR_GEN, store=True, label=place.key, private_template=private
            )
    except pkcs11.PKCS11Error as error:
        raise UsageError(words_of_error(place, error)) from error
    return HsmKey(place)


def token_of(place: Pkcs11Key) -> pkcs11.Token:
    """The token. Raises ``UsageError`` for a file that is not a PKCS#11 module, and ``PKCS11Error``."""
    import pkcs11

    if not place.module.is_file():
        raise UsageError(f"{place.module}: no such file; name the token's PKCS#11 module")
    try:
        library = pkcs11.lib(str(place.module.absolute()))
    except (RuntimeError, pkcs11.PKCS11Error) as error:
        raise UsageError(f"{place.module}: not a PKCS#11 module that can be loaded") from error
    return library.get_token(token_label=place.token)


def read_pin(place: Pkcs11Key) -> str:
    """The PIN in ``pin_file``, without white space around it. Raises ``UsageError`` for an empty or unreadable one."""
    try:
        pin = read_secret(place.pin_file).decode().strip()
    except UnicodeDecodeError:
        pin = ""
    if not pin:
        raise UsageError(f"{place.pin_file}: must hold the token's PIN")
    return pin


def words_of_error(place: Pkcs11Key, error: Exception) -> str:
    """Put an error of the module into words for people; its own text may contain anything, and is left out."""
    name = type(error).__name__
    if name == "NoSuchToken":
        return f"{place.module}: no token has the label {place.token}"
    if name == "MultipleTokensReturned":
        return f"{place.module}: several tokens have the label {place.token}"
    return f"token {place.token}: {_PIN_TROUBLE.get(name, f'it answered {name}')}"


def _only(session: pkcs11.Session, place: Pkcs11Key, kind: Any) -> Any:
    """The only object of a class with the key's label."""
    import pkcs11

    objects = list(session.get_objects({pkcs11.Attribute.CLASS: kind, pkcs11.Attribute.LABEL: place.key}))
    half = "private" if kind == pkcs11.ObjectClass.PRIVATE_KEY else "public"
    if len(objects) != 1:
        count = "no" if not objects else f"{len(objects)}"
        raise UsageError(f"token {place.token}: {count} {half} keys have the label {place.key}; exactly one must")
    return objects[0]


def _require_ed25519(key: Any, where: str) -> None:
    import pkcs11

    fits = key.key_type == pkcs11.KeyType.EC_EDWARDS and bytes(key[pkcs11.Attribute.EC_PARAMS]) in _ED25519
    if not fits:
        raise UsageError(f"{where} is of another type; it must be Ed25519 (EC_EDWARDS, edwards25519)")
