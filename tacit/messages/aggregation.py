"""Aggregation messages of DAP-18, Leader to Helper and back.

``payload`` fields hold VDAF ping-pong messages. For Prio3 there is one exchange: ``AggregationJobInitReq``,
answered by ``VerifyResp`` of type continue; the continuation request exists for VDAFs with more rounds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Self

from tacit.codec import Reader, Writer
from tacit.dap_errors import ReportError
from tacit.errors import DecodeError
from tacit.messages.basic import BATCH_ID_SIZE, REPORT_ID_SIZE, Extension, HpkeCiphertext
from tacit.messages.struct import Struct, join, member, require_nonempty, require_size
from tacit.messages.upload import ReportMetadata
from tacit.version import DAP_18, DapVersion


class AggregationJobExtensionType(enum.IntEnum):
    """The types of aggregation-job extensions that DAP-18 registers."""

    LEADER_SELECTED_BATCH_ID = 1


class VerifyRespType(enum.IntEnum):
    """What the Helper did with one report."""

    CONTINUE = 0
    FINISH = 1
    REJECT = 2


class AggregationJobExtension(Extension):
    """An extension in an aggregation job's initialisation request."""

    __slots__ = ()

    @classmethod
    def leader_selected_batch_id(cls, batch_id: bytes) -> Self:
        """The extension that puts the job's reports into a batch (leader-selected mode)."""
        return cls(
            AggregationJobExtensionType.LEADER_SELECTED_BATCH_ID, require_size(batch_id, BATCH_ID_SIZE, "batch id")
        )


@dataclass(frozen=True, slots=True)
class ReportShare(Struct):
    """The Helper's part of a report."""

    report_metadata: ReportMetadata
    public_share: bytes = field(repr=False)
    encrypted_input_share: HpkeCiphertext

    def write(self, writer: Writer) -> None:
        self.report_metadata.write(writer)
        writer.opaque(self.public_share, 4)
        self.encrypted_input_share.write(writer)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(ReportMetadata.read(reader), reader.opaque(4), HpkeCiphertext.read(reader))


@dataclass(frozen=True, slots=True)
class VerifyInit(Struct):
    """One report of a new job with the Leader's first ping-pong message."""

    report_share: ReportShare
    payload: bytes = field(repr=False)

    def write(self, writer: Writer) -> None:
        self.report_share.write(writer)
        writer.opaque(require_nonempty(self.payload, "ping-pong message"), 4)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(ReportShare.read(reader), reader.opaque(4, minimum=1))


@dataclass(frozen=True, slots=True)
class AggregationJobInitReq(Struct):
    """Starts a job; ``verify_inits`` run to the end of the body."""

    verification_key_id: int
    agg_param: bytes
    extensions: tuple[AggregationJobExtension, ...]
    verify_inits: tuple[VerifyInit, ...]

    @property
    def batch_id(self) -> bytes | None:
        """The batch that the Leader chose (32 bytes), or None without that extension. ``DecodeError`` when
        the extension has another length."""
        for extension in self.extensions:
            if extension.extension_type == AggregationJobExtensionType.LEADER_SELECTED_BATCH_ID:
                if len(extension.extension_data) != BATCH_ID_SIZE:
                    raise DecodeError("the batch id extension does not hold a batch id")
                return extension.extension_data
        return None

    def write(self, writer: Writer) -> None:
        writer.uint(self.verification_key_id, 1).opaque(self.agg_param, 4)
        writer.opaque(join(self.extensions), 2).raw(join(self.verify_inits))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(
            reader.uint(1),
            reader.opaque(4),
            tuple(reader.vector(2, AggregationJobExtension.read)),
            tuple(reader.items(VerifyInit.read)),
        )


@dataclass(frozen=True, slots=True)
class VerifyResp(Struct):
    """The Helper's answer for one report. ``payload`` belongs to continue, ``report_error`` to reject; make
    one with ``continued``, ``finished`` or ``rejected``. ``write`` and ``read`` have the codes of DAP-18."""

    report_id: bytes
    verify_resp_type: VerifyRespType
    payload: bytes = field(default=b"", repr=False)
    report_error: ReportError | None = None

    @classmethod
    def continued(cls, report_id: bytes, payload: bytes) -> Self:
        """The answer for a report that goes on with this ping-pong message."""
        return cls(report_id, VerifyRespType.CONTINUE, payload)

    @classmethod
    def finished(cls, report_id: bytes) -> Self:
        """The answer for a report that the Helper has finished: it has its output share and nothing more to send."""
        return cls(report_id, VerifyRespType.FINISH)

    @classmethod
    def rejected(cls, report_id: bytes, report_error: ReportError) -> Self:
        """The answer for a report that the Helper rejects, for this reason."""
        return cls(report_id, VerifyRespType.REJECT, report_error=report_error)

    def write(self, writer: Writer) -> None:
        writer.raw(require_size(self.report_id, REPORT_ID_SIZE, "report id")).uint(self.verify_resp_type, 1)
        if self.verify_resp_type is VerifyRespType.CONTINUE:
            writer.opaque(require_nonempty(self.payload, "ping-pong message"), 4)
        elif self.verify_resp_type is VerifyRespType.REJECT:
            if self.report_error is None:
                raise ValueError("a rejection needs a report error")
            writer.uint(DAP_18.code_of(self.report_error), 1)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls.read_as(reader, DAP_18)

    @classmethod
    def read_as(cls, reader: Reader, version: DapVersion) -> Self:
        """Read the answer of a peer that speaks ``version``. Raises ``DecodeError``, also for a report error that the
        version does not have."""
        report_id = reader.raw(REPORT_ID_SIZE)
        kind = member(VerifyRespType, reader.uint(1))
        if kind is VerifyRespType.CONTINUE:
            return cls.continued(report_id, reader.opaque(4, minimum=1))
        if kind is VerifyRespType.REJECT:
            return cls.rejected(report_id, version.error_of(reader.uint(1)))
        return cls.finished(report_id)


@dataclass(frozen=True, slots=True)
class AggregationJobResp(Struct):
    """The Helper's answers, one per report of the request and in its order."""

    verify_resps: tuple[VerifyResp, ...]

    def write(self, writer: Writer) -> None:
        writer.raw(join(self.verify_resps))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(tuple(reader.items(VerifyResp.read)))


@dataclass(frozen=True, slots=True)
class VerifyContinue(Struct):
    """The Leader's next ping-pong message for one report."""

    report_id: bytes
    payload: bytes = field(repr=False)

    def write(self, writer: Writer) -> None:
        writer.raw(require_size(self.report_id, REPORT_ID_SIZE, "report id"))
        writer.opaque(require_nonempty(self.payload, "ping-pong message"), 4)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.raw(REPORT_ID_SIZE), reader.opaque(4, minimum=1))


@dataclass(frozen=True, slots=True)
class AggregationJobContinueReq(Struct):
    """Continues a job at ``step`` (1 for the first continuation); the vector runs to the end of the body."""

    step: int
    verify_continues: tuple[VerifyContinue, ...]

    def write(self, writer: Writer) -> None:
        writer.uint(self.step, 2).raw(join(self.verify_continues))

    @classmethod
    def read(cls, reader: Reader) -> Self:
        return cls(reader.uint(2), tuple(reader.items(VerifyContinue.read)))
