"""The world of a demo run: a stack of real services in this process, the clock that the run moves, and what an analyst
or an operator does in it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, ClassVar

from client_agent.deciding import AgentEnv
from client_agent.journal import State
from client_agent.oblivious import ObliviousClient
from infra.lab.demo.attacks.common import UNDERSTATED, offered, refused_publication, understated
from infra.lab.demo.attacks.split_view import refused_split_view
from infra.lab.demo.fleet import Fleet
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.demo.results.view import Stages
from infra.lab.demo.services import Services
from infra.lab.demo.shared_clock import SharedClock
from infra.lab.kit.patience import TRIES, Patience
from infra.stacks.layout import signing_key_of
from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.codec import unb64url
from tacit.dp.claim import UNBOUNDED
from tacit.errors import Refusal
from tacit.models.devices import device_side
from tacit.models.one_server import ANALYZER
from tacit.ohttp import KeyConfig
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.problem import read_problem
from tacit.recipe.context import Context, Stage
from tacit.recipe.model import Recipe
from tacit.recipe.policy import parse_policy
from tacit.recipe.series import Series
from tacit.rules import table as rules
from tacit.service.base.log import log_level
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf

DAY, HOUR = 86400, 3600
PRECISION = 300
MAIN_SLOT, DRILL_SLOT = 0, 1
WITNESSES = 2
PREFETCH_SLICES = 12
RETRY_SECONDS = (300, 240, 180, 120, 60, 30, 10, 1)
"""Before the interval, or the day before it, is over: further moments for what a busy machine did not take at once.
Pauses of devices between two tries grow from 5 seconds on."""


@dataclass(frozen=True)
class Recipes:
    """What is asked, and a staged recipe of one device too few, for the attacks."""

    main: Recipe
    drill: Recipe

    @property
    def both(self) -> tuple[Recipe, Recipe]:
        """The two, the one that is shown first."""
        return self.main, self.drill


class Staging:
    """A fresh stack below ``state_dir``. ``servers`` take reports, and the first of them drives what comes of these."""

    _upload_slices: ClassVar[int] = 12
    """At so many moments of an interval, but one, reports go out that are due."""

    def __init__(self, state_dir: Path, options: StackOptions, stages: Stages, *servers: str) -> None:
        self._stages = stages
        start = SystemClock().now() // DAY * DAY + HOUR
        self._epoch = int(start) // DAY + 2
        self._entropy = OsEntropy()
        self._patience = Patience(self._entropy)
        self._layout = create_layout(state_dir, options, self._entropy, start)
        self._policy = parse_policy(self._layout.policy_path.read_bytes(), self._layout.policy_path.name)
        self._clock = SharedClock.begin(state_dir / "clock", start)
        self._stack = Services(state_dir, state_dir / "clock", log_level())
        self._servers = servers
        self._seconds: dict[str, float] = {}

    async def _begin(self, world: AgentEnv) -> StagedRefusal:
        """Keys, directories and the log, and what became of a second history of it."""
        with self._timed("keys and directories"), self._stages.stage("issuer keys, directories, log", 1):
            await self._settle("issuer", "gateway", "recipe_server", "attester", "relay")
        with self._timed("attacks"), self._stages.stage("a second history of the log, for one device", 1):
            return await refused_split_view(self._layout, self._policy, world, self._patience)

    async def _publish(self, recipes: Recipes, transport: Transport) -> StagedRefusal:
        """The recipes into the log, and what became of one that understates its claim."""
        claim = understated(recipes.main)
        found = rules.check(claim, self._policy, Context(stage=Stage.DRAFT, now=self._clock.now()))
        refusal = self._refused_by_all(UNDERSTATED, "claim-understated", found)
        await refused_publication(self._signed(claim), self._layout.urls["recipe_server"], transport)
        await self._publish_recipes([recipes.main, recipes.drill], transport)
        return refusal

    async def _publish_recipes(self, recipes: Sequence[Recipe], transport: Transport) -> None:
        name = f"recipe: signed, logged, {' and '.join(self._servers)} opt in"
        with self._stages.stage(name, 2 * len(recipes)) as tick:
            for recipe in recipes:
                await self._post_leaf(self._signed(recipe), transport)
                tick()
            await self._opted_in(recipes, transport)
            tick(len(recipes))

    def _refused_by_all(self, attempt: str, rule: str, found: Sequence[Refusal]) -> StagedRefusal:
        """What every party says, each of which checks by the same rules under the same policy. Refusal ``demo-staged``
        unless ``rule`` is among them."""
        detail = next((one.detail for one in found if one.rule == rule), None)
        if detail is None:
            raise Refusal("demo-staged", f"nobody would refuse {attempt}")
        return StagedRefusal(attempt, ", ".join(("recipe server", *self._servers, "every device")), f"{rule}: {detail}")

    async def _opted_in(self, recipes: Sequence[Recipe], transport: Transport) -> None:
        """The servers read the log, and opt in; those that cannot at once do it later. Raises ``TransportError``."""
        for earlier in range(TRIES):
            for _ in range(3):
                await self._patience(lambda: self._stack.step(*self._servers, "collector"))
            shown = [await self._log_state(recipe, transport) for recipe in recipes]
            if all(state == "active" for state in shown):
                return
            await self._patience.pause(earlier)
        raise TransportError("not every server has opted in to the recipes")

    async def _log_state(self, recipe: Recipe, transport: Transport) -> str:
        """The state that the log shows for the recipe; empty if it shows none."""
        url = f"{self._layout.urls['recipe_server']}/v1/recipes/{recipe.hash_text}"
        answer = await transport.request("GET", url)
        return str(json.loads(answer.body).get("state")) if answer.status == 200 else ""

    async def _uploading(
        self,
        fleet: Fleet,
        asked: Sequence[Recipe],
        followed: int | None,
        others: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """The interval of the recipes that are ``asked``: reports go out at their random times, servers verify behind
        them. ``others``: what is sent besides, after the first of the moments."""
        scheduled = sum([await fleet.count(recipe.hash, State.SCHEDULED) for recipe in asked])
        interval, slices = asked[0].interval, self._upload_slices
        moments = [interval.start + piece * interval.duration // slices for piece in range(1, slices)]
        moments += [interval.end - left for left in RETRY_SECONDS]
        name = f"uploads by relay; {' and '.join(self._servers)} verify"
        with self._timed("uploads"), self._stages.stage(name, scheduled) as tick:
            for moment in moments:
                await self._wait_for(fleet, moment, interval.end)
                self._jump_to(moment)
                if followed is not None:
                    async with self._stack.following(followed):
                        await fleet.send_due(tick, only=followed)
                await asyncio.gather(fleet.send_due(tick), self._settle(self._servers[0]))
                if others is not None and moment == moments[0]:
                    await others()

    def _prefetch_moments(self) -> list[int]:
        """The times of the day before at which tokens are fetched that are due."""
        day = (self._epoch - 1) * DAY
        moments = [day + piece * DAY // PREFETCH_SLICES - 1 for piece in range(1, PREFETCH_SLICES)]
        return [*moments, *(day + DAY - left for left in RETRY_SECONDS)]

    async def _wait_for(self, fleet: Fleet, moment: float, end: float) -> None:
        """Before one of the last moments: give parties that were too busy for a device some time of this machine's."""
        left = [end - seconds for seconds in RETRY_SECONDS]
        if moment in left[1:] and await fleet.is_behind(left[0], end):
            await self._patience.pause(left.index(moment))

    async def _settle(self, *names: str) -> None:
        """Let these services work until nothing moves; a step that fails for a moment is taken again, as a service that
        runs by itself does."""
        await self._patience(lambda: self._stack.settle(*names))

    async def _release(self, recipe: Recipe, transport: Transport) -> dict[str, Any]:
        """The recipe's collection, which is released. Raises ``Refusal`` ``collection`` with its reason if it is
        not."""
        result = await self._collect(recipe, transport)
        if result.get("state") != "released":
            raise Refusal("collection", f"the collection ended as {result.get('state')}: {result.get('detail')}")
        return result

    async def _collect(self, recipe: Recipe, transport: Transport) -> dict[str, Any]:
        with self._timed("collection"), self._stages.stage(f"collection of {recipe.name}", 1):
            path = "/v1/collections"
            body = json.dumps({"recipe_hash": recipe.hash_text}).encode()
            collection = await self._operator_call("POST", "collector", path, transport, body)
            for _ in range(100):
                await self._settle(self._servers[0], "collector")
                collection = await self._operator_call("GET", "collector", f"{path}/{collection['id']}", transport)
                if collection["state"] in ("released", "refused"):
                    break
                self._clock.jump(5)
            return collection

    def _signed(self, document: Recipe | Series) -> SignedLeaf:
        kind, recipe = (
            (LeafType.RECIPE, document) if isinstance(document, Recipe) else (LeafType.SERIES, document.probe)
        )
        return sign_leaf(kind, document.body(), recipe.parties.analyst.operator, signing_key_of(self._layout))

    async def _post_leaf(self, leaf: SignedLeaf, transport: Transport) -> None:
        answer = await transport.request(
            "POST",
            f"{self._layout.urls['recipe_server']}/v1/leaves",
            headers={"content-type": "application/json"},
            body=leaf.encode(),
        )
        if answer.status not in (200, 201):
            raise Refusal("recipe-publication", answer.body.decode("utf-8", "replace")[:300])

    async def _status(self, name: str, task_id: str, transport: Transport) -> dict[str, Any]:
        """A server's own counts of a task, after it has read the log: it may have opted in and not seen yet that both
        have. It knows no such task while it could not read the log, and is asked again."""
        path = f"/v1/tasks/{task_id}/status"
        for earlier in range(TRIES - 1):
            await self._settle(name)
            answer = await self._operator_answer("GET", name, path, transport)
            if answer.status != HTTPStatus.NOT_FOUND:
                return _document_of(name, answer)
            await self._patience.pause(earlier)
        return _document_of(name, await self._operator_answer("GET", name, path, transport))

    def _client(self, transport: Transport) -> ObliviousClient:
        """Return a client that sends requests through the relay to the gateway, as devices do."""
        keys = [KeyConfig.decode(unb64url(self._layout.gateway_key_config))]
        return ObliviousClient(transport, self._layout.urls["relay"], keys, self._clock, self._entropy)

    async def _offer_all(self, url: str, model: str, bodies: Sequence[bytes], transport: Transport) -> None:
        """Upload every report of a recipe with this model as any client would; a busy party is asked again."""
        client = self._client(transport)
        media_type = device_side(model).media_type
        for body in bodies:
            await self._patience(partial(offered, client, url, media_type, body))

    async def _refused_by_analyzer(self, drill: Recipe, transport: Transport) -> str:
        """Ask the analyzer itself for the aggregate of B-1 reports, with the collector's credential; returns the type
        of its problem. Refusal ``demo-staged`` if it releases the aggregate."""
        token = self._layout.credentials["aggregates"].read_text(encoding="ascii").strip()
        url = f"{self._layout.urls[ANALYZER]}/recipes/{drill.hash_text}/aggregate"
        answer = await transport.request("GET", url, headers={"authorization": f"Bearer {token}"})
        if answer.status < 400:
            raise Refusal("demo-staged", "the analyzer released a batch of B-1")
        return read_problem(answer.body).type.rpartition(":")[2]

    async def _operator_call(
        self, method: str, service: str, path: str, transport: Transport, body: bytes = b""
    ) -> dict[str, Any]:
        return _document_of(service, await self._operator_answer(method, service, path, transport, body))

    async def _operator_answer(
        self, method: str, service: str, path: str, transport: Transport, body: bytes = b""
    ) -> HttpResponse:
        token = self._layout.operator_token(service)
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
        return await transport.request(method, self._layout.urls[service] + path, headers=headers, body=body)

    def _jump_to(self, moment: float) -> None:
        self._clock.jump(max(0.0, moment - self._clock.now()))

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.monotonic() - began


def recipe_summary(recipe: Recipe) -> dict[str, Any]:
    """What the JSON document says about the recipe."""
    return {
        "name": recipe.name,
        "hash": recipe.hash_text,
        "model": recipe.model,
        "min_batch_size": recipe.batch.min_batch_size,
        "sampling_rate": float(recipe.rate),
        "randomizer": {
            "name": recipe.randomizer.name,
            "epsilon0": float(recipe.epsilon0) if recipe.epsilon0.is_finite() else UNBOUNDED,
            "categories": recipe.randomizer.categories,
        },
        "vdaf": None if recipe.vdaf is None else recipe.vdaf.model_dump(include={"name", "length", "chunk_length"}),
    }


def _document_of(service: str, answer: HttpResponse) -> dict[str, Any]:
    """What an operator is told. Raises ``Refusal``."""
    if answer.status >= HTTPStatus.BAD_REQUEST:
        raise Refusal("operator-call", f"{service}: {answer.body.decode('utf-8', 'replace')[:200]}")
    found: dict[str, Any] = json.loads(answer.body)
    return found
