"""Released results as the collector publishes them: a JSON object that names its recipe and batch.

The rest of the object (buckets, estimates, errors, the claim) is defined by the collector; it is stored and served byte
for byte. It holds aggregates only.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tacit.codec import unb64url
from tacit.errors import DecodeError

MAX_RESULT = 4 << 20
"""Bytes of a result; one of ``MAX_SUM`` numbers of the longest form has 3 MB."""
MAX_BATCH_ID = 100


@dataclass(frozen=True, slots=True)
class Result:
    """Identifies a result. ``batch_id`` tells the batches of one recipe apart (default: the only one)."""

    recipe_hash: bytes
    batch_id: str

    @classmethod
    def decode(cls, data: bytes) -> Result:
        """Read the posted bytes. Raises ``DecodeError``."""
        body = _object(data)
        recipe_hash, batch_id = body.get("recipe_hash"), body.get("batch_id", "")
        if not isinstance(recipe_hash, str):
            raise DecodeError("result: recipe_hash: a string is required")
        if not isinstance(batch_id, str) or len(batch_id) > MAX_BATCH_ID:
            raise DecodeError(f"result: batch_id: a string of at most {MAX_BATCH_ID} characters is required")
        return cls(unb64url(recipe_hash, length=32, what="result: recipe_hash"), batch_id)


def _object(data: bytes) -> dict[str, Any]:
    def no_constant(name: str) -> Any:
        raise ValueError(name)

    try:
        body = json.loads(data.decode("utf-8"), parse_constant=no_constant)
    except (ValueError, RecursionError) as error:
        raise DecodeError("result: not JSON in UTF-8") from error
    if not isinstance(body, dict):
        raise DecodeError("result: not a JSON object")
    return body
