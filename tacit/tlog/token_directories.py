"""The directories in which an issuer publishes its token keys."""

from __future__ import annotations

import itertools
from typing import Annotated, Any

from pydantic import Field

from tacit.codec import unb64url
from tacit.tlog.fields import Blob, Body, Count, Name, Positive

MAX_LOOKAHEAD = 2
"""Most epochs by which an issuer publishes a directory ahead."""


class SlotKey(Body):
    """One slot's token key: base64url of its SubjectPublicKeyInfo (RFC 9578 section 6.5)."""

    slot: Count
    token_key: Blob


class IssuerDirectory(Body):
    """All token keys of one (issuer, epoch) (P8), slots strictly increasing."""

    issuer: Name
    epoch: Count
    epoch_seconds: Positive
    request_uri: Annotated[str, Field(min_length=1, max_length=512)]
    keys: Annotated[list[SlotKey], Field(min_length=1, max_length=256)]

    def model_post_init(self, context: Any, /) -> None:
        """Refuse repeated slots and repeated keys."""
        slots = [key.slot for key in self.keys]
        if any(later <= earlier for earlier, later in itertools.pairwise(slots)):
            raise ValueError("slots must be strictly increasing")
        if len({key.token_key for key in self.keys}) != len(self.keys):
            raise ValueError("two slots have the same key")

    @property
    def start(self) -> int:
        """POSIX second in which the spend window begins."""
        return self.epoch * self.epoch_seconds

    @property
    def end(self) -> int:
        """POSIX second in which the spend window is over."""
        return (self.epoch + 1) * self.epoch_seconds

    def spki(self, slot: int) -> bytes | None:
        """SubjectPublicKeyInfo of ``slot``'s key, or None."""
        for key in self.keys:
            if key.slot == slot:
                return unb64url(key.token_key)
        return None
