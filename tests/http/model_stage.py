"""A recipe server with round 0 of a training in its log, to which model files are sent."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from infra.lab.kit.learning import LEARNING, Model, model_of, training_series
from infra.lab.kit.recipes import RecipeKit
from recipe_server.handlers import MODELS
from tacit import media_types
from tacit.codec import b64url
from tacit.ports import HttpResponse
from tacit.recipe.model import Recipe
from tacit.recipe.policy import AccountLimit
from tacit.service.app import SERVICE_ENV
from tacit.service.base.secret_files import write_secret
from tests.http.test_recipe_server import COLLECTOR, URL, Server

KIT = RecipeKit()
SERIES = training_series(KIT)
MODEL, OTHER = model_of(LEARNING, 1), model_of(LEARNING, 2)
PATH, OTHER_PATH = (one.stated().path for one in (MODEL, OTHER))
ENDED_SECONDS = 600
BINARY = {"Content-Type": media_types.OCTET_STREAM}
LIMIT = AccountLimit(epsilon="1000", delta="0.001", window_seconds=30 * 86_400)
POLICY = KIT.policy.model_copy(update={"allow_unbounded_local": True, "accounts": {"default": LIMIT}})


def round_of(index: int = 0, model: Model = MODEL) -> Recipe:
    return KIT.round(SERIES, index, model.stated().text())


class ModelServer(Server):
    """A recipe server to which files are sent."""

    async def begin(self, **changes: object) -> None:
        await self.start(**{"ended_seconds": ENDED_SECONDS, "policy": POLICY, **changes})

    async def put(self, body: bytes, path: str = PATH, **headers: str) -> HttpResponse:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.network.request("PUT", URL + path, headers=BINARY | named, body=body)

    async def stored(self, body: bytes, path: str = PATH) -> int:
        """The status with which the file is taken."""
        answer = await self.put(body, path)
        assert json.loads(answer.body) == {"stored": True}
        return answer.status

    async def refuses(self, body: bytes, path: str = PATH) -> tuple[int, str]:
        """Status and type with which the file is not."""
        answer = await self.put(body, path)
        assert answer.headers["content-type"] == media_types.PROBLEM_JSON
        assert json.loads(answer.body)["detail"]
        return answer.status, json.loads(answer.body)["type"].removeprefix("urn:tacit:")

    async def serves(self, path: str = PATH) -> bool:
        return (await self.network.request("GET", f"{URL}{path}/0")).status == 200

    async def after(self, recipe: Recipe, seconds: int) -> None:
        """It is ``seconds`` after the end of ``recipe``, and the server has looked for files to delete."""
        self.clock.jump(recipe.interval.end + seconds - self.clock.now())
        self.app[SERVICE_ENV].vouched.hear("a witness", self.clock.now())
        await self.app[MODELS].step()

    async def name(self, file: bytes) -> str:
        """Let round 0 name ``file``, of any length, although no rule would admit it; returns its path."""
        await self.network.unmount(URL)
        digest = hashlib.sha256(file).digest()
        with self.database() as database:
            database.execute("UPDATE round_models SET model = ?, bytes = ?", (digest, len(file)))
        await self.begin()
        return f"/v1/models/{b64url(digest)}"

    @contextlib.contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """The database of the stopped server."""
        with contextlib.closing(sqlite3.connect(self.folder / "recipe_server.sqlite3")) as found:
            yield found
            found.commit()


@contextlib.asynccontextmanager
async def model_server(folder: Path) -> AsyncIterator[ModelServer]:
    """The server on ``folder``, running."""
    write_secret(folder / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(folder / "collector.token", COLLECTOR.encode())
    running = ModelServer(folder)
    await running.begin()
    await running.publish(KIT.directory_leaf(), KIT.series_leaf(SERIES), KIT.recipe_leaf(round_of()))
    yield running
    await running.network.close()
