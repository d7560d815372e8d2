"""The JSON of the test API: draft-dcook-ppm-dap-interop-test-design for DAP-13, and what Janus's main branch adds.

DAP-18 seals every share under the whole task configuration, so every party needs all of it. Where the draft gives a
party less, the party also accepts the members of the other requests (``helper``, ``min_batch_size``, ``batch_mode``,
``task_start`` with ``task_end`` or ``task_duration``), and two of our own: ``task_info``, and ``task_configuration``,
which replaces all single members. Unknown members are ignored, as the draft demands.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError

from tacit.codec import unb64url
from tacit.errors import UsageError
from tacit.messages import TASK_ID_SIZE, BatchMode, Interval, TaskConfiguration, TaskExtension
from tacit.messages.configuration import configuration_type
from tacit.validation_words import reason_of
from tacit.vdaf.l1_bound_sum import Prio3L1BoundSum
from tacit.vdaf.prio3 import (
    Prio3,
    Prio3Count,
    Prio3Histogram,
    Prio3MultihotCountVec,
    Prio3Sum,
    Prio3SumVec,
)
from tacit.vdaf.registry import SHARES, vdaf_configuration, vdaf_from_configuration
from tacit.vdaf.sum_vec_field64 import Prio3SumVecField64Multiproof
from tacit.version import JANUS_MAIN, DapVersion

JANUS_TASK_INFO = b"task-info"
"""What Janus's test servers write for a task whose requests give no ``task_info``."""

Number = Annotated[str, Field(pattern=r"^[0-9]{1,39}$")]
"""An integer of a VDAF, in base 10."""
Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Text = Annotated[str, Field(min_length=1, max_length=2048)]
Token = Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^[!-~]([ -~]*[!-~])?$")]
"""Characters that an HTTP header may hold."""


class Document(BaseModel):
    """The JSON object in a request of the test API."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="ignore", strict=True, hide_input_in_errors=True)


Kind = TypeVar("Kind", bound=Document)


class Vdaf(Document):
    """A VDAF with its parameters. ``bits`` means a largest measurement of that many bits."""

    type: Text
    max_measurement: Number | None = None
    bits: Number | None = None
    length: Number | None = None
    chunk_length: Number | None = None
    max_weight: Number | None = None
    max_value: Number | None = None
    proofs: Number | None = None

    def instance(self) -> Prio3[Any]:
        """The VDAF. Raises ``UsageError`` for one that is not supported, ``ValueError`` for wrong parameters."""
        made: Prio3[Any]
        match self.type:
            case "Prio3Count":
                made = Prio3Count(SHARES)
            case "Prio3Sum":
                made = Prio3Sum(SHARES, self._most())
            case "Prio3SumVec":
                made = Prio3SumVec(SHARES, self._number("length"), self._most(), self._number("chunk_length"))
            case "Prio3SumVecField64MultiproofHmacSha256Aes128":
                made = Prio3SumVecField64Multiproof(
                    SHARES, self._number("length"), self._most(), self._number("chunk_length"), self._number("proofs")
                )
            case "Prio3Histogram":
                made = Prio3Histogram(SHARES, self._number("length"), self._number("chunk_length"))
            case "Prio3MultihotCountVec":
                made = Prio3MultihotCountVec(
                    SHARES, self._number("length"), self._number("max_weight"), self._number("chunk_length")
                )
            case "Prio3L1BoundSum":
                made = Prio3L1BoundSum(
                    SHARES, self._number("length"), self._number("max_value"), self._number("chunk_length")
                )
            case _:
                raise UsageError(f"the VDAF {self.type[:64]} is not supported")
        return vdaf_from_configuration(made.ID, vdaf_configuration(made))

    def _number(self, name: str) -> int:
        value: str | None = getattr(self, name)
        if value is None or int(value) >= 1 << 32:
            raise UsageError(f"vdaf: {self.type} needs a {name} below 2^32")
        return int(value)

    def _most(self) -> int:
        if self.max_measurement is not None:
            return int(self.max_measurement)
        if self.bits is None or not 1 <= int(self.bits) <= 64:
            raise UsageError(f"vdaf: {self.type} needs max_measurement (or bits, from 1 to 64)")
        return (1 << int(self.bits)) - 1


class TaskMembers(Document):
    """The members common to every request with task parameters; times and durations are in seconds."""

    task_id: Text
    leader: Text
    helper: Text | None = None
    vdaf: Vdaf
    batch_mode: Count = Field(default=1, validation_alias=AliasChoices("batch_mode", "query_type"))
    min_batch_size: Count | None = None
    time_precision: Count = 1
    task_start: Count | None = None
    task_end: Count | None = None
    task_duration: Count | None = None
    task_info: str | None = Field(default=None, max_length=340)
    task_configuration: Text | None = None

    @property
    def id(self) -> bytes:
        """The task id (32 bytes). Raises ``DecodeError``."""
        return task_id_of(self.task_id)

    def configuration(self, version: DapVersion) -> TaskConfiguration:
        """The task configuration, byte for byte what every party must have. Raises ``UsageError``, ``ValueError``."""
        kind = configuration_type(version)
        if self.task_configuration is not None:
            return kind.decode(unb64url(self.task_configuration, what="task_configuration"))
        if self.helper is None or self.min_batch_size is None:
            name = "helper" if self.helper is None else "min_batch_size"
            raise UsageError(f"{name} is missing: DAP-18 seals every share under the whole task configuration")
        if self.batch_mode not in list(BatchMode):
            raise UsageError("batch_mode must be 1 (time interval) or 2 (leader selected)")
        vdaf = self.vdaf.instance()
        made = kind(
            task_info=self._info(version),
            leader_aggregator_endpoint=self.leader,
            helper_aggregator_endpoint=self.helper,
            time_precision=self.time_precision,
            min_batch_size=self.min_batch_size,
            batch_mode=BatchMode(self.batch_mode),
            batch_config=b"",
            vdaf_type=vdaf.ID,
            vdaf_configuration=vdaf_configuration(vdaf),
            extensions=self._extensions(),
        )
        return kind.decode(made.encode())

    def _info(self, version: DapVersion) -> bytes:
        """``task_info`` as given; if absent, what Janus's test servers write or, in the drafts proper, the task id."""
        if self.task_info is not None:
            return unb64url(self.task_info, what="task_info")
        return JANUS_TASK_INFO if version is JANUS_MAIN else self.id

    def _extensions(self) -> tuple[TaskExtension, ...]:
        end = self.task_end
        if self.task_start is not None and self.task_duration is not None:
            end = self.task_start + self.task_duration
        if self.task_start is None and end is None:
            return ()
        if self.task_start is None or end is None or end <= self.task_start:
            raise UsageError(
                "task_start and task_end (or task_duration) go together, and the end must be after the start"
            )
        return (TaskExtension.task_interval(in_units(self.task_start, end - self.task_start, self.time_precision)),)


