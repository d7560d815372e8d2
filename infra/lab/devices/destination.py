"""Where a fleet sends its contributions: recipe, keys and addresses, as the agent's own code has verified them.

The log, the recipe and its opt-ins are the same for every device with the same policy, so they are fetched through the
relay and checked once, by one ``Agent``. Everything here can be handed to another process or machine; none of it is
secret.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from client_agent.agent import Agent
from client_agent.config import AgentConfig
from client_agent.data.sources import CallableSource
from client_agent.deciding import AgentEnv, last_start
from client_agent.journal import MemoryAgentStore
from client_agent.wallet import AttestedDevice
from infra.lab.devices.tokens import SlotKey
from tacit import ohttp
from tacit.adapters.network.origins import is_loopback
from tacit.errors import UsageError
from tacit.logview.live import LiveRecipe
from tacit.models.devices import device_side
from tacit.models.forms import form_of
from tacit.models.parties import SHUFFLER
from tacit.recipe import derive
from tacit.recipe.encoder_specs import Update
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.task import Task
from tacit.tokens.blind_rsa import TokenKey

SHORTEST_PREFIX = 6
POLL_SECONDS = 1.0
SHOWN_SECONDS = 10.0
"""Most seconds from a publication until the log shows it to devices."""
Say = Callable[[str], None]
"""Tells a person what is being waited for; called again where it is something else."""


@dataclass(frozen=True)
class Destination:
    """One verified recipe and the way to its leader, its shuffler, or its one server."""

    relay_url: str
    attester_url: str
    gateway_keys: tuple[bytes, ...]
    recipe_bytes: bytes
    token_key_spki: bytes
    late_seconds: float
    series_bytes: bytes = b""
    model: bytes = field(default=b"", repr=False)
    """The file of the model that the devices train, if they do."""
    tls_ca: Path | None = None
    insecure_http: bool = False

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe that the fleet answers, decoded from its canonical bytes."""
        return Recipe.decode(self.recipe_bytes)

    @cached_property
    def series(self) -> Series | None:
        """The series of which the recipe is a round, decoded from its canonical bytes; None if it is by itself."""
        return Series.decode(self.series_bytes) if self.series_bytes else None

    @cached_property
    def task(self) -> Task:
        """The DAP task that follows from the recipe and the slot's token key. Raises ``Refusal`` with one server."""
        return derive.task_of(self.recipe, self.token_key_spki)

    @property
    def has_one_server(self) -> bool:
        """Whether reports go to one server, which has no DAP task."""
        return not form_of(self.recipe.model).proves

    @property
    def is_mixed(self) -> bool:
        """Whether reports for leader and helper go to a shuffler."""
        return form_of(self.recipe.model).is_mixed(self.recipe.parties)

    @property
    def takers(self) -> tuple[str, ...]:
        """The roles of the servers that count what the devices send; the one that takes it comes first."""
        if self.is_mixed:
            return (SHUFFLER,)
        roles = form_of(self.recipe.model).opts_in
        return roles[:1] if self.has_one_server else roles

    @cached_property
    def url(self) -> str:
        """URL to which devices send their reports of the recipe: that of leader, analyzer or shuffler."""
        return device_side(self.recipe.model).channel(self.recipe, self.token_key_spki).url

    @property
    def task_id_text(self) -> str:
        """The id by which the ``takers`` know the recipe."""
        return self.recipe.hash_text if self.has_one_server or self.is_mixed else self.task.task_id_text

    @property
    def slot_key(self) -> SlotKey:
        """The slot whose tokens the recipe spends."""
        return SlotKey(derive.slot_of(self.recipe), TokenKey.from_spki(self.token_key_spki))

    @property
    def key_configs(self) -> list[ohttp.KeyConfig]:
        """The gateway's keys, active first."""
        return [ohttp.KeyConfig.decode(one) for one in self.gateway_keys]

    @property
    def last_start(self) -> float:
        """The latest POSIX second for which a device plans its report."""
        return last_start(self.recipe)

    @property
    def deadline(self) -> float:
        """The POSIX second from which a report is not offered any more."""
        return self.recipe.interval.end + self.late_seconds


def require_local(*urls: str) -> None:
    """Raise ``UsageError`` unless all URLs are on this machine: load must not reach other machines by mistake."""
    for url in urls:
        host = urlsplit(url).hostname or ""
        if not is_loopback(host):
            raise UsageError(f"{host} is not this machine; pass --allow-remote to send load to it")


