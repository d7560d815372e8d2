"""The configuration of a Prometheus that watches a stack: every metrics listener by name, and the alert rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tacit.adapters.disk.files import replace_file

FOLDER = Path(__file__).resolve().parent
ALERTS = FOLDER / "alerts.yml"
CONFIG = "prometheus.yml"
JOB = "tacit"
SCRAPE_SECONDS = 30
"""Seconds between two scrapes. Counts are published once a minute, so scraping more often shows nothing more."""


def scrape_config(
    metrics: Mapping[str, str], *, seconds: int = SCRAPE_SECONDS, tls: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """A Prometheus configuration. ``metrics`` are the metrics URLs by the name of a service, which becomes the label
    ``party``; ``tls`` holds the members of ``tls_config`` for all of them, ``None`` without TLS."""
    return {
        "global": {"scrape_interval": f"{seconds}s", "evaluation_interval": f"{seconds}s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": JOB,
                **({} if tls is None else {"scheme": "https", "tls_config": dict(tls)}),
                "static_configs": [
                    {"targets": [urlsplit(url).netloc], "labels": {"party": name}} for name, url in metrics.items()
                ],
            }
        ],
    }


def write_scrape_config(folder: Path, metrics: Mapping[str, str], tls: Mapping[str, str] | None = None) -> Path:
    """Write the configuration into ``folder`` as JSON, which is also YAML. Raises ``OSError``."""
    path = folder / CONFIG
    replace_file(path, json.dumps(scrape_config(metrics, tls=tls), indent=1).encode())
    return path
