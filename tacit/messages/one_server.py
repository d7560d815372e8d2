"""The report of a model with one server (design rule P24): an id, and everything else sealed to that server.

The associated data are the recipe's hash and the report id; ``tacit.task.one_server`` defines the plaintext.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.messages.basic import REPORT_ID_SIZE, HpkeCiphertext
from tacit.messages.struct import Struct, require_size

MAX_ONE_SERVER_REPORT = 254 << 10
"""Largest encoded report in bytes, which fits the largest class of padded requests (P12); every recipe has one size of
reports, which is checked first."""


@dataclass(frozen=True, slots=True)
class OneServerReport(Struct):
    """One contribution: its id (16 bytes) and its only ciphertext."""

    report_id: bytes
    sealed: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        writer.raw(require_size(self.report_id, REPORT_ID_SIZE, "report id"))
        self.sealed.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.raw(REPORT_ID_SIZE), HpkeCiphertext.read(reader))

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Inverse of ``encode``. Raises ``DecodeError``, also for more than ``MAX_ONE_SERVER_REPORT`` bytes."""
        if len(data) > MAX_ONE_SERVER_REPORT:
            raise DecodeError(f"a report of one server has at most {MAX_ONE_SERVER_REPORT} bytes")
        return super(OneServerReport, cls).decode(data)
