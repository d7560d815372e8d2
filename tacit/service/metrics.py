"""What a service counts, and how little of it is shown: nothing about one device can be read from ``/metrics``.

Time is cut into windows of ``WINDOW_SECONDS``. A count that devices change is shown after the end of its window, as a
multiple of ``GRANULARITY``: for m events since the last page ``GRANULARITY * floor((m + u) / GRANULARITY)`` is added,
where u is uniform on 0 ... ``GRANULARITY - 1`` and drawn anew for each page and series. So the sum is right on average,
and one event more changes what is ever shown with probability exactly 1 / ``GRANULARITY``, at one moment, whatever else
happens. A constant offset could be found out by sending one's own events, and from then on the next crossing would
reveal somebody else's event. ``docs/metrics.md`` describes the consequences.
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

from tacit.ports import Clock, Entropy
from tacit.service.metric_names import BUCKETS, OF_EVERY_SERVICE, REQUESTS, STORE_WRITES, Rule, Shown
from tacit.uniform import uniform_below

GRANULARITY = 100
WINDOW_SECONDS = 60
LEVEL_WINDOWS = 10
"""Number of windows from one reading of a level to the next."""
READ_SECONDS = 5.0
"""Seconds within which a source must answer, or it is left out."""
TICKS = 100
"""Units of processor time in a second."""

Reading = Mapping[tuple[str, ...], float]
"""Numbers by the values of the metric's labels."""
Source = Callable[[], Awaitable[Reading]]
Series = tuple[str, tuple[str, ...], int]
"""A metric, the values of its labels and the index of its bucket (0 for metrics that are not histograms)."""