class AggregatorTask(TaskMembers):
    """``/internal/test/add_task`` of an aggregator."""

    role: Literal["leader", "helper"]
    vdaf_verify_key: Text = Field(repr=False)
    leader_authentication_token: Token = Field(repr=False)
    collector_authentication_token: Token | None = Field(default=None, repr=False)
    collector_hpke_config: Text


class CollectorTask(TaskMembers):
    """``/internal/test/add_task`` of a collector."""

    collector_authentication_token: Token = Field(repr=False)


class Endpoint(Document):
    """``/internal/test/endpoint_for_task``."""

    task_id: Text
    role: Literal["leader", "helper"]
    hostname: Text


class Upload(TaskMembers):
    """``/internal/test/upload``."""

    measurement: Number | list[Number]
    time: Count | None = None

    def value(self) -> int | list[int]:
        """The measurement in the form that the VDAF takes."""
        return int(self.measurement) if isinstance(self.measurement, str) else [int(one) for one in self.measurement]


class Query(Document):
    """The batch that a collection names."""

    batch_mode: Count = Field(validation_alias=AliasChoices("type", "batch_mode"))
    batch_interval_start: Count | None = None
    batch_interval_duration: Count | None = None


class CollectionStart(Document):
    """``/internal/test/collection_start``."""

    task_id: Text
    agg_param: str = Field(default="", max_length=2048)
    query: Query


class CollectionPoll(Document):
    """``/internal/test/collection_poll``."""

    handle: Text


def read(kind: type[Kind], data: object) -> Kind:
    """``data``, parsed JSON, as a request. Raises ``UsageError`` that names the wrong member."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "request"
        raise UsageError(f"{place}: {reason_of(first)}") from error


def task_id_of(text: str) -> bytes:
    """A task id (32 bytes). Raises ``DecodeError``."""
    return unb64url(text, length=TASK_ID_SIZE, what="task_id")


def in_units(start: int, duration: int, precision: int) -> Interval:
    """An interval in seconds as one in units of the time precision. Raises ``UsageError`` unless they are multiples."""
    if precision < 1 or start % precision or duration % precision:
        raise UsageError("start and duration must be multiples of time_precision, which is 1 at least")
    return Interval(start // precision, duration // precision)
