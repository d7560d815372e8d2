"""Oblivious HTTP (RFC 9458): key configurations, encapsulated requests and responses, size classes.

Sans I/O. Both ends are here: a client encapsulates to one key configuration and keeps a ``ClientContext`` for the
response; a ``Decapsulator`` holds its active and previous keys and opens requests to any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tacit import bhttp, hpke
from tacit.codec import Reader, Writer
from tacit.curve25519 import checked_public_key
from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.hpke import KeyPair, Suite
from tacit.ports import Entropy

SIZE_CLASSES = (4096, 16384, 65536, 262144)
"""Sizes in bytes of encapsulated messages, shared by all recipes and all fetches."""
LARGE_CLASSES = (1 << 20, 4 << 20)
"""Sizes in bytes of encapsulated requests with reports that fit into none of these, for recipes of policies that allow
them (``max_upload``) and through relays and gateways that take them (``max_request``). No response is as large."""
REQUEST_CLASSES = SIZE_CLASSES + LARGE_CLASSES

HEADER_SIZE = 7
REQUEST_OVERHEAD = HEADER_SIZE + hpke.ENC_SIZE + hpke.TAG_SIZE
_CIPHERTEXT = HEADER_SIZE + hpke.ENC_SIZE

_REQUEST_LABEL = b"message/bhttp request"
_RESPONSE_LABEL = b"message/bhttp response"
_WHAT_KEYS = "key configuration"


@dataclass(frozen=True, slots=True)
class KeyConfig:
    """A gateway's public key (RFC 9458 section 3.1); ``algorithms`` are ``(kdf_id, aead_id)``, best first."""

    key_id: int
    kem_id: int
    public_key: bytes
    algorithms: tuple[tuple[int, int], ...]

    def encode(self) -> bytes:
        """Bytes of one configuration, without the length prefix of a collection."""
        writer = Writer().uint(self.key_id, 1).uint(self.kem_id, 2).raw(self.public_key)
        writer.uint(4 * len(self.algorithms), 2)
        for kdf_id, aead_id in self.algorithms:
            writer.uint(kdf_id, 2).uint(aead_id, 2)
        return writer.bytes()

    @classmethod
    def decode(cls, data: bytes) -> KeyConfig:
        """Strict inverse of ``encode``. Raises ``DecodeError``, also for a KEM other than X25519's and for a key of low
        order."""
        reader = Reader(data, _WHAT_KEYS)
        key_id, kem_id = reader.uint(1), reader.uint(2)
        if kem_id != hpke.KEM_X25519:
            raise DecodeError("the key configuration is for a KEM that is not supported")
        public_key = checked_public_key(reader.raw(hpke.PUBLIC_KEY_SIZE))
        algorithms = reader.vector(2, lambda item: (item.uint(2), item.uint(2)), minimum=4)
        reader.end()
        return cls(key_id, kem_id, public_key, tuple(algorithms))

    def suite(self) -> Suite:
        """The first suite offered that is supported. Raises ``CryptoError`` if none is."""
        for kdf_id, aead_id in self.algorithms:
            suite = Suite(self.kem_id, kdf_id, aead_id)
            if suite.supported:
                return suite
        raise CryptoError("the key configuration offers no supported suite")


def generate_key_config(key_id: int, entropy: Entropy) -> tuple[KeyConfig, KeyPair]:
    """A fresh X25519 key with the AEADs AES-128-GCM and ChaCha20-Poly1305."""
    return key_config_for(key_id, hpke.generate_key_pair(entropy))


def key_config_for(key_id: int, pair: KeyPair) -> tuple[KeyConfig, KeyPair]:
    """The configuration that offers ``pair`` under ``key_id`` (0 to 255)."""
    algorithms = (
        (hpke.KDF_HKDF_SHA256, hpke.AEAD_AES128GCM),
        (hpke.KDF_HKDF_SHA256, hpke.AEAD_CHACHA20POLY1305),
    )
    return KeyConfig(key_id, hpke.KEM_X25519, pair.public, algorithms), pair


def encode_key_configs(configs: Sequence[KeyConfig]) -> bytes:
    """``application/ohttp-keys``: each configuration behind a two-byte length."""
    writer = Writer()
    for config in configs:
        writer.opaque(config.encode(), 2)
    return writer.bytes()


