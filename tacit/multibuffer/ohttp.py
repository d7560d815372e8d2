"""Requests to an OHTTP gateway, decapsulated many at a time. What ``tacit.multibuffer.hpke`` says about private keys
applies here too: nothing uses this unless the gateway's operator asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.errors import CryptoError, DecodeError
from tacit.fast_paths import OPENED
from tacit.hpke import RecipientContext
from tacit.multibuffer.hpke import BatchOpener
from tacit.ohttp import Decapsulator, Recipient, ServerContext

Decapsulated = tuple[bytes, ServerContext]
"""BHTTP bytes and the context that encrypts the response."""


def decapsulate_all(
    decapsulator: Decapsulator, messages: Sequence[bytes]
) -> list[Decapsulated | CryptoError | DecodeError]:
    """Return, for each message in order, what ``decapsulate_request`` returns for it, or the error that it raises."""
    results: list[Decapsulated | CryptoError | DecodeError] = []
    groups: dict[Recipient, list[tuple[int, bytes, bytes]]] = {}
    for index, message in enumerate(messages):
        try:
            recipient, enc, ciphertext = decapsulator.take_apart(message)
        except (CryptoError, DecodeError) as error:
            results.append(error)
            continue
        results.append(CryptoError("the request was not opened"))
        groups.setdefault(recipient, []).append((index, enc, ciphertext))
    for recipient, members in groups.items():
        opener = BatchOpener(recipient.key_pair, recipient.suite, recipient.info)
        contexts = opener.contexts([enc for _, enc, _ in members])
        for (index, enc, ciphertext), context in zip(members, contexts, strict=True):
            results[index] = _open(recipient, context, enc, ciphertext)
    return results


def _open(
    recipient: Recipient, context: RecipientContext | CryptoError, enc: bytes, ciphertext: bytes
) -> Decapsulated | CryptoError:
    if isinstance(context, CryptoError):
        return context
    try:
        return recipient.opened(context, enc, ciphertext)
    except CryptoError:
        OPENED.fallbacks += 1  # the keys derived by the kernels may be wrong: OpenSSL decides
    try:
        return recipient.opened(recipient.setup(enc), enc, ciphertext)
    except CryptoError as error:
        return error
