"""What a service counts, and how little of it is shown: nothing about one device can be read from ``/metrics``.

Time is cut into windows of ``WINDOW_SECONDS``. What devices moved is shown after the end of its window, as a multiple
of ``GRANULARITY``: of m events since the last page ``GRANULARITY * floor((m + u) / GRANULARITY)`` is added, where u is
uniform on 0 ... ``GRANULARITY - 1`` and drawn anew for each page and series. So the sum is right on average, and one
event more changes all that is ever shown with probability 1 / ``GRANULARITY`` exactly, at one moment, whatever else
happens: an offset that stayed could be found out by whoever sends events of their own, and from then on the next
crossing would tell of anybody else's. ``docs/metrics.md`` says what follows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
from bisect import bisect_left
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from tacit.methods.draws import uniform_below
from tacit.ports import Clock, Entropy
from tacit.service.metric_names import BUCKETS, METRICS, REQUESTS, STORE_WRITES, Rule, Shown

GRANULARITY = 100
WINDOW_SECONDS = 60
LEVEL_WINDOWS = 10
"""Windows from one look at a level to the next."""
READ_SECONDS = 5.0
"""In which a source answers, or is left out."""
TICKS = 100
"""Of processor time in a second."""

Reading = Mapping[tuple[str, ...], float]
"""Numbers by the values of the metric's labels."""
Source = Callable[[], Awaitable[Reading]]
Series = tuple[str, tuple[str, ...], int]
"""A metric, the values of its labels and the number of its bucket (0 for what is no histogram)."""


class Coarse:
    """Counts and levels that devices move, as they may be shown."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._window = self.window()
        self._open: Counter[Series] = Counter()
        self._ended: Counter[Series] = Counter()
        self._shown: dict[Series, int] = {}

    def window(self) -> int:
        """The number of the present window."""
        return int(self._clock.now() // WINDOW_SECONDS)

    def add(self, series: Series) -> None:
        """One event happened now."""
        window = int(self._clock.now() // WINDOW_SECONDS)
        if window != self._window:
            self._close(window)
        self._open[series] += 1

    def publish(self, series: Series, amount: int) -> None:
        """Add to what is shown the ``amount`` (>= 0) of a time that is over."""
        if added := self._rounded(amount):
            self._shown[series] = self._shown.get(series, 0) + added

    def level(self, series: Series, amount: int) -> None:
        """Show a level, rounded, until it is said again."""
        self._shown[series] = self._rounded(amount)

    def show(self, series: Series, rounded: int) -> None:
        """Show what a level was rounded to before."""
        self._shown[series] = max(0, rounded) // GRANULARITY * GRANULARITY

    def drop(self, series: Series) -> None:
        """Show it no more."""
        self._shown.pop(series, None)

    def shown(self) -> Mapping[Series, int]:
        """By series, multiples of ``GRANULARITY``; a count that is 0 is not there."""
        if (window := self.window()) != self._window:
            self._close(window)
        ended, self._ended = self._ended, Counter()
        for series, amount in ended.items():
            self.publish(series, amount)
        return self._shown

    def _close(self, window: int) -> None:
        self._ended += self._open
        self._open.clear()
        self._window = window

    def _rounded(self, amount: int) -> int:
        if amount <= 0:
            return 0
        return (amount + uniform_below(GRANULARITY, self._draw)) // GRANULARITY * GRANULARITY

    def _draw(self, length: int, /) -> bytes:
        return self._entropy(length)


class Metrics:
    """The metrics of one application, in a registry of its own."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._coarse = Coarse(clock, entropy)
        self._clock = clock
        self._sources: list[tuple[Shown, Source, bool]] = []
        self._exact: dict[str, Reading] = {}
        self._before: dict[Series, int] = {}
        self._read_in: dict[str, int] = {}
        self._reading = asyncio.Lock()
        self._own_only = False
        self._kept: Path | None = None
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._own_sources()

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request to ``route`` (a template, never a path) was answered with ``status`` after ``seconds``."""
        self._coarse.add((REQUESTS, (route, _CLASSES[status // 100]), _bucket(seconds)))

    def wrote(self, seconds: float) -> None:
        """The store took a write of the service's own in ``seconds``."""
        self._coarse.add((STORE_WRITES, (), _bucket(seconds)))

    def add(self, name: str, read: Source, *, shared: bool = False) -> None:
        """Have metric ``name`` read from ``read``, as its rule says: a count since ever, whose growth is shown
        coarsely; a level; or what is shown as it is. A source that fails is left out that time. ``shared``: whether it
        reads a database that other processes read, too."""
        self._sources.append((METRICS[name], read, shared))

    def only_own(self) -> None:
        """Show nothing that is shared: another process of the same database does, and two roundings of one number say
        more of it than one."""
        self._own_only = True

    def keep(self, path: Path) -> None:
        """Have levels outlive this process in the file ``path``, so that a start is no further look; what cannot be
        read there is looked at anew."""
        self._kept = path
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            for name, period, rows in json.loads(path.read_bytes()):
                if self._is_level(name):
                    for labels, number in rows:
                        self._coarse.show((name, tuple(map(str, labels)), 0), int(number))
                    self._read_in[name] = int(period)

    def has(self, name: str) -> bool:
        """Whether metric ``name`` is read from anything."""
        return any(shown.name == name for shown, *_ in self._sources)

    async def page(self) -> bytes:
        """The text format of Prometheus. Counts are read from the store once in a window at most, levels once in
        ``LEVEL_WINDOWS``, however often this is asked."""
        async with self._reading:
            await self._read_all()
            page: bytes = generate_latest(self._registry)
        return page

    async def samples(self) -> list[Sample]:
        """What ``page`` shows at this moment, and nothing finer: whoever reads both has read one of them."""
        async with self._reading:
            await self._read_all()
            return [sample for family in self.collect() for sample in family.samples]

    async def _read_all(self) -> None:
        for shown, read, shared in self._sources:
            if not (shared and self._own_only):
                await self._read(shown, read)

    async def _read(self, shown: Shown, read: Source) -> None:
        windows = LEVEL_WINDOWS if shown.rule is Rule.LEVEL else 1
        period = self._coarse.window() // windows
        if shown.rule is not Rule.EXACT and self._read_in.get(shown.name) == period:
            return
        try:
            async with asyncio.timeout(READ_SECONDS):
                found = await read()
        except Exception:  # the page outlives every error of one source; the service itself tells of what it means
            self._exact.pop(shown.name, None)
            return
        if shown.rule is Rule.EXACT:
            self._exact[shown.name] = found
        elif shown.rule is Rule.LEVEL:
            self._look(shown, found)
        else:
            self._grow(shown, found)
        self._read_in[shown.name] = period
        if shown.rule is Rule.LEVEL:
            self._write_levels(shown)

    def _look(self, shown: Shown, found: Reading) -> None:
        for series in [one for one in self._coarse.shown() if one[0] == shown.name]:
            self._coarse.drop(series)
        for labels, number in found.items():
            self._coarse.level((shown.name, labels, 0), int(number))

    def _write_levels(self, shown: Shown) -> None:
        """Keep all levels before the new ones are shown; where that fails, they are not."""
        if self._kept is None:
            return
        rows: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for (name, labels, _), number in self._coarse.shown().items():
            if self._is_level(name):
                rows.setdefault(name, []).append((labels, number))
        held = [(name, self._read_in[name], rows.get(name, [])) for name in self._read_in if self._is_level(name)]
        draft = self._kept.with_suffix(".new")
        try:
            draft.write_text(json.dumps(held))
            draft.replace(self._kept)
        except OSError:
            self._look(shown, {})

    @staticmethod
    def _is_level(name: str) -> bool:
        return METRICS[name].rule is Rule.LEVEL

    def _grow(self, shown: Shown, found: Reading) -> None:
        """What is there at the first reading is of before the start, and is not shown."""
        first = shown.name not in self._read_in
        for series in [one for one in self._before if one[0] == shown.name and one[1] not in found]:
            del self._before[series]
            self._coarse.drop(series)
        for labels, number in found.items():
            series, now = (shown.name, labels, 0), int(number)
            self._coarse.publish(series, 0 if first else now - self._before.get(series, 0))
            self._before[series] = now

    def collect(self) -> Iterable[Metric]:
        """For the registry: every metric that has something to show."""
        coarse: dict[str, dict[Series, int]] = {}
        for series, number in self._coarse.shown().items():
            coarse.setdefault(series[0], {})[series] = number
        for name, shown in METRICS.items():
            family = Metric(name.removesuffix("_total"), shown.about, shown.type)
            if shown.type == "histogram":
                _add_buckets(family, shown, coarse.get(name, {}))
            for labels, value in sorted(_values(coarse.get(name, {}), self._exact.get(name, {}), shown)):
                family.add_sample(name, dict(zip(shown.labels, labels, strict=True)), value)
            if family.samples:
                yield family

    def _own_sources(self) -> None:
        started = self._clock.now()
        self.add("process_cpu_seconds_total", number_of(_processor_ticks))
        self.add("process_resident_memory_bytes", number_of(_memory_units))
        self.add("process_open_fds", number_of(_descriptors))
        self.add("process_start_time_seconds", number_of(lambda: started))


