"""Where a fleet's devices come from: a configuration, a policy, an authority that attests them, tokens, data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from client_agent.config import AgentConfig
from client_agent.deciding import AgentEnv
from infra.authoring.recipe_names import hash_of
from infra.lab.devices.columns import read_column
from infra.lab.devices.destination import Destination, Say, verified_target
from infra.lab.devices.events import drawn_events, listed_events
from infra.lab.devices.population import (
    Population,
    WithMissing,
    drawn_population,
    listed_numbers,
    listed_population,
)
from infra.stacks import agent_configs as stack_agents
from infra.stacks.command_options import policy_of
from infra.stacks.deployables import deployable
from infra.stacks.layout import Layout
from services.issuer.schema import SLOT_KEYS
from tacit.adapters.databases.sql import engine_of
from tacit.adapters.network.http import HttpTransport
from tacit.adapters.network.origins import origin_of as origin_of_url
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, ShiftedClock, SystemClock
from tacit.aggregator.keys import state_key_text
from tacit.aggregator.state_keys import read_state_key
from tacit.errors import DecodeError, UsageError
from tacit.methods.base.statistics import STATISTICS
from tacit.models.pan_private.form import PanPrivateParties
from tacit.models.pan_private_single.form import PanPrivateSingleParties
from tacit.operations.calls import NoAnswerError
from tacit.operations.services import logged_recipe
from tacit.panprivate.elgamal import PrivateKey
from tacit.ports import HttpResponse, Transport, TransportError
from tacit.recipe.encoder import encoder_of
from tacit.recipe.encoder_specs import Occurrences, Range
from tacit.recipe.model import Question, Recipe
from tacit.service.base.config_files import load_config
from tacit.service.base.secret_files import read_secret
from tacit.tokens.software_root import SoftwareRoot

FOLDER = "fleet"


@dataclass(frozen=True)
class Origin:
    """A deployment as one device's configuration names it, and the authority (PEM) that attests the fleet's devices.
    ``layout`` is set for a local stack only; ``ahead`` is the number of seconds by which the stack's clock is ahead of
    this machine's, as in the demo."""

    config: AgentConfig
    authority: bytes = field(repr=False)
    layout: Layout | None = None
    ahead: float = 0.0


def origin_of(layout: Layout | None, agent_config: Path | None, authority: Path | None) -> Origin:
    """The stack of a layout, or any deployment, given by an agent's configuration and the software authority that its
    attester trusts. Raises ``UsageError``."""
    if layout is not None:
        unused = {"kind": "csv", "path": Path("unused.csv")}
        config = stack_agents.agent_config(layout, layout.state_dir / FOLDER, unused)
        return Origin(config, read_secret(layout.device_authority), layout)
    if agent_config is None or authority is None:
        raise UsageError("--agent-config and --authority go together")
    return Origin(load_config(agent_config, AgentConfig), read_secret(authority))


async def open_target(origin: Origin, reference: str, wait: float, say: Say | None = None) -> Destination:
    """Fetch log and recipe, verified once for every device with this policy. Of several recipes with one name, the
    newest counts; where the origin is a local stack, the newest that was published, even if the log does not show it
    to devices yet. Raises what ``verified_target`` raises; a
    ``TransportError`` names the service."""
    system, entropy, config, layout = SystemClock(), OsEntropy(), origin.config, origin.layout
    clock = ShiftedClock(system, start=system.now() + origin.ahead) if origin.ahead else system
    try:
        authority = SoftwareRoot.from_pem(origin.authority)
    except DecodeError as error:
        raise UsageError(f"the fleet's attestation authority: {error}") from error
    device = authority.issue("fleet-policy", entropy, clock.now())
    start = "" if layout is None else f"start the stack with: tacit up --state-dir {layout.state_dir}"
    if layout is not None:
        server = layout.urls["recipe_server"]
        try:
            async with layout.transport() as transport:
                reference = await hash_of(transport, server, reference)
                _, recipe = await logged_recipe(transport, server, reference)
        except NoAnswerError as error:
            raise TransportError(_silent("recipe server", server, error.__cause__ or error, start)) from error
        if recipe.interval.end <= clock.now():
            raise UsageError(over(recipe))
    async with HttpTransport(tls=ClientTls(config.tls_ca), insecure_http=config.insecure_http) as transport:
        deps = AgentEnv(clock, entropy, _Named(transport, "relay", start))
        policy = policy_of(config.policy)
        return await verified_target(
            config, policy, device, deps, reference, wait, published=layout is not None, say=say
        )


