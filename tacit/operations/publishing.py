"""Publishing a document in the log as its analyst. Signing and sending are separate, so that the key may be offline.

The holder of the key turns a document into a signed leaf. Anyone with a connection can then send the leaf, but cannot
change a byte of it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, Literal

from tacit.codec import b64url, unb64url
from tacit.errors import Abort, CryptoError, DecodeError, Refusal, UsageError
from tacit.models.parties import Parties
from tacit.operations.calls import call, put_bytes
from tacit.ports import Transport
from tacit.recipe.model import Recipe
from tacit.recipe.series import LOG_SIGNER, Series
from tacit.recipe.training import RoundModel
from tacit.signing import Signer
from tacit.tlog.canonical import canonical_bytes, parse_json
from tacit.tlog.leaves import Envelope, LeafType, SignedLeaf, sign_leaf
from tacit.tlog.statements import SeriesEnd

_MODEL_UNKNOWN: Final = "urn:tacit:problem:model-unknown"
"""The recipe server's problem: no live round in the log names the file."""
_NO_PLACE: Final = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


def signed_leaf(document: Recipe | Series, key: Signer) -> SignedLeaf:
    """Make the leaf of ``document``, signed with its analyst's ``key``. Raises ``UsageError`` for another key, whose
    signature nobody would accept, and ``TransportError`` if the PKCS#11 token that holds the key does not sign."""
    kind = LeafType.SERIES if isinstance(document, Series) else LeafType.RECIPE
    analyst = _parties_of(document).analyst
    if b64url(key.public) != analyst.signing_key:
        raise UsageError(f"{document.name} names another signing key of its analyst {analyst.operator}; sign with that")
    return sign_leaf(kind, document.body(), analyst.operator, key)


def end_of(series: Series, key: Signer, role: Literal["analyst", "log"]) -> SignedLeaf:
    """Make the leaf that ends ``series``, signed with the ``key`` of its analyst or of the log. Raises ``UsageError``
    for another key than the analyst's, and ``TransportError`` as ``signed_leaf``."""
    analyst = series.probe.parties.analyst
    if role == "analyst" and b64url(key.public) != analyst.signing_key:
        raise UsageError(f"{series.name} names another signing key of its analyst {analyst.operator}; sign with that")
    body = SeriesEnd(series_hash=series.hash_text, role=role)
    return sign_leaf(LeafType.SERIES_END, body, LOG_SIGNER if role == "log" else analyst.operator, key)


def read_leaf(data: bytes, name: str) -> SignedLeaf | None:
    """The signed leaf in a file, canonical or not; None if the file holds something else, such as an unsigned document.
    Raises ``UsageError`` for a leaf that cannot be read."""
    try:
        envelope = parse_json(data, name)
        if not isinstance(envelope, dict) or envelope.keys() != Envelope.model_fields.keys():
            return None
        return SignedLeaf.decode(canonical_bytes(envelope))
    except DecodeError as error:
        raise UsageError(f"{name}: {str(error).removeprefix(f'{name}: ')}") from error


def verified_document(leaf: SignedLeaf) -> Recipe | Series:
    """The recipe or series in a leaf, after the signature check that the log does first. Raises ``DecodeError`` if it
    holds neither, and ``Refusal`` (``leaf-signature``) if another party signed it."""
    if leaf.type is LeafType.RECIPE:
        document: Recipe | Series = Recipe.from_body(leaf.body)
    elif leaf.type is LeafType.SERIES:
        document = Series.from_body(leaf.body)
    else:
        raise DecodeError(
            f"a leaf {leaf.type.value} is published by its service; an analyst can publish a recipe or a series"
        )
    analyst = _parties_of(document).analyst
    if leaf.signer != analyst.operator:
        raise Refusal("leaf-signature", f"signed by {leaf.signer}; the analyst {analyst.operator} must sign it")
    try:
        leaf.verify(unb64url(analyst.signing_key))
    except CryptoError as error:
        detail = f"{error}; {analyst.operator} must sign with the key that {document.name} names"
        raise Refusal("leaf-signature", detail) from error
    return document


async def send_leaf(transport: Transport, server: str, leaf: SignedLeaf) -> int:
    """Send ``leaf`` to the log at ``server``; return the index of its entry, which is the same if the log already holds
    it. Raises as ``tacit.operations.calls.call``."""
    answer = await call(transport, "POST", f"{server}/v1/leaves", body=leaf.encode())
    index = answer.get("index") if isinstance(answer, dict) else None
    if not isinstance(index, int):
        raise DecodeError(f"{server}: the log's answer has no index")
    return index


async def send_model(transport: Transport, server: str, stated: RoundModel, file: bytes) -> None:
    """Put the model of a published round where devices fetch it; the same file may be sent again. Raises ``UsageError``
    where the recipe server has no such place, and as ``tacit.operations.calls.call``."""
    try:
        await put_bytes(transport, f"{server}{stated.path}", file)
    except Abort as problem:
        _require_place(server, problem)
        raise


async def require_model_place(transport: Transport, server: str, stated: RoundModel) -> None:
    """Raise ``UsageError`` where the recipe server takes no model files, before anything is published for them;
    ``Abort`` for a redirect, which no model file would follow; and ``NoAnswerError``."""
    try:
        await put_bytes(transport, f"{server}{stated.path}", b"")
    except Abort as problem:
        _require_place(server, problem)
        if problem.status < 400:
            raise


def _require_place(server: str, problem: Abort) -> None:
    if problem.status in _NO_PLACE and problem.type != _MODEL_UNKNOWN:
        raise UsageError(f"{server} takes no model files: start a recipe server of this version") from problem


def _parties_of(document: Recipe | Series) -> Parties:
    return document.probe.parties if isinstance(document, Series) else document.parties
