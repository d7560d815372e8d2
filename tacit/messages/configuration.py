"""Task configuration of DAP-18: the public parameters, bound into every AAD.

Decoding checks the form only; ``tacit.task`` decides whether this party can take part in the task.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, Self

from tacit.codec import Reader, Writer
from tacit.errors import DecodeError
from tacit.messages.basic import BatchMode, Extension, Interval
from tacit.messages.extensions import strictly_increasing
from tacit.messages.struct import Struct, join, member, require_nonempty
from tacit.version import DapVersion


class TaskExtensionType(enum.IntEnum):
    """The types of task extensions that DAP-18 registers."""

    TASK_INTERVAL = 1


class TaskExtension(Extension):
    """An extension of the task configuration, where types must be strictly increasing."""

    __slots__ = ()

    @classmethod
    def task_interval(cls, interval: Interval) -> Self:
        """The extension that states when reports may be made, in units of the task's precision. ``ValueError`` as from
        ``Interval.write``."""
        return cls(TaskExtensionType.TASK_INTERVAL, interval.encode())


@dataclass(frozen=True, slots=True)
class TaskConfiguration(Struct):
    """Everything public about a task. URLs are ASCII text and are never normalised: their bytes are
    authenticated.

    ``time_precision`` is in seconds. ``batch_config`` is empty in both batch modes that exist.
    """

    LEAST_TASK_INFO: ClassVar[int] = 1

    task_info: bytes
    leader_aggregator_endpoint: str
    helper_aggregator_endpoint: str
    time_precision: int
    min_batch_size: int
    batch_mode: BatchMode
    batch_config: bytes
    vdaf_type: int
    vdaf_configuration: bytes
    extensions: tuple[TaskExtension, ...]

    def write(self, writer: Writer) -> None:
        if not strictly_increasing(self.extensions):
            raise ValueError("task extensions are not strictly increasing")
        writer.opaque(require_nonempty(self.task_info, "task info") if self.LEAST_TASK_INFO else self.task_info, 1)
        for url in (self.leader_aggregator_endpoint, self.helper_aggregator_endpoint):
            writer.opaque(require_nonempty(url.encode("ascii"), "aggregator endpoint"), 2)
        writer.uint(self.time_precision, 8).uint(self.min_batch_size, 8)
        writer.uint(self.batch_mode, 1).opaque(self.batch_config, 2)
        writer.uint(self.vdaf_type, 4).opaque(self.vdaf_configuration, 2)
        writer.opaque(join(self.extensions), 2)

    @classmethod
    def read(cls, reader: Reader) -> Self:
        configuration = cls(
            task_info=reader.opaque(1, minimum=cls.LEAST_TASK_INFO),
            leader_aggregator_endpoint=_read_url(reader),
            helper_aggregator_endpoint=_read_url(reader),
            time_precision=reader.uint(8),
            min_batch_size=reader.uint(8),
            batch_mode=member(BatchMode, reader.uint(1)),
            batch_config=reader.opaque(2),
            vdaf_type=reader.uint(4),
            vdaf_configuration=reader.opaque(2),
            extensions=tuple(reader.vector(2, TaskExtension.read)),
        )
        if not strictly_increasing(configuration.extensions):
            raise DecodeError("task extensions are not strictly increasing")
        return configuration


class OpenTaskConfiguration(TaskConfiguration):
    """A task configuration whose ``task_info`` may be empty, as in DAP-19 and Janus's main branch."""

    __slots__ = ()

    LEAST_TASK_INFO: ClassVar[int] = 0


def configuration_type(version: DapVersion) -> type[TaskConfiguration]:
    """The struct for task configurations in ``version``: the one whose ``task_info`` may be empty, or the one where
    not."""
    return TaskConfiguration if version.least_task_info else OpenTaskConfiguration


def _read_url(reader: Reader) -> str:
    try:
        return reader.opaque(2, minimum=1).decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError("aggregator endpoint is not ASCII") from error
