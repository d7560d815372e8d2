"""Members of the documents of the log, and the base of their models: one form for each value, nothing unknown."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tacit.codec import unb64url
from tacit.errors import DecodeError
from tacit.tlog.canonical import MAX_INTEGER


def _base64_of(length: int | None) -> Any:
    def check(text: str) -> str:
        data = unb64url(text, length=length)
        if not data:
            raise DecodeError("value is empty")
        return text

    return AfterValidator(check)


def _described(pattern: str) -> Any:
    """The pattern for the JSON Schema; ``_base64_of`` checks the text itself."""
    return Field(json_schema_extra={"contentEncoding": "base64url", "pattern": pattern})


_OF_32 = _described("^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$")
Hash = Annotated[str, _base64_of(32), _OF_32]
"""A hash as JSON text: base64url of 32 bytes."""
Key32 = Annotated[str, _base64_of(32), _OF_32]
"""base64url of a raw 32-byte key."""
Blob = Annotated[str, _base64_of(None), _described("^[A-Za-z0-9_-]{2,}$")]
"""base64url of at least one byte."""
Count = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.:_-]{0,252}$")]
"""Operator, issuer or gateway name."""
Role = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,15}$")]
"""A party's role in a recipe, such as ``leader``."""


class Body(BaseModel):
    """Base of the leaf bodies: frozen, strict, no unknown members."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", strict=True)

    def canonical(self) -> dict[str, Any]:
        """The body as JSON values, absent members left out."""
        return self.model_dump(mode="json", exclude_none=True)