class ClientContext:
    """What a client keeps of one request to open its response; usable for that response only."""

    def __init__(self, sender: hpke.SenderContext, suite: Suite) -> None:
        self._sender = sender
        self._suite = suite

    def decapsulate_response(self, message: bytes) -> bytes:
        """The BHTTP bytes of an encapsulated response. Raises ``DecodeError`` or ``CryptoError``."""
        reader = Reader(message, "encapsulated response")
        nonce = reader.raw(_nonce_size(self._suite))
        secret = self._sender.export(_RESPONSE_LABEL, len(nonce))
        key, aead_nonce = _response_keys(self._suite, secret, self._sender.enc, nonce)
        return hpke.aead_open(self._suite.aead_id, key, aead_nonce, b"", reader.rest())


class ServerContext:
    """What a gateway keeps of one request to answer it; ``enc`` identifies the request in a replay window."""

    __slots__ = ("_recipient", "_suite", "enc")

    def __init__(self, recipient: hpke.RecipientContext, suite: Suite, enc: bytes) -> None:
        self._recipient = recipient
        self._suite = suite
        self.enc = enc

    @property
    def response_overhead(self) -> int:
        """Bytes that encapsulation adds to a response."""
        return _nonce_size(self._suite) + hpke.TAG_SIZE

    def encapsulate_response(self, response: bytes, entropy: Entropy) -> bytes:
        """The encapsulated response (RFC 9458 section 4.4) for the BHTTP bytes ``response``."""
        nonce = entropy(_nonce_size(self._suite))
        secret = self._recipient.export(_RESPONSE_LABEL, len(nonce))
        key, aead_nonce = _response_keys(self._suite, secret, self.enc, nonce)
        return nonce + hpke.aead_seal(self._suite.aead_id, key, aead_nonce, b"", response)


class Recipient:
    """One key of a gateway under one suite: opens all requests with the same header."""

    __slots__ = ("info", "key_pair", "suite")

    def __init__(self, key_pair: KeyPair, suite: Suite, info: bytes) -> None:
        self.key_pair = key_pair
        self.suite = suite
        self.info = info

    def setup(self, enc: bytes) -> hpke.RecipientContext:
        """The HPKE context of a request. Raises ``CryptoError``."""
        return hpke.setup_recipient(self.suite, self.key_pair, enc, self.info)

    def opened(self, context: hpke.RecipientContext, enc: bytes, ciphertext: bytes) -> Opened:
        """BHTTP bytes and context. Raises ``CryptoError`` when it does not open."""
        return context.open(b"", ciphertext), ServerContext(context, self.suite, enc)


Opened = tuple[bytes, ServerContext]
"""BHTTP bytes and context of a request."""


class Decapsulator:
    """The keys of a gateway, active first. Holds no state about requests."""

    def __init__(self, keys: Sequence[tuple[KeyConfig, KeyPair]]) -> None:
        self._keys = {config.key_id: (config, pair) for config, pair in keys}
        if len(self._keys) != len(keys):
            raise ValueError("two keys have the same identifier")
        self._recipients: dict[bytes, Recipient] = {}

    def decapsulate_request(self, message: bytes) -> Opened:
        """BHTTP bytes and context of an encapsulated request.

        Raises ``DecodeError`` when it is truncated and ``CryptoError`` when the key identifier, the suite or
        the ciphertext is not one that this gateway opens.
        """
        recipient, enc, ciphertext = self.take_apart(message)
        return recipient.opened(recipient.setup(enc), enc, ciphertext)

    def take_apart(self, message: bytes) -> tuple[Recipient, bytes, bytes]:
        """Find the key of an encapsulated request; return it with the request's encapsulated key and its ciphertext,
        without opening anything. Raises as ``decapsulate_request`` does. Requests with the same header have the same
        ``Recipient``."""
        if len(message) < REQUEST_OVERHEAD:
            raise DecodeError("encapsulated request is truncated")
        header = message[:HEADER_SIZE]
        recipient = self._recipients.get(header) or self._recipient(header)
        return recipient, message[HEADER_SIZE:_CIPHERTEXT], message[_CIPHERTEXT:]

    def _recipient(self, header: bytes) -> Recipient:
        key_id = header[0]
        kem_id, kdf_id, aead_id = (int.from_bytes(header[at : at + 2], "big") for at in (1, 3, 5))
        if key_id not in self._keys:
            raise CryptoError("the key identifier is not known")
        config, pair = self._keys[key_id]
        if kem_id != config.kem_id or (kdf_id, aead_id) not in config.algorithms:
            raise CryptoError("the suite is not one that the key configuration offers")
        return self._recipients.setdefault(
            header, Recipient(pair, Suite(kem_id, kdf_id, aead_id), _request_info(header))
        )

    def decapsulate_all(self, messages: Sequence[bytes]) -> list[Opened | CryptoError | DecodeError]:
        """``decapsulate_request`` of every message, in order; an error takes the place of the message's result."""
        opened: list[Opened | CryptoError | DecodeError] = []
        for message in messages:
            try:
                opened.append(self.decapsulate_request(message))
            except (CryptoError, DecodeError) as error:
                opened.append(error)
        return opened


