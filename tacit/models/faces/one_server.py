"""What the models with one server have in common on devices and at the collector: the task, the analyzer's upload
resource, the meaning of its answers, and how a released aggregate is read (P24)."""

from __future__ import annotations

import json
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit import bhttp, media_types
from tacit.errors import REFUSAL_PREFIX, Refusal
from tacit.hpke import KeyPair
from tacit.messages import REPORT_ID_SIZE, HpkeConfig, Interval
from tacit.models.faces.collector import CollectorSide
from tacit.models.faces.device import Channel, DeviceSide, Fate, Submission, Verdict
from tacit.models.one_server import ANALYZER, analyzer_of
from tacit.ports import Entropy
from tacit.problem import party_of, problem_type
from tacit.recipe.derive import hpke_config, slot_of
from tacit.recipe.model import Recipe
from tacit.roles.collector import AggregateResult
from tacit.task.one_server import INVALID, OVER, REPLAYED, Contents, OneServerTask
from tacit.tokens.binding import Preimages
from tacit.tokens.slots import TokenVerifier
from tacit.tokens.structures import Token

TERMINAL = (INVALID, OVER, REPLAYED)
"""Refusals of the report itself. After any other answer (for example, the analyzer does not know the recipe yet) a
retry may succeed."""
MAX_NUMBER = (1 << 63) - 1


def task_of_one_server(recipe: Recipe, token_key_spki: bytes, cells: int, payload_size: int) -> OneServerTask:
    """The recipe's task, in which a report has a payload of ``payload_size`` bytes and an aggregate ``cells`` numbers;
    ``token_key_spki`` is the slot's key from the issuer's directory leaf. Raises refusal ``model-unsupported`` for a
    model with another kind of task, ``hpke-key-invalid`` or ``task-hpke``."""
    analyzer = analyzer_of(recipe.parties)
    return OneServerTask(
        recipe_hash=recipe.hash,
        role=ANALYZER,
        server_url=analyzer.url,
        hpke_config=hpke_config(analyzer.hpke_config),
        cells=cells,
        payload_size=payload_size,
        start_seconds=recipe.interval.start,
        end_seconds=recipe.interval.end,
        min_batch_size=recipe.batch.min_batch_size,
        expected_contributions=recipe.batch.expected_contributions,
        slot=slot_of(recipe),
        token_key_spki=token_key_spki,
    )


@dataclass(frozen=True)
class AnalyzerChannel(Channel):
    """The analyzer's upload resource of one recipe."""

    task: OneServerTask
    verifier: TokenVerifier

    @property
    def url(self) -> str:
        """The URL to which reports are sent."""
        return self.task.url("reports")

    @abstractmethod
    def payload(self, measurement: Any) -> bytes:
        """The payload of a report with ``measurement``. ``ValueError`` for one that the recipe does not allow."""

    def report_id(self, _measurement: Any, entropy: Entropy) -> bytes:
        """The report's id (16 bytes), by default a fresh one."""
        return entropy(REPORT_ID_SIZE)

    def submission(self, measurement: Any, token: bytes, preimages: Preimages, entropy: Entropy) -> Submission:
        """Seal one report to the analyzer. ``ValueError`` for a measurement that the recipe does not allow, or a token
        for another nonce."""
        payload = self.payload(measurement)
        if not self.verifier.takes(token) or Token.decode(token).nonce != preimages.nonce:
            raise ValueError("the token does not belong to the recipe's slot, or has another nonce")
        report_id = self.report_id(measurement, entropy)
        report = self.task.seal(report_id, Contents(token, preimages, payload), entropy)
        return Submission(self.url, media_types.ONE_SERVER_REPORT, report.encode())


class AnalyzerDevice(DeviceSide):
    """The device side of a model whose reports go to the analyzer."""

    media_type: ClassVar[str] = media_types.ONE_SERVER_REPORT

    def verdict(self, response: bhttp.Response) -> Verdict:
        """The meaning of the status or of a problem document. Only the known type is kept, not the document's words."""
        if 200 <= response.status < 300:
            return Verdict(Fate.STORED, "durably stored")
        problem = problem_type(response.content)
        known = next((rule for rule in TERMINAL if problem == REFUSAL_PREFIX + rule), None)
        party = party_of(response.content, "the analyzer")
        said = f"{party} answered {response.status}" + (f", {known}" if known else "")
        return Verdict(Fate.REFUSED if known else Fate.LATER, said)


@dataclass(frozen=True)
class OneServerSource:
    """The task of a recipe with one server, as the collector asks for it."""

    task: OneServerTask

    @property
    def party(self) -> str:
        """See ``Source.party``."""
        return self.task.role

    @property
    def once(self) -> bool:
        """See ``Source.once``."""
        return True

    @property
    def yield_url(self) -> str:
        """See ``Source.yield_url``."""
        return self.task.url("yield")

    @property
    def aggregate_url(self) -> str:
        """The URL of the released aggregate."""
        return self.task.url("aggregate")

    def request(self, interval: Interval | None) -> bytes:
        """See ``Source.request``: the aggregate is asked for by its URL alone."""
        del interval
        return b""

    def opened(self, body: bytes) -> AggregateResult:
        """The aggregate in the server's answer; see ``read_aggregate``."""
        return read_aggregate(self.task, body)


class AnalyzerCollector(CollectorSide):
    """The collector side of a model whose results come from the analyzer."""

    party: ClassVar[str] = ANALYZER

    def sealed_to(self, recipe: Recipe) -> HpkeConfig | None:
        """None: the analyzer answers with the aggregate itself."""
        del recipe
        return None

    @abstractmethod
    def task(self, recipe: Recipe, slot_key: bytes) -> OneServerTask:
        """The recipe's task. Raises the refusals of ``task_of_one_server``."""

    def source(self, recipe: Recipe, slot_key: bytes, key_pair: KeyPair | None) -> OneServerSource:
        """The recipe's task. Raises the refusals of ``task``."""
        del key_pair
        return OneServerSource(self.task(recipe, slot_key))


def read_aggregate(task: OneServerTask, body: bytes) -> AggregateResult:
    """The aggregate in an answer's body, with its interval in seconds. Raises ``Refusal``: ``collection-malformed`` if
    the aggregate does not fit the recipe, ``collection-size`` for fewer than B reports."""
    found = _members(body)
    count, values = found["report_count"], found["values"]
    if not all(type(one) is int and 0 <= one <= MAX_NUMBER for one in (count, *values)):
        raise Refusal("collection-malformed", "the aggregate's numbers must be whole and not negative")
    if len(values) != task.cells:
        raise Refusal("collection-malformed", f"the aggregate has {len(values)} values; {task.cells} are expected")
    if count < task.min_batch_size:
        raise Refusal("collection-size", f"{count} reports are fewer than {task.min_batch_size}")
    interval = Interval(task.start_seconds, task.end_seconds - task.start_seconds)
    return AggregateResult(count, interval, tuple(values), found.get("search"))


def _members(body: bytes) -> dict[str, Any]:
    try:
        found: Any = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal("collection-malformed", "the aggregate is not JSON") from error
    needed = {"report_count", "values"}
    if not isinstance(found, dict) or not needed <= set(found) <= {*needed, "search"}:
        raise Refusal("collection-malformed", "the aggregate must have the members report_count and values")
    if not isinstance(found["values"], list):
        raise Refusal("collection-malformed", "the aggregate's values must be a list")
    return found
