"""What a shuffler passes on, and to whom (P25): pieces of one size, of all devices together, in few requests.

In the shuffled model a piece is a message for the analyzer. Before leader and helper a piece is a device's whole DAP
report, and the requests are the leader's ordinary uploads; the last of them is empty, which says that no more will
come.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple

from tacit import media_types
from tacit.answers import is_final
from tacit.dap_errors import DapProblem, ReportError
from tacit.errors import DAP_ERROR_PREFIX, REFUSAL_PREFIX, DecodeError
from tacit.messages import Role
from tacit.messages.chunk import MessageChunk
from tacit.messages.version_codec import decode_upload_errors
from tacit.problem import problem_type
from tacit.task.one_server import REPLAYED
from tacit.task.shuffled import Bundling, message_size
from tacit.task.task import Task
from tacit.version import DAP_18, DapVersion

RETRIED = frozenset({ReportError.REPORT_TOO_EARLY, ReportError.TASK_NOT_STARTED})
"""Errors of single reports that are caused by clocks that differ: the same bytes are taken later."""


_UNREADABLE = DAP_ERROR_PREFIX + DapProblem.INVALID_MESSAGE


class Receipt(NamedTuple):
    """What an answer says of a request. ``is_taken``: nothing is left to do for it; ``refused``: how many of its pieces
    will never count; ``is_last``: nothing more will be taken of the recipe; ``is_refused``: the receiver's own word
    that these bytes never count, so that nothing is left to do for them, while other requests may still be taken;
    ``is_replayed``: its word that a shuffler has sent it the recipe in another order."""

    is_taken: bool
    refused: int = 0
    is_last: bool = False
    is_refused: bool = False
    is_replayed: bool = False


class Onward(ABC):
    """``receiver``: the role of the server to which everything goes; ``media_type``: of the requests; ``url``: where
    they are sent; ``size``: bytes of a piece; ``pieces``: how many each device sends; ``nothing``: the requests that
    say that nothing will come; ``looks``: where looks at the count are told."""

    receiver: ClassVar[str]
    media_type: ClassVar[str]
    nothing: ClassVar[tuple[bytes, ...]]
    url: str
    size: int
    pieces: int
    looks: str

    @abstractmethod
    def pieces_like(self, messages: int) -> int:
        """How many pieces may be taken for ``messages`` messages of the shuffled model, at least 1."""

    @abstractmethod
    def requests(self, parts: Iterable[bytes], total: int) -> Iterator[bytes]:
        """The bodies that carry ``parts``, of which there are ``total`` and each holds whole pieces, in this order; one
        is made when it is asked for."""

    @abstractmethod
    def receipt(self, status: int, body: bytes) -> Receipt:
        """What the receiver's answer to a request means."""


@dataclass(frozen=True, slots=True)
class ToAnalyzer(Onward):
    """The sealed messages of the shuffled model."""

    receiver: ClassVar[str] = "analyzer"
    media_type: ClassVar[str] = media_types.MESSAGE_CHUNK
    nothing: ClassVar[tuple[bytes, ...]] = (MessageChunk(0, 0, b"").encode(),)
    url: str
    size: int
    pieces: int
    looks: str

    @classmethod
    def of(cls, bundling: Bundling) -> ToAnalyzer:
        """What carries the messages of ``bundling`` to its analyzer."""
        task = bundling.task
        return cls(task.url("chunks"), bundling.message_size, bundling.messages, task.url("looks"))

    def pieces_like(self, messages: int) -> int:
        """The same number: a piece is a message."""
        return messages

    def requests(self, parts: Iterable[bytes], total: int) -> Iterator[bytes]:
        """A chunk for each part, with its number, from 0, and ``total``."""
        return (MessageChunk(at, total, part).encode() for at, part in enumerate(parts))

    def receipt(self, status: int, body: bytes) -> Receipt:
        """A chunk is taken as a whole, or not; a rule by which the analyzer refuses one (others came first, the recipe
        is over) refuses all."""
        final = is_final(status, body)
        replayed = final and problem_type(body) == REFUSAL_PREFIX + REPLAYED
        return Receipt(200 <= status < 300, is_last=final, is_replayed=replayed)


@dataclass(frozen=True, slots=True)
class ToLeader(Onward):
    """The DAP reports of a task, each of which is one piece."""

    receiver: ClassVar[str] = "leader"
    media_type: ClassVar[str] = media_types.dap("upload-req")
    nothing: ClassVar[tuple[bytes, ...]] = (b"",)
    url: str
    size: int
    pieces: int
    looks: str
    version: DapVersion = DAP_18

    @classmethod
    def of(cls, task: Task, size: int) -> ToLeader:
        """What carries the reports of ``task``, of ``size`` bytes each, to its leader."""
        return cls(task.url(Role.LEADER, "reports"), size, 1, task.url(Role.LEADER, "looks"), task.version)

    def pieces_like(self, messages: int) -> int:
        """How many reports have the bytes of so many messages, at least 1."""
        return max(1, messages * message_size(1) // self.size)

    def requests(self, parts: Iterable[bytes], total: int) -> Iterator[bytes]:
        """An upload for each part, and an empty one after them."""
        del total
        return chain(parts, self.nothing)

    def receipt(self, status: int, body: bytes) -> Receipt:
        """The leader answers each report by itself; one that it refuses is not offered again, nor is a request that it
        cannot read. Any other answer may be that of something in between, or of a leader that is set up wrongly: the
        request is repeated."""
        if not 200 <= status < 300:
            return Receipt(False, is_refused=is_final(status, body) and problem_type(body) == _UNREADABLE)
        try:
            errors = [one.error for one in decode_upload_errors(body, self.version).status]
        except DecodeError:
            return Receipt(False)
        return Receipt(RETRIED.isdisjoint(errors), len(errors))
