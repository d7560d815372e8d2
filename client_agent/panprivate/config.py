"""What the keeping process is told: where the state is, and what is watched. Recipes will say the latter one day."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from client_agent.panprivate.watch import Plan, Schedule
from tacit.errors import DecodeError
from tacit.panprivate.elgamal import PublicKey
from tacit.panprivate.single_server import MAX_OCCURRENCES, NonZero, Occurrences
from tacit.panprivate.stored import OneServer, StoredState, TwoServers
from tacit.panprivate.two_servers import SharedNonZero, SharedOccurrences, Sharing
from tacit.service.config import ConfigPath, Frozen

EventName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
SINGLE, SHARED = "pan-private-single", "pan-private"


class WatchedEvent(Frozen):
    """One event for one recipe (its hash, in hex). ``keys`` are ristretto255 elements in hex: the one server's, or
    those of Leader and Helper, who have a ``context``, too. ``k`` belongs to histogram and mean. Steps of
    ``step_seconds`` from ``start`` (POSIX seconds) on."""

    event: EventName
    recipe: Hex32
    model: Literal["pan-private", "pan-private-single"]
    statistic: Literal["count", "histogram", "mean"]
    k: int | None = Field(default=None, ge=1, le=MAX_OCCURRENCES)
    keys: tuple[Hex32, ...]
    context: str = Field(default="", max_length=512, pattern=r"^([0-9a-f]{2})*$")
    start: int = Field(ge=0, lt=1 << 63)
    step_seconds: int = Field(ge=1, lt=1 << 32)
    steps: int = Field(ge=1, lt=1 << 31)

    @model_validator(mode="after")
    def _one_whole(self) -> Self:
        if (self.k is None) != (self.statistic == "count"):
            raise ValueError("k belongs to histogram and mean, and to these alone")
        if (self.model, self.statistic) == (SHARED, "mean"):
            raise ValueError("pan-private has no mean; pan-private-single has")
        if len(self.keys) != (2 if self.model == SHARED else 1):
            raise ValueError("pan-private has two keys, pan-private-single one")
        if (self.model == SHARED) != bool(self.context):
            raise ValueError("pan-private has a context, pan-private-single none")
        try:
            for key in self.keys:
                PublicKey(bytes.fromhex(key))
        except DecodeError as error:
            raise ValueError(f"keys: {error}") from error
        return self

    @property
    def plan(self) -> Plan:
        """What is kept for it."""
        return Plan(bytes.fromhex(self.recipe), self._stored(), Schedule(self.start, self.step_seconds, self.steps))

    def _stored(self) -> StoredState:
        keys = [PublicKey(bytes.fromhex(key)) for key in self.keys]
        if self.model == SINGLE:
            return OneServer(NonZero(keys[0]) if self.k is None else Occurrences(keys[0], self.k))
        sharing = Sharing(keys[0], keys[1], bytes.fromhex(self.context))
        return TwoServers(SharedNonZero(sharing) if self.k is None else SharedOccurrences(sharing, self.k))


class WatchingConfig(Frozen):
    """What one device watches. Below ``state_dir`` are one file per recipe and the socket; all state in memory is
    replaced every ``tick_seconds``."""

    state_dir: ConfigPath
    tick_seconds: float = Field(default=1.0, ge=0.1, le=3600)
    watches: tuple[WatchedEvent, ...] = Field(min_length=1, max_length=64)

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len({watched.recipe for watched in self.watches}) != len(self.watches):
            raise ValueError("watches: a recipe is there twice")
        return self