_CLASSES = {kind: f"{kind}xx" for kind in range(1, 10)}


def _bucket(seconds: float) -> int:
    return bisect_left(BUCKETS, seconds)


def _values(coarse: Mapping[Series, int], exact: Reading, shown: Shown) -> Iterable[tuple[tuple[str, ...], float]]:
    if shown.type != "histogram":
        yield from ((labels, number * shown.scale) for (_, labels, _), number in coarse.items())
        yield from exact.items()


def _add_buckets(family: Metric, shown: Shown, counts: Mapping[Series, int]) -> None:
    """Cumulated, as the format wants it. There is no sum of seconds: a device's own would be in it."""
    for values in sorted({series[1] for series in counts}):
        labels, total = dict(zip(shown.labels, values, strict=True)), 0
        for place, bound in enumerate((*map(str, BUCKETS), "+Inf")):
            total += counts.get((shown.name, values, place), 0)
            family.add_sample(f"{shown.name}_bucket", {**labels, "le": bound}, total)
        family.add_sample(f"{shown.name}_count", labels, total)


def number_of(number: Callable[[], float]) -> Source:
    """The source of a metric without labels."""

    async def read() -> Reading:
        return {(): number()}

    return read


def by_label(numbers: Mapping[str, float]) -> Reading:
    """Numbers by the value of a metric's one label."""
    return {(label,): number for label, number in numbers.items()}


def _processor_ticks() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * TICKS


def _memory_units() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / METRICS["process_resident_memory_bytes"].scale


def _descriptors() -> float:
    return len(os.listdir("/proc/self/fd"))
