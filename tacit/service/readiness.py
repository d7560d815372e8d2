"""Whether a service can do its work: what its stores, its background work and its certificates say at this moment.

Liveness is another question, which any answer of the process settles. Nothing here is written because somebody asked:
the stores are probed by the process itself, every ``PROBE_SECONDS``, so that an outage is noticed, and its end too,
where nobody asks anything of the service meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tacit.errors import Refusal, TacitError, Unavailable
from tacit.ports import Clock, TransportError

PROBE_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
"""After which a write that has not come back is a trouble of its own."""
FAILURES = 3
"""Steps of a driver that fail in a row before that is a trouble: a peer that starts again is none."""


class Durable(Protocol):
    """Where a service keeps what it must not lose."""

    @property
    def trouble(self) -> str:
        """In a few public words what the last writes met with; empty where they succeeded."""
        ...

    async def probe(self) -> None:
        """Write a little, durably. Raises what any write raises."""
        ...


class Probing:
    """A driver that writes to ``store``, once it is open, whether or not anybody else does."""

    def __init__(self, store: Callable[[], Durable | None], clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._since: float | None = None

    async def step(self) -> int:
        """Always 0: the next probe comes when it is time."""
        store = self._store()
        if store is None:
            return 0
        self._since = self._clock.now()
        try:
            await store.probe()
        except (TacitError, TransportError, OSError):
            if not store.trouble:  # it is not one that the store explains
                raise
        finally:
            self._since = None
        return 0

    def trouble(self) -> str:
        """What the store says, or that it says nothing at all."""
        store = self._store()
        if store is not None and store.trouble:
            return store.trouble
        waited = 0.0 if self._since is None else self._clock.now() - self._since
        return f"the store has not answered for {waited:.0f} s" if waited > PATIENCE_SECONDS else ""


class Steps:
    """The background work that fails, by what it does."""

    def __init__(self) -> None:
        self._failing: dict[str, str] = {}

    def told(self, doing: str, error: Exception | None, failures: int) -> None:
        """A step succeeded (no error), or failed for the ``failures``-th time in a row."""
        if error is None:
            self._failing.pop(doing, None)
        elif failures >= FAILURES or isinstance(error, Unavailable):
            self._failing[doing] = words_of(error)

    def trouble(self) -> str:
        """Each with why it fails."""
        return "; ".join(f"{doing} fails: {why}" for doing, why in sorted(self._failing.items()))


def words_of(error: Exception) -> str:
    """An error for everybody: in its own words where those are made for that, otherwise its kind."""
    if isinstance(error, Refusal):
        return f"refused by rule {error.rule}"
    return str(error) if isinstance(error, TacitError | TransportError) and str(error) else type(error).__name__