async def verified_target(
    config: AgentConfig,
    policy: Policy,
    device: AttestedDevice,
    deps: AgentEnv,
    reference: str,
    wait: float,
    *,
    published: bool = False,
    say: Say | None = None,
) -> Destination:
    """Fetch and verify the log, and the recipe that ``reference`` (its hash, the beginning of it, or its name) means,
    as every device of this policy would. Waits up to ``wait`` seconds for opt-ins that are still to come, and up to
    ``SHOWN_SECONDS`` of them for a recipe that was just published: witnesses cosign it a moment later. A recipe that is
    known to be ``published`` is waited for as long as its opt-ins.

    Raises ``Refusal`` where a device would refuse, ``UsageError`` for an unknown recipe, ``TransportError``.
    """
    agent = Agent(config, policy, deps, MemoryAgentStore(), CallableSource(lambda _metric: None), device)
    began, shown_within = deps.clock.now(), wait if published else min(wait, SHOWN_SECONDS)
    said = ""
    while True:
        await agent.sync()
        waited = deps.clock.now() - began
        live = _find(agent.live.recipes, reference)
        model = None if live is None else _model_in_time(agent, live, is_late=waited >= wait)
        if live is not None and model is not None:
            break
        if live is None and waited >= shown_within:
            raise UsageError(_not_shown(reference, published))
        missing = _awaited(agent, live, reference, wait)
        if say is not None and missing != said:
            say(missing)
        said = missing
        await deps.clock.sleep(POLL_SECONDS)
    series = agent.live.series_of(live.recipe)
    return Destination(
        relay_url=config.relay_url,
        attester_url=config.attester_url,
        gateway_keys=tuple(key.encode() for key in agent.gateway_keys),
        recipe_bytes=live.recipe.encode(),
        token_key_spki=agent.live.slot_key(live.recipe),
        late_seconds=config.timing.late_seconds,
        series_bytes=b"" if series is None else series.encode(),
        model=model,
        tls_ca=config.tls_ca,
        insecure_http=config.insecure_http,
    )


def _not_shown(reference: str, published: bool) -> str:
    if published:
        return (
            f"recipe {reference} is published, but the log does not show it to devices yet: do its witnesses run? "
            "(see: tacit status)"
        )
    return f"the log shows no recipe called {reference}; see: tacit recipe list"


def _awaited(agent: Agent, live: LiveRecipe | None, reference: str, wait: float) -> str:
    """What is missing until devices take part."""
    most = f"(at most {wait:g} s)"
    if live is None:
        return f"waiting until the log shows recipe {reference} {most}"
    refusals = agent.refusals(live, ())
    missing = refusals[0].detail if refusals else "its model has not come yet"
    return f"waiting for recipe {live.recipe.name}, {_hash(live)[:8]}: {missing} {most}"


def _model_in_time(agent: Agent, live: LiveRecipe, is_late: bool) -> bytes | None:
    """The file that devices train, once they take part; None while they may. Raises ``Refusal`` where they
    refuse for ever or ``is_late``, and ``UsageError`` where then the model is missing."""
    refusals = agent.refusals(live, ())
    if refusals and (is_late or not all(agent.may_pass(refusal, live) for refusal in refusals)):
        raise refusals[0]
    model = None if refusals else _model(agent, live.recipe)
    if is_late and model is None:
        raise UsageError(f"the model of {live.recipe.name} did not come; devices train early in a round's interval")
    return model


def _model(agent: Agent, recipe: Recipe) -> bytes | None:
    """The file that the devices train; empty where they train none, None if it is not there."""
    if not isinstance(recipe.question.encoder, Update):
        return b""
    return None if agent.models is None else agent.models.of(recipe)


def _find(recipes: Sequence[LiveRecipe], reference: str) -> LiveRecipe | None:
    """The newest recipe of this name, or the only one whose hash begins with it. Raises ``UsageError`` if several
    hashes do."""
    named = [live for live in recipes if live.recipe.name == reference]
    if named:
        return named[-1]
    meant = [live for live in recipes if len(reference) >= SHORTEST_PREFIX and _hash(live).startswith(reference)]
    if len(meant) > 1:
        raise UsageError(f"{len(meant)} recipes begin with {reference}; give more of the hash")
    return meant[0] if meant else None


def _hash(live: LiveRecipe) -> str:
    return live.recipe.hash_text
