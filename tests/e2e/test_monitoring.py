"""Alert rules and dashboard against the code that makes the numbers, and against a real Prometheus."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml  # type: ignore[import-untyped]

from infra.base.free_ports import free_ports
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.monitoring.scraping import ALERTS, FOLDER, scrape_config, write_scrape_config
from infra.tools.documents.metrics import METRICS
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.system import SystemClock
from tacit.ports import TransportError
from tacit.service.app import HEALTH_PROBLEMS, ServiceEnv, make_app
from tacit.service.app import METRICS as APP_METRICS
from tacit.service.base.config import Listen
from tacit.service.metrics import Reading, Source
from tacit.service.run import started
from tests.conftest import skip_or_fail

TESTS = ALERTS.with_name("alerts_test.yml")
RULES = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
PANELS = json.loads((FOLDER / "dashboard.json").read_text())["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
NAMES = re.compile(r"\b((?:tacit|process)_[a-z0-9_]+)\b")


@pytest.fixture(scope="module")
def programs() -> dict[str, str]:
    """Debian's ``prometheus``: the paths of the server and of promtool."""
    found = {}
    for program in ("prometheus", "promtool"):
        if (path := shutil.which(program)) is None:
            skip_or_fail("prometheus", f"no {program} on PATH (apt-get install prometheus)")
        found[program] = str(path)
    return found


def test_rules_and_panels_ask_for_metrics_that_there_are_with_the_labels_that_they_have() -> None:
    asked = {name for text in (*(rule["expr"] for rule in RULES), *QUERIES) for name in NAMES.findall(text)}
    known = {one.name for one in METRICS.values()}
    known |= {f"{one.name}_{end}" for one in METRICS.values() if one.type == "histogram" for end in ("count", "bucket")}
    assert asked <= known
    labels = {label for one in METRICS.values() for label in one.labels} | {"party"}
    said = {label for rule in RULES for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])}
    legends = {
        name for panel in PANELS for one in panel["targets"] for name in re.findall(r"{{(\w+)}}", one["legendFormat"])
    }
    assert said | legends <= labels
    unseen = {name for name in METRICS if not any(name in text for text in (*asked, *QUERIES))}
    assert {name for name in unseen if not name.startswith("tacit_witness_")} <= {
        "tacit_build_info",
        "process_open_fds",
        "process_start_time_seconds",
    }


def test_every_rule_has_a_test_in_which_it_is_quiet_and_then_fires() -> None:
    tested: dict[str, list[bool]] = {}
    for case in yaml.safe_load(TESTS.read_text())["tests"]:
        for one in case["alert_rule_test"]:
            tested.setdefault(one["alertname"], []).append(bool(one["exp_alerts"]))
    assert tested == {rule["alert"]: [False, True] for rule in RULES}
    assert {rule["labels"]["severity"] for rule in RULES} == {"warning", "critical"}


def test_promtool_accepts_rules_their_tests_and_the_configuration_of_a_stack(
    programs: dict[str, str], tmp_path: Path
) -> None:
    config = write_scrape_config(tmp_path, {"leader": "http://127.0.0.1:1/metrics"})
    for arguments in (["check", "rules", str(ALERTS)], ["test", "rules", str(TESTS)], ["check", "config", str(config)]):
        done = subprocess.run([programs["promtool"], *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
async def parties() -> AsyncIterator[dict[str, str]]:
    """Two applications of one process with a listener for metrics each; the URLs of these by name."""
    async with AsyncExitStack() as stack:
        urls = {}
        for name, wrong in (("leader", ""), ("helper", "the store is away")):
            app = make_app(name, ServiceEnv(SystemClock(), SeededEntropy(5), InProcessTransport(), background=False))
            app[APP_METRICS].declare(*METRICS.values())
            for one in METRICS.values():
                if one.type != "histogram" and one.name not in {"tacit_ready", "tacit_build_info"}:
                    app[APP_METRICS].add(one.name, _some(len(one.labels)))
            app[HEALTH_PROBLEMS].append(partial(str, wrong))
            ready = await stack.enter_async_context(started(app, Listen(), metrics=Listen(), grace_seconds=1))
            urls[name] = str(ready.metrics)
        yield urls


def _some(labels: int) -> Source:
    async def read() -> Reading:
        return {("x",) * labels: 100_000.0}

    return read


@pytest.fixture
def prometheus(programs: dict[str, str], parties: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """The URL of a Prometheus that watches ``parties``."""
    config = tmp_path / "prometheus.yml"
    config.write_text(json.dumps(scrape_config(parties, seconds=1)))
    (port,) = free_ports(1)
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                programs["prometheus"],
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)


async def _ask(http: HttpTransport, url: str) -> Any:
    answer = await http.request("GET", url)
    document = json.loads(answer.body)
    assert document["status"] == "success", document
    return document["data"]


@pytest.mark.slow
async def test_a_real_prometheus_reads_every_listener_and_answers_every_panel(
    prometheus: str, parties: dict[str, str]
) -> None:
    async with HttpTransport() as http, asyncio.timeout(60):
        while True:
            try:
                found = (await _ask(http, f"{prometheus}/api/v1/query?query=tacit_ready"))["result"]
            except (TransportError, json.JSONDecodeError):
                found = []
            if len(found) == len(parties):
                break
            await asyncio.sleep(0.05)
        ready = {one["metric"]["party"]: one["value"][1] for one in found}
        assert ready == {"leader": "1", "helper": "0"}
        targets = (await _ask(http, f"{prometheus}/api/v1/targets"))["activeTargets"]
        assert {one["labels"]["party"]: one["health"] for one in targets} == dict.fromkeys(parties, "up")
        for query in QUERIES:
            await _ask(http, f"{prometheus}/api/v1/query?query={quote(query.replace('$party', '.*'))}")
        every = quote('{__name__=~"tacit_.*"}')
        levels = await _ask(http, f"{prometheus}/api/v1/query?query={every}")
        names = {one["metric"]["__name__"] for one in levels["result"]}
        assert {one.name for one in METRICS.values() if one.rule == "exact" and one.name[:7] == "tacit_"} <= names
        rules = (await _ask(http, f"{prometheus}/api/v1/rules"))["groups"][0]["rules"]
        assert {rule["name"] for rule in rules} == {rule["alert"] for rule in RULES}
        assert not [rule["lastError"] for rule in rules if rule.get("lastError")]