@dataclass(frozen=True)
class _Named:
    """A transport whose failures name the service that does not answer, and say what to do."""

    inner: Transport
    service: str
    advice: str

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        """As ``Transport.request``; a ``TransportError`` names the service and what to do."""
        try:
            return await self.inner.request(method, url, headers=headers, body=body)
        except TransportError as error:
            advice = self.advice or "is it running, and is the address right?"
            raise TransportError(_silent(self.service, origin_of_url(url), error, advice)) from error


def _silent(service: str, url: str, error: BaseException, advice: str) -> str:
    return f"the {service} at {url} does not answer ({error}); {advice}"


def over(recipe: Recipe) -> str:
    """What to say about a recipe whose interval has ended."""
    return f"recipe {recipe.name}, {recipe.hash_text[:8]}, is over; publish a new one"


async def slot_private_key(layout: Layout, target: Destination) -> bytes:
    """The issuer's private key (PKCS#8) of the recipe's slot, from the store of the local stack's issuer. Raises
    ``UsageError`` if there is none."""
    config = deployable("issuer").load(layout.configs["issuer"])
    token = target.recipe.token
    query = sa.select(SLOT_KEYS.c.private_key).where(SLOT_KEYS.c.epoch == token.epoch, SLOT_KEYS.c.slot == token.slot)
    engine = engine_of(config.database_url("issuer"))
    try:
        async with engine.connect() as connection:
            found: bytes | None = (await connection.execute(query)).scalar()
    except sa.exc.SQLAlchemyError as error:
        raise UsageError(f"{layout.configs['issuer'].parent}: the issuer's store cannot be read") from error
    finally:
        await engine.dispose()
    if found is None:
        raise UsageError(f"the issuer's store holds no key for slot {token.slot} of epoch {token.epoch}")
    return found


def state_keys(layout: Layout, recipe: Recipe) -> tuple[PrivateKey, ...]:
    """The private state keys of a local stack's servers, for a recipe that watches an event: the analyzer's, or the
    leader's and the helper's. Raises ``UsageError`` if they are not the recipe's."""
    parties = recipe.parties
    if isinstance(parties, PanPrivateSingleParties):
        named = {"analyzer": parties.analyzer.state_key}
    elif isinstance(parties, PanPrivateParties):
        named = {"leader": parties.leader.state_key, "helper": parties.helper.state_key}
    else:
        return ()
    found = tuple(read_state_key(layout.configs[name].parent / "state.key") for name in named)
    if [state_key_text(key) for key in found] != list(named.values()):
        raise UsageError(f"{layout.state_dir}: this stack's servers have other state keys than recipe {recipe.name}")
    return found


def population_of(
    recipe: Recipe, data: str | None, file: Path | None, column: str | None, missing: float = 0.0
) -> Population:
    """The devices' data: a distribution of what the recipe asks for, or a CSV file's column, encoded as devices encode
    it (an empty or invalid cell is a device without a value). With probability ``missing`` a device has no value
    instead. Raises ``UsageError``."""
    if not 0 <= missing <= 1:
        raise UsageError("--missing must be a share of the devices, from 0 to 1")
    question = recipe.question
    if isinstance(question.encoder, Occurrences):
        return _events(question, question.encoder, data, file, column, missing)
    if file is None:
        population: Population = drawn_population(question, data)
    else:
        cells = [cell for _, cell in read_column(file, column or question.metric)]
        population = _listed(str(file), question, cells)
    return WithMissing(population, missing, encoder_of(question).encode(None)) if missing else population


def _events(
    question: Question, spec: Occurrences, data: str | None, file: Path | None, column: str | None, missing: float
) -> Population:
    """The events on the devices: each step has one with a given probability, or a column says how many each device
    has."""
    if missing:
        raise UsageError(
            "--missing is not for watched events: a device that kept nothing answers as one without events"
        )
    if file is None:
        return drawn_events(question, spec, data)
    cells = [cell for _, cell in read_column(file, column or question.metric)]
    return listed_events(str(file), question, spec, cells)


def _listed(label: str, question: Question, cells: Sequence[str]) -> Population:
    if isinstance(question.encoder, Range) and not STATISTICS[question.statistic].is_one_hot:
        return listed_numbers(label, question, cells)
    encoder = encoder_of(question)
    return listed_population(label, [encoder.encode(cell if cell.strip() else None) for cell in cells])
