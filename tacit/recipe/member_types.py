"""Types for the members of documents: texts, names and numbers with their ranges."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tacit.tlog.canonical import MAX_INTEGER

DecimalText = Annotated[str, Field(pattern=r"^(0|[1-9][0-9]{0,8})(\.[0-9]{1,18})?$")]
"""A non-negative decimal number such as ``0.5``; never a float."""
Text = Annotated[str, Field(min_length=1, max_length=500)]
EVENT_PATTERN = r"[a-z0-9][a-z0-9._-]{0,63}"
"""The whole name of an event that devices watch."""
Label = Annotated[str, Field(min_length=1, max_length=200)]
Natural = Annotated[int, Field(ge=0, le=MAX_INTEGER)]
Positive = Annotated[int, Field(ge=1, le=MAX_INTEGER)]
Size = Annotated[int, Field(ge=1, le=1 << 20)]
"""Number of elements of a measurement or a chunk."""
AttributeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,31}$")]
AttributeValue = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
"""One of the values of an attribute, such as ``de``."""
