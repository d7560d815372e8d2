"""The attacks that the demo really tries against the running services, on a recipe staged for them.

The staged recipe asks 49 devices where B is 50. A thief then adds a report with a token that was spent, one with a
token that it stole (as a leader could: it knows the leader's secret of the token, not the helper's), and one whose
proof is broken. None of them may count, so the collection that follows must fail at B-1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from client_agent.oblivious import ObliviousClient
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.kit.patience import BUSY
from infra.lab.kit.reports import BoundToken, ReportFactory, no_tokens
from tacit.dp.claim import UNBOUNDED
from tacit.errors import DAP_ERROR_PREFIX, REFUSAL_PREFIX, Refusal
from tacit.media_types import dap
from tacit.messages import AggregateShareReq, BatchSelector, Report, UploadRequest
from tacit.methods.base.method import plain
from tacit.models.form import Cap
from tacit.models.forms import form_of
from tacit.models.secure_aggregation.device import DapChannel
from tacit.ports import Entropy, Transport, TransportError
from tacit.problem import problem_type
from tacit.recipe.model import Recipe
from tacit.roles.collector import collection_request
from tacit.task import Task
from tacit.tlog.leaves import SignedLeaf

MEASUREMENT = 0
SPENT = "a token spent twice"
JOINT = {"proof": "helper-vdaf-verify-error"}
"""What the leader counts where the helper is the first to see what both verify together."""
UNDERSTATED = "a recipe that understates its epsilon"


@dataclass(frozen=True)
class Attempt:
    """A report that must not count: the cause under which a server counts it as rejected, and the reason in words."""

    what: str
    cause: str
    reason: str
    body: bytes


class Thief(Protocol):
    """Makes the reports of a model."""

    @property
    def url(self) -> str: ...

    def attempts(self, spent: BoundToken, unspent: Sequence[BoundToken]) -> list[Attempt]:
        """One report for each attack, none of which may count. ``spent``: the token of a report that counted;
        ``unspent``: others, of which each report takes its own."""
        ...


@dataclass(frozen=True)
class SharesThief:
    """Makes the attacks on secure aggregation."""

    channel: DapChannel
    entropy: Entropy

    @property
    def url(self) -> str:
        return self.channel.url

    def attempts(self, spent: BoundToken, unspent: Sequence[BoundToken]) -> list[Attempt]:
        """One report for each attack; see ``Thief.attempts``. A token is stolen as a leader could: it knows the
        leader's secret of it, not the helper's."""
        stolen, own = unspent[:2]
        make = ReportFactory(self.channel.task, no_tokens, self.entropy)
        bound = "the token is bound to another report"
        return [
            Attempt(
                SPENT,
                "token-spent",
                "the token's nullifier is bound to another report",
                upload(make.valid(MEASUREMENT, token=spent)),
            ),
            Attempt(
                "a stolen token in the thief's own report",
                "token-binding",
                bound,
                upload(make.moved_token(MEASUREMENT, stolen)),
            ),
            Attempt(
                "a report with a broken proof",
                "proof",
                "the Prio3 proof does not verify",
                upload(make.bad_proof(MEASUREMENT, token=own)),
            ),
        ]


def upload(report: Report) -> bytes:
    """The body in which a device sends one report to the leader."""
    return UploadRequest((report,)).encode()


def refusals_of(attempts: Sequence[Attempt], rejected: Mapping[str, Mapping[str, int]]) -> list[StagedRefusal]:
    """What the servers' own counters (``rejected``: by server, by cause) say of the attempts. Raises ``Refusal`` where
    one of them was not refused."""
    wanted, found = Counter(attempt.cause for attempt in attempts), []
    for attempt in attempts:
        names, number = (attempt.cause, JOINT.get(attempt.cause, "")), wanted[attempt.cause]
        refused_by = [
            name for name, counts in rejected.items() if any(counts.get(cause, 0) >= number for cause in names)
        ]
        if not refused_by:
            raise Refusal("demo-staged", f"nobody refused {attempt.what}")
        found.append(StagedRefusal(attempt.what, ", ".join(refused_by), attempt.reason))
    return found


async def offered(client: ObliviousClient, url: str, media_type: str, body: bytes) -> int:
    """Upload a report that was made for an attack; the status of the answer. Raises ``TransportError`` where the same
    report may be offered again."""
    answer = await client.request("POST", url, media_type=media_type, content=body)
    if answer.status in BUSY:
        raise TransportError(f"the server of the reports answered {answer.status}")
    return answer.status


def understated(recipe: Recipe) -> Recipe:
    """The same recipe with every claim but the local one divided by two."""
    body = recipe.body()
    privacy = {**body["privacy"], "epsilon": halved(body["privacy"]["epsilon"], recipe.model)}
    return Recipe.from_body({**body, "name": "understated", "privacy": privacy})


def halved(claims: Mapping[str, str], model: str) -> dict[str, str]:
    """The claims of ``model``, all but the local one divided by two; what is promised to nobody stays so."""
    changed = {row.name for row in form_of(model).adversaries if row.cap is not Cap.LOCAL}
    return {
        name: plain(Decimal(epsilon) / 2) if name in changed and epsilon != UNBOUNDED else epsilon
        for name, epsilon in claims.items()
    }


async def refused_publication(leaf: SignedLeaf, url: str, transport: Transport) -> str:
    """Hand the leaf to the recipe server; returns the rule that refused it. Refusal ``demo-staged`` if none did."""
    answer = await transport.request(
        "POST", f"{url}/v1/leaves", headers={"content-type": "application/json"}, body=leaf.encode()
    )
    if answer.status < 400:
        raise Refusal("demo-staged", "the recipe server accepted what it must refuse")
    return problem_type(answer.body).removeprefix(REFUSAL_PREFIX)


async def helper_refusal(task: Task, token: str, transport: Transport) -> str:
    """Ask the helper for its aggregate share as a leader that does not care about B would; returns its problem."""
    job = collection_request(task)
    request = AggregateShareReq(job, BatchSelector.time_interval(task.interval), task.min_batch_size, bytes(32))
    url = f"{task.configuration.helper_aggregator_endpoint}/tasks/{task.task_id_text}/aggregate_shares"
    headers = {"authorization": f"Bearer {token}", "content-type": dap("aggregate-share-req")}
    answer = await transport.request("POST", url, headers=headers, body=request.encode())
    if answer.status < 400:
        raise Refusal("demo-staged", "the helper released a batch of B-1")
    return problem_type(answer.body).removeprefix(DAP_ERROR_PREFIX)
