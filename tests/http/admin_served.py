"""An admin service on a real port, in a thread of its own, beside the stage that it plays on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from infra.lab.kit.entropy import SeededEntropy
from services.admin.app import create_app
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.codec import unb64url
from tacit.recipe.model import Recipe
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import write_secret
from tacit.service.run import started
from tacit.tlog.leaves import SignedLeaf
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub, beside
from tests.http.admin_searches import search
from tests.http.admin_stage import KIT, LOG_URL, ROLES, Stage, key_of

START_SECONDS, STOP_SECONDS = 60, 30
LOOK_SECONDS = 0.1


class Collector(CollectorStub):
    """As the real one: what is not there is not found."""

    async def _shown(self, request: web.Request) -> web.Response:
        if request.match_info["id"] not in {f"c{number}" for number in range(len(self.asked))}:
            raise web.HTTPNotFound
        return await super()._shown(request)


@dataclass
class Served:
    """``url``: where it is; ``keys``: files with the key of each role; ``known``: ids by the path's first part, of what
    it holds."""

    url: str = ""
    keys: dict[str, Path] = field(default_factory=dict)
    known: dict[str, list[str]] = field(default_factory=dict)


async def fill(stage: Stage) -> dict[str, list[str]]:
    """Something of everything, so that not all that is asked for is unknown."""
    questions = [await stage.draft(), await stage.approved(name="second"), await stage.approved(name="third")]
    _, published = await stage.call("POST", f"/v1/questions/{questions[2]}/publish", status=200)
    _, asked = await stage.call("POST", "/v1/collections", {"recipe": published["hash"]}, status=201)
    _, page = await stage.call("GET", "/v1/people", role="administrator", status=200)
    viewer = next(one["id"] for one in page["people"] if one["role"] == "viewer")
    _, key = await stage.call("POST", f"/v1/people/{viewer}/keys", {}, role="administrator", status=201)
    series = search()
    assert (await stage.post_leaf(KIT.series_leaf(series))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)
    return {
        "questions": questions,
        "series": [series.hash_text],
        "people": [viewer],
        "recipes": [published["hash"]],
        "collections": [asked["id"]],
        "log": ["0", "1", "2"],
        "keys": [key["id"]],
    }


async def opt_in(stage: Stage) -> None:
    """Leader and helper opt into what is pending."""
    answer = await stage.inner.request("GET", f"{LOG_URL}/v1/recipes")
    for one in json.loads(answer.body)["recipes"]:
        if one["state"] == "pending":
            shown = json.loads((await stage.inner.request("GET", f"{LOG_URL}/v1/recipes/{one['hash']}")).body)
            recipe = Recipe.from_body(SignedLeaf.decode(unb64url(shown["leaf"])).body)
            for role in ("leader", "helper"):
                await stage.post_leaf(KIT.opt_in_leaf(recipe, role))


@contextlib.contextmanager
def serving(
    folder: Path,
    *,
    filled: bool = False,
    collector: CollectorStub | None = None,
    opting_in: bool = False,
    away: bool = False,
    **changes: Any,
) -> Iterator[Served]:
    """The service while the block runs; ``changes`` of its configuration; ``opting_in``: both servers opt into every
    recipe of the log; ``away``: log and collector cannot be reached any more."""
    found, ready, ended = Served(), threading.Event(), threading.Event()
    for role in ROLES:
        found.keys[role] = folder / "keys" / f"{role}.key"
        write_secret(found.keys[role], f"{key_of(role)}\n".encode())

    async def live() -> None:
        stage = Stage(folder)
        await stage.prepare()
        own = {**await beside(stage, collector or Collector()), **changes}
        await stage.start(**own)
        if filled:
            found.known = await fill(stage)
        deps = ServiceEnv(stage.clock, SeededEntropy(4), stage.network, background=False)
        async with started(create_app(stage.config(**own), deps), Listen(), grace_seconds=2) as listening:
            found.url = listening.url
            if away:
                stage.network.partition(LOG_URL, COLLECTOR_URL)
            ready.set()
            while not await asyncio.to_thread(ended.wait, LOOK_SECONDS):
                if opting_in:
                    await opt_in(stage)
        await stage.inner.close()

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert ready.wait(START_SECONDS)
        yield found
    finally:
        ended.set()
        thread.join(STOP_SECONDS)
    assert not thread.is_alive()