def request_info(config: KeyConfig) -> bytes:
    """The HPKE info string of requests to ``config`` under its first supported suite. Raises ``CryptoError``."""
    return _request_info(_header(config))


def encapsulate_request(
    config: KeyConfig, request: bytes, entropy: Entropy, sender: hpke.SenderContext | None = None
) -> tuple[bytes, ClientContext]:
    """Encapsulate the BHTTP bytes ``request`` under a fresh HPKE context: ``sender``, which must be unused, where the
    caller sets up many at once."""
    suite, header = config.suite(), _header(config)
    sender = sender or hpke.setup_sender(suite, config.public_key, _request_info(header), entropy)
    return header + sender.enc + sender.seal(b"", request), ClientContext(sender, suite)


def size_class(size: int, classes: Sequence[int] = SIZE_CLASSES) -> int:
    """The smallest of the size ``classes`` that holds ``size`` bytes. Raises ``Refusal`` above the largest."""
    for candidate in classes:
        if size <= candidate:
            return candidate
    raise Refusal("size-class", f"an encapsulated message must have at most {classes[-1]} bytes")


def padded_request(
    config: KeyConfig,
    request: bhttp.Request,
    entropy: Entropy,
    sender: hpke.SenderContext | None = None,
    *,
    largest: int = REQUEST_CLASSES[-1],
) -> tuple[bytes, ClientContext]:
    """``request``, encapsulated and padded to a size class of at most ``largest`` bytes. Raises ``Refusal`` when too
    large."""
    encoded = bhttp.encode_request(request)
    classes = [one for one in REQUEST_CLASSES if one <= largest]
    size = size_class(len(encoded) + REQUEST_OVERHEAD, classes)
    return encapsulate_request(config, bhttp.pad_to(encoded, size - REQUEST_OVERHEAD), entropy, sender)


def padded_response(context: ServerContext, response: bhttp.Response, entropy: Entropy) -> bytes:
    """``response``, encapsulated and padded to a size class. Raises ``Refusal`` when too large."""
    encode = _pad if response.content else _known_padded
    return context.encapsulate_response(encode(response, context.response_overhead), entropy)


def _pad(response: bhttp.Response, overhead: int) -> bytes:
    """``response``, encoded and padded to ``overhead`` bytes below a size class."""
    encoded = bhttp.encode_response(response)
    return bhttp.pad_to(encoded, size_class(len(encoded) + overhead) - overhead)


_known_padded = lru_cache(maxsize=64)(_pad)
"""Cached padding for responses without content, of which there are few."""


def open_response(context: ClientContext, message: bytes) -> bhttp.Response:
    """The response inside an encapsulated one. Raises ``DecodeError`` or ``CryptoError``."""
    return bhttp.decode_response(context.decapsulate_response(message))


def _header(config: KeyConfig) -> bytes:
    suite = config.suite()
    numbers = (suite.kem_id, suite.kdf_id, suite.aead_id)
    return bytes([config.key_id]) + b"".join(number.to_bytes(2, "big") for number in numbers)


def _request_info(header: bytes) -> bytes:
    return _REQUEST_LABEL + b"\x00" + header


@lru_cache(maxsize=16)
def _nonce_size(suite: Suite) -> int:
    return max(hpke.NONCE_SIZE, suite.key_size)


def _response_keys(suite: Suite, secret: bytes, enc: bytes, nonce: bytes) -> tuple[bytes, bytes]:
    prk = hpke.extract(enc + nonce, secret)
    return hpke.expand(prk, b"key", suite.key_size), hpke.expand(prk, b"nonce", hpke.NONCE_SIZE)
