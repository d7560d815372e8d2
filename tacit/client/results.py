"""Released results, as documents and as tables."""

from __future__ import annotations

from typing import Any, Self

from tacit.errors import DecodeError
from tacit.operations.tables import arrow_table, csv_bytes, data_frame, parquet_bytes, result_rows


class Results(tuple[dict[str, Any], ...]):
    """Released results in the order of their release, each a document in the form of ``tacit results --json``. As a
    table, they have one row for each answer of each batch (``tacit.operations.tables``)."""

    __slots__ = ()

    @classmethod
    def read(cls, document: Any) -> Self:
        """Make the results from the service's answer. Raises ``DecodeError``."""
        found = document.get("results") if isinstance(document, dict) else None
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise DecodeError("the answer is not a list of results")
        return cls(found)

    def rows(self) -> list[dict[str, Any]]:
        """The table as a list of rows, each with all of ``tacit.operations.tables.COLUMNS``."""
        return result_rows(self)

    def pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``. Raises ``UsageError`` without the extra ``operator``."""
        return data_frame(self)

    def arrow(self) -> Any:
        """The table as a ``pyarrow.Table``. Raises ``UsageError`` without the extra ``operator``."""
        return arrow_table(self)

    def csv(self) -> bytes:
        """The table as CSV (RFC 4180) in UTF-8."""
        return csv_bytes(self)

    def parquet(self) -> bytes:
        """The table as a Parquet file. Raises ``UsageError`` without the extra ``operator``."""
        return parquet_bytes(self)
