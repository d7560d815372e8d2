"""A shuffler in front of an analyzer, with everything around both, on simulated time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

from aiohttp import web

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.one_server import ANALYZER_URL
from infra.lab.kit.shuffled import SHUFFLER_OPERATOR, SHUFFLER_URL, Bundler, ShuffledKit
from services.analyzer.config import AnalyzerConfig
from services.shuffler.app import FORWARDING, create_app
from services.shuffler.config import ShufflerConfig
from services.shuffler.forwarding import Forwarding
from tacit import media_types
from tacit.aggregator.keys import write_hpke_key
from tacit.aggregator.log_follower import FOLLOWER
from tacit.models.devices import device_side
from tacit.models.interfaces.device import Verdict
from tacit.ports import HttpResponse
from tacit.recipe.model import Recipe
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tests.http.analyzer_stage import COLLECTOR_TOKEN, GATEWAY_TOKEN, LOG_SETTINGS, OPERATOR_TOKEN, Stage

SHUFFLED = ShuffledKit()
SHUFFLER_TOKEN = "shuffler-secret"
B = 50
"""Enough that the fair noise of half of the devices gives a claim."""
BATCH: dict[str, Any] = {"min_batch_size": B, "expected_contributions": 2 * B}
RANDOMIZER = {"name": "zsum", "categories": 3, "noise_rate": "0.5"}


class ShuffledStage(Stage):
    """All of it. Shuffler and analyzer may be ended and started again on what they stored."""

    servers = (ANALYZER_URL, SHUFFLER_URL)
    shared = ""
    """The URL of a database that several processes of the shuffler have; empty for one of its own."""
    policy: ClassVar[dict[str, Any]] = {**SHUFFLED.policy.model_dump(), "min_batch_size": B}

    def settings(self) -> AnalyzerConfig:
        """The analyzer's configuration, with the shuffler's credential."""
        token = self.folder / "shuffler.token"
        return AnalyzerConfig.model_validate({**super().settings().model_dump(), "shuffler_token": token})

    @property
    def stored(self) -> dict[str, Any]:
        """How the shuffler stores."""
        path = self.folder / "shuffler-database"
        return {"storage": "file", "database_file": path} if self.shared else {"storage": self.storage}

    def shuffler_settings(self) -> ShufflerConfig:
        """The shuffler's configuration: 7 messages in a chunk."""
        return ShufflerConfig.model_validate(
            {
                "state_dir": self.folder / "shuffler",
                **self.stored,
                "operator": SHUFFLER_OPERATOR,
                "signing_key": self.folder / "shuffler.key",
                "hpke_keys": [self.folder / "shuffler-hpke.key"],
                "operator_token": self.folder / "operator.token",
                "gateway_tokens": [self.folder / "gateway.token"],
                "analyzer_token": self.folder / "shuffler.token",
                "log": LOG_SETTINGS,
                "policy": self.policy,
                "group_delay": 0.0,
                "chunk_messages": 7,
            }
        )

    def write_secrets(self) -> None:
        super().write_secrets()
        write_signing_key(self.folder / "shuffler.key", SHUFFLED.keys["shuffler"])
        write_hpke_key(self.folder / "shuffler-hpke.key", SHUFFLED.shuffler_key)
        write_secret(self.folder / "shuffler.token", SHUFFLER_TOKEN.encode())
        if self.shared:
            write_secret(self.folder / "shuffler-database", self.shared.encode())

    async def start(self) -> None:
        """Start analyzer and shuffler, or end both and start them again."""
        await super().start()
        await self.start_shuffler()

    async def start_shuffler(self, url: str = SHUFFLER_URL) -> web.Application:
        """Start the shuffler, or end it and start it again."""
        await self.inner.unmount(url)
        found = create_app(self.shuffler_settings(), self.deps("shuffler"))
        await self.inner.mount(url, found)
        if url == SHUFFLER_URL:
            self.shuffler = found
        await found[FOLLOWER].step()
        return found

    async def follow(self) -> None:
        await super().follow()
        await self.shuffler[FOLLOWER].step()

    @property
    def forwarding(self) -> Forwarding:
        return self.shuffler[FORWARDING]

    async def send(self, url: str, report: bytes) -> Verdict:
        """What a device learns that sends a bundle through relay and gateway."""
        side = device_side("shuffled")
        answer = await self.device.request("POST", url, media_type=side.media_type, content=report)
        return side.verdict(answer)

    async def bring(self, devices: Bundler, report: bytes, token: str = GATEWAY_TOKEN) -> HttpResponse:
        """One bundle as a gateway brings it."""
        headers = {"Content-Type": media_types.ONE_SERVER_REPORT, "Authorization": f"Bearer {token}"}
        return await self.network.request("POST", devices.channel.url, headers=headers, body=report)

    async def fill(self, devices: Bundler, *values: Any) -> None:
        """Bundles of devices with these values are stored."""
        for report in devices.reports(*values):
            assert (await self.bring(devices, report)).status == 201

    async def forward(self, recipe: Recipe, body: bytes, token: str = SHUFFLER_TOKEN) -> HttpResponse:
        """One chunk as a shuffler brings it."""
        headers = {"Content-Type": media_types.MESSAGE_CHUNK, "Authorization": f"Bearer {token}"}
        url = f"{ANALYZER_URL}/recipes/{recipe.hash_text}/chunks"
        return await self.network.request("POST", url, headers=headers, body=body)

    async def tell(self, recipe: Recipe, look: Any, token: str = SHUFFLER_TOKEN) -> HttpResponse:
        """A look at its count as a shuffler tells it."""
        headers = {"Content-Type": media_types.JSON, "Authorization": f"Bearer {token}"}
        url = f"{ANALYZER_URL}/recipes/{recipe.hash_text}/looks"
        return await self.network.request("POST", url, headers=headers, body=json.dumps(look).encode())

    async def batch_yield(self, recipe: Recipe) -> dict[str, Any]:
        """How far the recipe is filled, as the collector reads it."""
        headers = {"Authorization": f"Bearer {COLLECTOR_TOKEN}"}
        url = f"{ANALYZER_URL}/recipes/{recipe.hash_text}/yield"
        return dict(json.loads((await self.network.request("GET", url, headers=headers)).body))

    async def shuffler_status(self, recipe: Recipe) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {OPERATOR_TOKEN}"}
        url = f"{SHUFFLER_URL}/v1/tasks/{recipe.hash_text}/status"
        return dict(json.loads((await self.network.request("GET", url, headers=headers)).body))


@asynccontextmanager
async def shuffled_stage(folder: Path, storage: str = "memory", shared: str = "") -> AsyncIterator[ShuffledStage]:
    """A stage on which everything runs, and the log is empty."""
    stage = ShuffledStage(folder, storage)
    stage.shared = shared
    stage.write_secrets()
    await stage.start_others()
    await stage.start()
    try:
        yield stage
    finally:
        await stage.inner.close()


def population(seed: bytes = b"devices", randomizer: dict[str, Any] | None = None, **batch: Any) -> Bundler:
    """Devices of a recipe with three categories."""
    recipe = SHUFFLED.stated(randomizer or RANDOMIZER, **{**BATCH, **batch})
    return Bundler(recipe, SeededEntropy(seed), SHUFFLED)
