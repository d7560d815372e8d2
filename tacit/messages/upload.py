"""Upload messages of DAP-18: what a Client sends to the Leader, and the AAD of its shares."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from tacit.codec import Reader, Writer
from tacit.dap_errors import ReportError
from tacit.messages.basic import REPORT_ID_SIZE, TASK_ID_SIZE, Extension, HpkeCiphertext
from tacit.messages.configuration import TaskConfiguration
from tacit.messages.struct import Struct, join, require_nonempty, require_size
from tacit.version import DAP_18, DapVersion


@dataclass(frozen=True, slots=True)
class ReportMetadata(Struct):
    """The part of a report that both Aggregators see in clear. ``time`` is in units of the time precision."""

    report_id: bytes
    time: int
    public_extensions: tuple[Extension, ...] = ()

    def write(self, writer: Writer) -> None:
        writer.raw(require_size(self.report_id, REPORT_ID_SIZE, "report id")).uint(self.time, 8)
        writer.opaque(join(self.public_extensions), 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.raw(REPORT_ID_SIZE), reader.uint(8), tuple(reader.vector(2, Extension.read)))


@dataclass(frozen=True, slots=True)
class Report(Struct):
    """One contribution: metadata, public share and one sealed input share per Aggregator."""

    report_metadata: ReportMetadata
    public_share: bytes = field(repr=False)
    leader_encrypted_input_share: HpkeCiphertext
    helper_encrypted_input_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        self.report_metadata.write(writer)
        writer.opaque(self.public_share, 4)
        self.leader_encrypted_input_share.write(writer)
        self.helper_encrypted_input_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            ReportMetadata.read(reader),
            reader.opaque(4),
            HpkeCiphertext.read(reader),
            HpkeCiphertext.read(reader),
        )


@dataclass(frozen=True, slots=True)
class UploadRequest(Struct):
    """Body of an upload: reports up to the end of the body."""

    reports: tuple[Report, ...]

    def write(self, writer: Writer) -> None:
        writer.raw(join(self.reports))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(tuple(reader.items(Report.read)))


@dataclass(frozen=True, slots=True)
class ReportUploadStatus(Struct):
    """Why one report of an upload was not accepted (17 bytes). ``write`` and ``read`` have the codes of DAP-18."""

    report_id: bytes
    error: ReportError

    def write(self, writer: Writer) -> None:
        writer.raw(require_size(self.report_id, REPORT_ID_SIZE, "report id")).uint(DAP_18.code_of(self.error), 1)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls.read_as(reader, DAP_18)

    @classmethod
    def read_as(cls, reader: Reader, version: DapVersion) -> Self:
        """Read what a peer that speaks ``version`` has written. Raises ``DecodeError``."""
        return cls(reader.raw(REPORT_ID_SIZE), version.error_of(reader.uint(1)))


@dataclass(frozen=True, slots=True)
class UploadErrors(Struct):
    """Answer to an upload of which some reports failed: only the failures, in the order of the request."""

    status: tuple[ReportUploadStatus, ...]

    def write(self, writer: Writer) -> None:
        writer.raw(join(self.status))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(tuple(reader.items(ReportUploadStatus.read)))


@dataclass(frozen=True, slots=True)
class PlaintextInputShare(Struct):
    """What one Aggregator finds inside its ciphertext: its private extensions and its VDAF input share."""

    private_extensions: tuple[Extension, ...] = field(repr=False)
    payload: bytes = field(repr=False)

    def write(self, writer: Writer) -> None:
        writer.opaque(join(self.private_extensions), 2).opaque(require_nonempty(self.payload, "input share"), 4)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(tuple(reader.vector(2, Extension.read)), reader.opaque(4, minimum=1))


@dataclass(frozen=True, slots=True)
class InputShareAad(Struct):
    """Associated data of a sealed input share: the share opens only in this task, under this configuration,
    with this report's metadata and public share."""

    task_id: bytes
    task_configuration: TaskConfiguration
    report_metadata: ReportMetadata
    public_share: bytes = field(repr=False)

    def write(self, writer: Writer) -> None:
        writer.raw(require_size(self.task_id, TASK_ID_SIZE, "task id"))
        self.task_configuration.write(writer)
        self.report_metadata.write(writer)
        writer.opaque(self.public_share, 4)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            reader.raw(TASK_ID_SIZE),
            TaskConfiguration.read(reader),
            ReportMetadata.read(reader),
            reader.opaque(4),
        )
