"""The log monitor as a service on a loopback address: it reads the log at intervals and exports metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from aiohttp import web

from infra.base.log_watch import LogReport, Stage, Watch
from infra.views.plain import visible
from tacit.errors import DecodeError
from tacit.monitor.findings import Finding
from tacit.ports import TransportError
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, add_driver, make_app

NAME = "monitor"
METRICS = "text/plain; version=0.0.4; charset=utf-8"


class Monitor:
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

    def metrics(self) -> str:
        """Return the monitor's counters and gauges in the text format of Prometheus."""
        lines = ["# TYPE tacit_monitor_looks_total counter"]
        lines += [f'tacit_monitor_looks_total{{outcome="{name}"}} {self.looks[name]}' for name in ("done", "failed")]
        report = self.report
        if report is not None:
            kinds = Counter(finding.kind for finding in report.findings)
            lines += ["# TYPE tacit_monitor_findings gauge", f"tacit_monitor_findings {sum(kinds.values())}"]
            lines += ["# TYPE tacit_monitor_findings_by_kind gauge"] if kinds else []
            lines += [
                f'tacit_monitor_findings_by_kind{{kind="{kind}"}} {count}' for kind, count in sorted(kinds.items())
            ]
            for name, number in (("entries", report.size), ("recipes", report.recipes), ("read_at_seconds", report.at)):
                lines += [f"# TYPE tacit_monitor_{name} gauge", f"tacit_monitor_{name} {number}"]
        return "\n".join(lines) + "\n"


def create_app(monitor: Monitor, deps: ServiceEnv, seconds: float) -> web.Application:
    """Make the application: it reads the log every ``seconds``, and serves ``/metrics`` and the health check."""
    app = make_app(NAME, deps)
    app[HEALTH_PROBLEMS].append(monitor.trouble)

    async def metrics(_request: web.Request) -> web.Response:
        return web.Response(body=monitor.metrics().encode(), headers={"Content-Type": METRICS})

    app.router.add_get("/metrics", metrics)
    add_driver(app, monitor, seconds, "watching the log")
    return app
