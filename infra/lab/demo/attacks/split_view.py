"""The attack that witnesses stop: an analyst who shows one device a log of its own.

The analyst runs the log and the gateway. It keeps a second history under the log's one key, and in it a gateway key
that it gives to nobody else: whatever the device sends then says which device it is. The second history is a real
recipe server with the real witnesses, behind a gateway and a relay of its own; the device is a real agent.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from client_agent.agent import Agent
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv
from client_agent.journal import MemoryAgentStore
from infra.base.free_ports import free_ports
from infra.lab.demo.results.result import StagedRefusal
from infra.lab.kit.patience import Patience
from infra.stacks.agent_configs import agent_config
from infra.stacks.deployables import deployable
from infra.stacks.layout import Layout
from infra.stacks.options import KEY_ROTATION
from services.gateway.config import TargetRule
from services.gateway.keys import KeyRing
from tacit.codec import b64url
from tacit.errors import Refusal
from tacit.recipe.policy import Policy
from tacit.service.app import DRIVERS, ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.driver import Driver
from tacit.service.run import started
from tacit.tokens.software_root import SoftwareRoot

ATTEMPT = "a second history of the log, with a gateway key for one device"
ASKS = 8
"""How often the second log asks its witnesses."""


@dataclass(frozen=True)
class _Fork:
    """The addresses of the second history, and the gateway key with which a device reaches it."""

    recipe_server: str
    relay: str
    key_config: str
    period: int


async def refused_split_view(layout: Layout, policy: Policy, world: AgentEnv, patience: Patience) -> StagedRefusal:
    """Show the second history to a device, and to one that demands no witnesses. Raises ``Refusal`` unless only the
    latter believes it."""
    async with _fork(layout, world) as fork:
        gullible = await _told(layout, policy.model_copy(update={"witnesses": None}), world, fork, patience)
        if gullible is not None:
            raise Refusal("demo-staged", f"the second history is not even believed without witnesses: {gullible}")
        refusal = await _told(layout, policy, world, fork, patience)
    if refusal is None:
        raise Refusal("demo-staged", "a device believed a history that no witness had cosigned")
    if refusal.rule != "log-checkpoint":
        raise Refusal("demo-staged", f"a device refused the second history, but not for want of witnesses: {refusal}")
    return StagedRefusal(ATTEMPT, "witnesses, device", f"{refusal.rule}: {refusal.detail}")


async def _told(layout: Layout, policy: Policy, world: AgentEnv, fork: _Fork, patience: Patience) -> Refusal | None:
    """What a fresh device says of the history that it is shown; None: it believes it and uses its gateway key. A
    refusal is the answer: unlike a checkpoint of the run's own log, this one is not cosigned later."""
    folder = layout.state_dir / "fleet"
    own = agent_config(layout, folder, {"kind": "csv", "path": folder / "unused.csv"})
    gateway = own.gateway.model_copy(update={"key_config": fork.key_config, "period": fork.period})
    config = own.model_copy(
        update={"recipe_server_url": fork.recipe_server, "relay_url": fork.relay, "gateway": gateway}
    )
    authority = SoftwareRoot.from_pem(layout.device_authority.read_bytes())
    identity = authority.issue("device-of-interest", world.entropy, world.clock.now())
    agent = Agent(config, policy, world, MemoryAgentStore(), CallableSource(lambda _metric: None), identity)

    async def shown() -> Refusal | None:
        try:
            await agent.sync()
        except Refusal as refusal:
            return refusal
        return None

    return await patience(shown)


@contextlib.asynccontextmanager
async def _fork(layout: Layout, world: AgentEnv) -> AsyncIterator[_Fork]:
    """The second recipe server, which has asked the witnesses, and the way to it."""
    log_port, gateway_port, relay_port = free_ports(3)
    urls = [f"http://127.0.0.1:{port}" for port in (log_port, gateway_port, relay_port)]
    folder = layout.state_dir / "second-history"
    ring = KeyRing.open(folder / "gateway" / "ohttp-keys.json", KEY_ROTATION, world.entropy, world.clock.now())
    rule = TargetRule(origin=urls[0], path_prefix="/v1/", methods=("GET",))
    async with contextlib.AsyncExitStack() as stack:
        log = await _start(stack, layout, world, "recipe_server", folder, log_port)
        gateway = await _start(
            stack, layout, world, "gateway", folder, gateway_port, targets=(rule,), recipe_server_url=urls[0]
        )
        await _start(stack, layout, world, "relay", folder, relay_port, gateway_url=urls[1])
        for driver in gateway:
            await driver.step()
        for _ in range(ASKS):
            for driver in log:
                await driver.step()
        yield _Fork(urls[0], urls[2], b64url(ring.active.config.encode()), ring.period)


async def _start(
    stack: contextlib.AsyncExitStack,
    layout: Layout,
    world: AgentEnv,
    name: str,
    folder: Path,
    port: int,
    **changes: Any,
) -> list[Driver]:
    """A second service of the stack's own making, under its keys; returns its drivers."""
    service = deployable(name)
    listen = Listen(host="127.0.0.1", port=port)
    config = service.load(layout.configs[name]).model_copy(
        update={"state_dir": folder / name, "listen": listen, **changes}
    )
    transport = await stack.enter_async_context(service.make_transport(config))
    app = service.create_app(config, ServiceEnv(world.clock, world.entropy, transport, background=False))
    await stack.enter_async_context(started(app, listen))
    drivers: list[Driver] = app[DRIVERS]
    return drivers
