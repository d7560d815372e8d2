"""The cost of a report at the analyzer before it is counted: HPKE, token, binding and decryption, for groups of
reports."""

from __future__ import annotations

from collections.abc import Iterator

from infra.lab.bench.rows import Row, Subject, measured
from infra.lab.bench.targets import OPEN
from infra.lab.kit.one_server import DEFAULT_MOST, AnalyzerKit, Reporter
from infra.lab.kit.reports import issuer_key
from tacit.adapters.system import OsEntropy
from tacit.models.servers import server_side
from tacit.multibuffer.crypto import BatchCrypto
from tacit.roles.analyzer import AnalyzerParty, open_reports
from tacit.roles.crypto import OPENSSL, JobCrypto
from tacit.task.one_server import OneServerTask
from tacit.tokens.slots import TokenVerifier

GROUP = 128
"""Number of reports that are opened together."""
PATHS: dict[str, JobCrypto] = {"OpenSSL": OPENSSL, "batch crypto": BatchCrypto(batch_hpke=True)}


def analyzer_rows(repetitions: int) -> Iterator[Row]:
    """Measure how reports of each statistic are opened, one by one with OpenSSL and together in vector registers."""
    kit = AnalyzerKit()
    for statistic in ("count", "histogram", "mean"):
        devices = Reporter(kit.single_recipe(statistic), OsEntropy(), kit)
        party = _party(kit, devices)
        reports = [party.task.report_in(devices.report(devices.cells(number % 3))) for number in range(GROUP)]
        subject = Subject(statistic, {} if statistic == "count" else {"k": DEFAULT_MOST})
        for path, crypto in PATHS.items():
            timing = measured(lambda: open_reports(party, reports, crypto), GROUP, repetitions)  # noqa: B023
            yield subject.row(OPEN, "analyzer", path, timing)


def _party(kit: AnalyzerKit, devices: Reporter) -> AnalyzerParty:
    task: OneServerTask = devices.channel.task
    verifier = TokenVerifier(issuer_key().token_key.spki, task.slot)
    reading = server_side(devices.recipe.model).reading(devices.recipe, kit.state_key)
    return AnalyzerParty(task, kit.hpke_key.key_pair, verifier, reading, float("inf"))
