"""A document that the analyst signs into the log and that others reference by its hash: a recipe, or a series."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

from tacit.codec import b64url
from tacit.errors import DecodeError
from tacit.tlog.canonical import canonical_bytes, parse_canonical, validate
from tacit.tlog.fields import Body


class Document(Body):
    """Base of both: each document has exactly one encoding (canonical bytes, RFC 8785, rule P6), which is hashed."""

    what: ClassVar[str]
    """The kind of document, as named in errors."""

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """The document whose canonical bytes are ``data``. Raises DecodeError with one line that names the member."""
        return validate(cls, parse_canonical(data, cls.what), cls.what)._with_bytes(data)

    @classmethod
    def from_body(cls, body: Mapping[str, Any]) -> Self:
        """The document in a leaf's body. Raises DecodeError."""
        plain = dict(body)
        return validate(cls, plain, cls.what)._with_bytes(canonical_bytes(plain))

    def _with_bytes(self, data: bytes) -> Self:
        """The document, whose body had these canonical bytes: they are made and hashed once. Raises DecodeError."""
        if self.encode() != data:
            raise DecodeError(f"{self.what}: a member is null; leave it out")
        self.__dict__["hash"] = hashlib.sha256(data).digest()
        return self

    def body(self) -> dict[str, Any]:
        """Plain JSON values; optional members that are absent are left out."""
        return self.canonical()

    def encode(self) -> bytes:
        """The canonical JSON, whose SHA-256 is the document's hash."""
        return canonical_bytes(self.body())

    @cached_property
    def hash(self) -> bytes:
        """SHA-256 of the canonical bytes: the document's identity; a recipe's is ``task_info`` of its task."""
        return hashlib.sha256(self.encode()).digest()

    @cached_property
    def derived(self) -> dict[str, Any]:
        """What was computed from this document and nothing else, by the name of the computation. All readers of one log
        in a process share its documents; each would compute the same."""
        return {}

    @property
    def hash_text(self) -> str:
        """The hash in base64url, as leaves, URLs and other documents name this one."""
        return b64url(self.hash)
