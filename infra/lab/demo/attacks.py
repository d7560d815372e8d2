"""The attacks that the demo really tries against the running services, on a recipe staged for them.

The staged recipe asks 49 devices where B is 50. A thief then adds a report with a token that was spent, one with a
token that it stole (as a leader could: it knows the leader's secret of the token, not the helper's), and one whose
proof is broken. None of them may count, so the collection that follows must fail at B-1.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import partial

from client_agent.oblivious import ObliviousClient
from infra.lab.demo.patience import BUSY, Patience
from infra.lab.demo.result import StagedRefusal
from infra.lab.kit.reports import BoundToken, ReportFactory, no_tokens
from tacit.dp.claim import UNBOUNDED
from tacit.errors import DAP_ERROR_PREFIX, REFUSAL_PREFIX, Refusal
from tacit.media_types import dap
from tacit.messages import AggregateShareReq, BatchSelector, Role, UploadRequest
from tacit.methods.method import plain
from tacit.models.form import Cap
from tacit.models.forms import form_of
from tacit.ports import Clock, Entropy, Transport, TransportError
from tacit.problem import problem_type
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.roles.collector import collection_request
from tacit.rules import table as rules
from tacit.task import Task
from tacit.tlog.leaves import SignedLeaf

MEASUREMENT = 0
CAUSES = {
    "token-spent": ("a token spent twice", "the token's nullifier is bound to another report"),
    "token-binding": ("a stolen token in the thief's own report", "the token is bound to another report"),
    "proof": ("a report with a broken proof", "the Prio3 proof does not verify"),
}


class Thief:
    """Makes reports that must not count, and uploads them as any client would."""

    def __init__(self, task: Task, client: ObliviousClient, clock: Clock, entropy: Entropy, patience: Patience) -> None:
        self._task = task
        self._client = client
        self._patience = patience
        self._clock = clock
        self._reports = ReportFactory(task, no_tokens, entropy)

    async def attack(self, spent: BoundToken, honest: BoundToken, own: BoundToken) -> None:
        """Upload one report per attack: ``spent`` again, ``honest`` as a leader would steal it, ``own`` with a
        broken proof."""
        make, time = self._reports, self._task.report_time(self._clock.now())
        for report in (
            make.valid(MEASUREMENT, token=spent, time=time),
            make.moved_token(MEASUREMENT, honest, time=time),
            make.bad_proof(MEASUREMENT, token=own, time=time),
        ):
            url, body = self._task.url(Role.LEADER, "reports"), UploadRequest((report,)).encode()
            status = await self._patience(partial(offered, self._client, url, dap("upload-req"), body))
            if status != 200:
                raise Refusal("demo-upload", f"the leader answered {status} to an upload")


async def offered(client: ObliviousClient, url: str, media_type: str, body: bytes) -> int:
    """Upload a report that was made for an attack; the status of the answer. Raises ``TransportError`` where the same
    report may be offered again."""
    answer = await client.request("POST", url, media_type=media_type, content=body)
    if answer.status in BUSY:
        raise TransportError(f"the server of the reports answered {answer.status}")
    return answer.status


def understated(recipe: Recipe) -> Recipe:
    """The same recipe with every claim but the local one divided by two; what is promised to nobody stays so."""
    body = recipe.body()
    claims = body["privacy"]["epsilon"]
    for name in (row.name for row in form_of(recipe.model).adversaries if row.cap is not Cap.LOCAL):
        if claims[name] != UNBOUNDED:
            claims[name] = plain(Decimal(claims[name]) / 2)
    body["name"] = "understated"
    return Recipe.from_body(body)


def refused_recipe(recipe: Recipe, policies: Mapping[str, Policy], now: float) -> StagedRefusal:
    """Let every party check a recipe whose claim is understated, each under its own policy."""
    context = Context(stage=Stage.DRAFT, now=now)
    said = {party: rules.check(recipe, policy, context) for party, policy in policies.items()}
    if not all(any(refusal.rule == "claim-understated" for refusal in refusals) for refusals in said.values()):
        raise Refusal("demo-staged", "a party accepted an understated epsilon")
    detail = next(refusal.detail for refusal in next(iter(said.values())) if refusal.rule == "claim-understated")
    return StagedRefusal("a recipe that understates its epsilon", ", ".join(said), f"claim-understated: {detail}")


async def refused_publication(leaf: SignedLeaf, url: str, transport: Transport) -> str:
    """Hand the leaf to the recipe server; returns the rule that refused it."""
    answer = await transport.request(
        "POST", f"{url}/v1/leaves", headers={"content-type": "application/json"}, body=leaf.encode()
    )
    if answer.status < 400:
        raise Refusal("demo-staged", "the recipe server accepted an understated epsilon")
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


def staged_refusals(leader: Mapping[str, int], helper: Mapping[str, int]) -> list[StagedRefusal]:
    """What the aggregators' own counters say of the three attacks."""
    found = []
    for cause, (attempt, reason) in CAUSES.items():
        refused_by = [name for name, counts in (("leader", leader), ("helper", helper)) if counts.get(cause)]
        if not refused_by:
            raise Refusal("demo-staged", f"nobody refused {attempt}")
        found.append(StagedRefusal(attempt, ", ".join(refused_by), reason))
    return found