class Coarse:
    """Counts and levels that devices change, as they may be shown."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._clock = clock
        self._entropy = entropy
        self._window = self.window()
        self._open: Counter[Series] = Counter()
        self._ended: Counter[Series] = Counter()
        self._shown: dict[Series, int] = {}

    def window(self) -> int:
        """The number of the current window of ``WINDOW_SECONDS``, counted from POSIX time 0."""
        return int(self._clock.now() // WINDOW_SECONDS)

    def add(self, series: Series) -> None:
        """Count one event in the window of the present moment."""
        window = int(self._clock.now() // WINDOW_SECONDS)
        if window != self._window:
            self._close(window)
        self._open[series] += 1

    def publish(self, series: Series, amount: int) -> None:
        """Add ``amount`` (>= 0) of a past period to what is shown."""
        if added := self._round(amount):
            self._shown[series] = self._shown.get(series, 0) + added

    def level(self, series: Series, amount: int) -> None:
        """Show a level, rounded, until it is read again."""
        self._shown[series] = self._round(amount)

    def show(self, series: Series, rounded: int) -> None:
        """Show the value to which a level was rounded before: 0 or more, and cut to a multiple of ``GRANULARITY``."""
        self._shown[series] = max(0, rounded) // GRANULARITY * GRANULARITY

    def drop(self, series: Series) -> None:
        """Stop showing the series; its count is lost."""
        self._shown.pop(series, None)

    def shown(self) -> Mapping[Series, int]:
        """The shown multiples of ``GRANULARITY`` by series; counts of 0 are left out."""
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

    def _round(self, amount: int) -> int:
        if amount <= 0:
            return 0
        return (amount + uniform_below(GRANULARITY, self._draw)) // GRANULARITY * GRANULARITY

    def _draw(self, length: int, /) -> bytes:
        return self._entropy(length)


class Metrics:
    """The metrics of one application, in their own registry."""

    def __init__(self, clock: Clock, entropy: Entropy) -> None:
        self._coarse = Coarse(clock, entropy)
        self._clock = clock
        self._shown = dict(OF_EVERY_SERVICE)
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
        """Count a request to ``route`` (a template, never a path) that was answered with ``status`` after
        ``seconds``."""
        self._coarse.add((REQUESTS, (route, _CLASSES[status // 100]), _bucket(seconds)))

    def wrote(self, seconds: float) -> None:
        """Count a write of the service's own probe that took ``seconds``."""
        self._coarse.add((STORE_WRITES, (), _bucket(seconds)))

    def declare(self, *metrics: Shown) -> None:
        """Show these metrics of the service itself too, once they have sources."""
        self._shown |= {one.name: one for one in metrics}

    def of_sample(self, name: str) -> Shown:
        """The metric to which a sample called ``name`` belongs, such as a histogram's ``_count`` or ``_bucket``. Raises
        ``KeyError`` for a sample of none."""
        return self._shown.get(name) or self._shown[name.removesuffix("_count").removesuffix("_bucket")]

    def add(self, name: str, read: Source, *, shared: bool = False) -> None:
        """Read metric ``name`` from ``read``, according to its rule: a total count, whose growth is shown coarsely; a
        level; or an exact number. A source that fails is left out that time. ``shared``: whether it reads a database
        that other processes read too."""
        self._sources.append((self._shown[name], read, shared))

    def only_own(self) -> None:
        """Show nothing that is shared: another process with the same database shows it, and two roundings of one number
        would reveal more than one."""
        self._own_only = True

    def keep(self, path: Path) -> None:
        """Keep levels in the file ``path`` beyond the end of this process, so that a restart causes no additional
        reading; levels that cannot be read from it are read anew."""
        self._kept = path
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
            for name, period, rows in json.loads(path.read_bytes()):
                if self._is_level(name):
                    for labels, number in rows:
                        self._coarse.show((name, tuple(map(str, labels)), 0), int(number))
                    self._read_in[name] = int(period)

    def has(self, name: str) -> bool:
        """Whether metric ``name`` has a source."""
        return any(shown.name == name for shown, *_ in self._sources)

    async def page(self) -> bytes:
        """The page in Prometheus's text format. Counts are read from the store at most once per window, levels once in
        ``LEVEL_WINDOWS``, however often it is requested."""
        async with self._reading:
            await self._read_all()
            page: bytes = generate_latest(self._registry)
        return page

    async def samples(self) -> list[Sample]:
        """The samples that ``page`` shows at this moment, and nothing finer: reading both reveals no more than one."""
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
                reading = await read()
        except Exception:  # an error of one source must not break the page; the service itself reports what it means
            self._exact.pop(shown.name, None)
            return
        if shown.rule is Rule.EXACT:
            self._exact[shown.name] = reading
        elif shown.rule is Rule.LEVEL:
            self._look(shown, reading)
        else:
            self._grow(shown, reading)
        self._read_in[shown.name] = period
        if shown.rule is Rule.LEVEL:
            self._write_levels(shown)

    def _look(self, shown: Shown, found: Reading) -> None:
        for series in [one for one in self._coarse.shown() if one[0] == shown.name]:
            self._coarse.drop(series)
        for labels, number in found.items():
            self._coarse.level((shown.name, labels, 0), int(number))

    def _write_levels(self, shown: Shown) -> None:
        """Store all levels before the new ones are shown; where that fails, the new ones are not shown."""
        if self._kept is None:
            return
        rows: dict[str, list[tuple[tuple[str, ...], int]]] = {}
        for (name, labels, _), number in self._coarse.shown().items():
            if self._is_level(name):
                rows.setdefault(name, []).append((labels, number))
        held = [(name, self._read_in[name], rows.get(name, [])) for name in self._read_in if self._is_level(name)]
        draft = self._kept.with_suffix(".new")
        try:
            draft.write_text(json.dumps(held), "utf-8")
            draft.replace(self._kept)
        except OSError:
            self._look(shown, {})

    def _is_level(self, name: str) -> bool:
        return self._shown[name].rule is Rule.LEVEL

    def _grow(self, shown: Shown, found: Reading) -> None:
        """Show the growth since the last reading; what was counted before the first reading is not shown."""
        first = shown.name not in self._read_in
        for series in [one for one in self._before if one[0] == shown.name and one[1] not in found]:
            del self._before[series]
            self._coarse.drop(series)
        for labels, number in found.items():
            series, now = (shown.name, labels, 0), int(number)
            self._coarse.publish(series, 0 if first else now - self._before.get(series, 0))
            self._before[series] = now

    def collect(self) -> Iterable[Metric]:
        """For the registry: yield every metric that has something to show."""
        coarse: dict[str, dict[Series, int]] = {}
        for series, number in self._coarse.shown().items():
            coarse.setdefault(series[0], {})[series] = number
        for name, shown in self._shown.items():
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
    """Cumulative buckets, as the format requires. There is no sum of seconds, which would contain a single device's."""
    for values in sorted({series[1] for series in counts}):
        labels, total = dict(zip(shown.labels, values, strict=True)), 0
        for place, bound in enumerate((*map(str, BUCKETS), "+Inf")):
            total += counts.get((shown.name, values, place), 0)
            family.add_sample(f"{shown.name}_bucket", {**labels, "le": bound}, total)
        family.add_sample(f"{shown.name}_count", labels, total)


def number_of(number: Callable[[], float]) -> Source:
    """The source of a metric without labels: ``number`` is called at each reading."""

    async def read() -> Reading:
        return {(): number()}

    return read


def by_label(numbers: Mapping[str, float]) -> Reading:
    """Numbers by the value of a metric's only label."""
    return {(label,): number for label, number in numbers.items()}


def _processor_ticks() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return (used.ru_utime + used.ru_stime) * TICKS


def _memory_units() -> float:
    pages = int(Path("/proc/self/statm").read_text("utf-8").split()[1])
    return pages * resource.getpagesize() / OF_EVERY_SERVICE["process_resident_memory_bytes"].scale


def _descriptors() -> float:
    return len(os.listdir("/proc/self/fd"))
