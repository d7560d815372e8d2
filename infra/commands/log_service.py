"""The log monitor as a service on a loopback address: it reads the log at intervals and exports metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from infra.base.log_watch import LogReport, Stage, Watch
from infra.views.plain import visible
from tacit.errors import DecodeError
from tacit.monitor.findings import Finding
from tacit.ports import TransportError
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, add_driver, make_app

NAME = "monitor"


class Monitor(Collector):
    """Reads the log again at each ``step``, and reports each finding once, to ``tell``."""

    def __init__(self, watch: Watch, stage: Stage, tell: Callable[[Finding], None]) -> None:
        self._watch = watch
        self._stage = stage
        self._tell = tell
        self._told: set[Finding] = set()
        self._trouble = ""
        self.report: LogReport | None = None
        self.looks: Counter[str] = Counter()

    @property
    def found(self) -> bool:
        """Whether the monitor has found anything so far."""
        return bool(self._told)

    async def step(self) -> int:
        """Read the log once. Returns 0 always, so that the next read comes after the usual pause."""
        try:
            self.report = await self._watch.look(self._stage)
        except (TransportError, DecodeError) as error:
            self.looks["failed"] += 1
            self._trouble = f"the log cannot be read: {visible(str(error))}"
            return 0
        self.looks["done"] += 1
        self._trouble = ""
        for finding in self.report.findings:
            if finding not in self._told:
                self._told.add(finding)
                self._tell(finding)
        return 0

    def trouble(self) -> str:
        """Return the problem for the health check, an unreadable log or a number of findings, or an empty text."""
        count = 0 if self.report is None else len(self.report.findings)
        return self._trouble or (f"{count} findings" if count else "")

    def collect(self) -> Iterable[Metric]:
        """The monitor's counters and gauges."""
        looks = CounterMetricFamily("tacit_monitor_looks", "Reads of the log, by how they ended.", labels=["outcome"])
        for outcome in ("done", "failed"):
            looks.add_metric([outcome], self.looks[outcome])
        yield looks
        report = self.report
        if report is None:
            return
        kinds = Counter(finding.kind for finding in report.findings)
        yield GaugeMetricFamily("tacit_monitor_findings", "Findings of the last read.", kinds.total())
        by_kind = GaugeMetricFamily("tacit_monitor_findings_by_kind", "The same by kind.", labels=["kind"])
        for kind, count in sorted(kinds.items()):
            by_kind.add_metric([kind], count)
        yield by_kind
        yield GaugeMetricFamily("tacit_monitor_entries", "Entries of the log.", report.size)
        yield GaugeMetricFamily("tacit_monitor_recipes", "Recipes in the log.", report.recipes)
        yield GaugeMetricFamily("tacit_monitor_read_at_seconds", "When it was read (POSIX seconds).", report.at)


def create_app(monitor: Monitor, deps: ServiceEnv, seconds: float) -> web.Application:
    """Make the application: it reads the log every ``seconds``, and serves ``/metrics`` and the health check."""
    app = make_app(NAME, deps)
    app[HEALTH_PROBLEMS].append(monitor.trouble)

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(monitor), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app.router.add_get("/metrics", metrics)
    add_driver(app, monitor, seconds, "watching the log")
    return app
