"""Requests to an OHTTP gateway, decapsulated many at a time. What ``tacit.multibuffer.hpke`` says of private keys holds
here: nothing uses this unless the gateway's operator asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.errors import CryptoError, DecodeError
from tacit.hpke import KeyPair, RecipientContext, Suite
from tacit.multibuffer.hpke import BatchOpener
from tacit.ohttp import Gateway, SealedRequest, ServerContext

Decapsulated = tuple[bytes, ServerContext]
"""BHTTP bytes and the context that answers them."""


def decapsulate_all(gateway: Gateway, messages: Sequence[bytes]) -> list[Decapsulated | CryptoError | DecodeError]:
    """For each message what ``gateway.decapsulate_request`` returns for it, or the error that it raises, in order."""
    results: list[Decapsulated | CryptoError | DecodeError] = []
    groups: dict[tuple[KeyPair, Suite, bytes], list[tuple[int, SealedRequest]]] = {}
    for index, message in enumerate(messages):
        try:
            sealed = gateway.take_apart(message)
        except (CryptoError, DecodeError) as error:
            results.append(error)
            continue
        results.append(CryptoError("the request was not opened"))
        groups.setdefault((sealed.key_pair, sealed.suite, sealed.info), []).append((index, sealed))
    for (key_pair, suite, info), members in groups.items():
        contexts = BatchOpener(key_pair, suite, info).contexts([sealed.enc for _, sealed in members])
        for (index, sealed), context in zip(members, contexts, strict=True):
            results[index] = _opened(sealed, context)
    return results


def _opened(sealed: SealedRequest, context: RecipientContext | CryptoError) -> Decapsulated | CryptoError:
    if isinstance(context, CryptoError):
        return context
    try:
        return sealed.opened(context)
    except CryptoError:
        pass  # what the kernels derived may be at fault: OpenSSL decides
    try:
        return sealed.opened(sealed.setup())
    except CryptoError as error:
        return error
