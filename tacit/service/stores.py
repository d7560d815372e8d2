"""Whether a service's stores take what it must not lose: the process itself writes to them every ``PROBE_SECONDS``, so
that an outage and its end are noticed even when nobody sends requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from aiohttp import web

from tacit.errors import TacitError
from tacit.ports import Clock, TransportError
from tacit.service.app import HEALTH_PROBLEMS, METRICS, SERVICE_ENV, run_beside
from tacit.service.metrics import number_of

PROBE_SECONDS = 5.0
PATIENCE_SECONDS = 20.0
"""Seconds after which a write that has not returned is a problem by itself."""


class Durable(Protocol):
    """Where a service keeps what it must not lose."""

    @property
    def trouble(self) -> str:
        """In a few public words, the problem that the last writes met; empty where they succeeded."""
        ...

    async def probe(self) -> None:
        """Write a little, durably. Raises what any write raises."""
        ...


class Probing:
    """A driver that writes to ``store``, once it is open, whether or not anybody else does."""

    def __init__(self, store: Callable[[], Durable | None], clock: Clock, wrote: Callable[[float], None]) -> None:
        """``wrote`` is called with the seconds that each successful probe took."""
        self._store = store
        self._clock = clock
        self._wrote = wrote
        self._since: float | None = None

    async def step(self) -> int:
        """Probe once. Always returns 0: the next probe comes when it is due."""
        store = self._store()
        if store is None:
            return 0
        self._since = self._clock.now()
        try:
            await store.probe()
            self._wrote(self._clock.now() - self._since)
        except (TacitError, TransportError, OSError):
            if not store.trouble:  # an error that the store does not explain itself
                raise
        finally:
            self._since = None
        return 0

    def trouble(self) -> str:
        """The store's problem, or that it does not answer."""
        store = self._store()
        if store is not None and store.trouble:
            return store.trouble
        waited = 0.0 if self._since is None else self._clock.now() - self._since
        return f"the store has not answered for {waited:.0f} s" if waited > PATIENCE_SECONDS else ""


PROBES: web.AppKey[list[Probing]] = web.AppKey("probes", list)


def add_store(app: web.Application, store: Callable[[], Durable | None]) -> None:
    """Let the health checks report why ``store`` (None while it is not open) cannot write, and probe it while the app
    runs. Register it after what opens it. With ``ServiceEnv.background`` false it is only listed in ``app[PROBES]``."""
    probing = Probing(store, app[SERVICE_ENV].clock, app[METRICS].wrote)
    app.setdefault(PROBES, []).append(probing)
    app[HEALTH_PROBLEMS].append(probing.trouble)
    app[METRICS].add("tacit_store_well", number_of(lambda: float(not probing.trouble())))
    run_beside(app, probing, PROBE_SECONDS, "writing to the store")
