"""Where a fleet's devices come from: a configuration, a policy, an authority that attests them, tokens, data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import sqlalchemy as sa

from client_agent.config import AgentConfig
from client_agent.deciding import Deps
from infra.lab.devices.columns import read_column
from infra.lab.devices.destination import Destination, verified_target
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
from tacit.adapters.network.tls import ClientTls
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.aggregator.state_keys import read_state_key, state_key_text
from tacit.errors import DecodeError, UsageError
from tacit.methods.base.statistics import STATISTICS
from tacit.models.pan_private.form import PanPrivateParties
from tacit.models.pan_private_single.form import PanPrivateSingleParties
from tacit.panprivate.elgamal import PrivateKey
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


async def open_target(origin: Origin, reference: str, wait: float) -> Destination:
    """Fetch log and recipe, verified once for every device with this policy. Raises what ``verified_target`` raises."""
    clock, entropy, config = SystemClock(), OsEntropy(), origin.config
    try:
        authority = SoftwareRoot.from_pem(origin.authority)
    except DecodeError as error:
        raise UsageError(f"the fleet's attestation authority: {error}") from error
    device = authority.issue("fleet-policy", entropy, clock.now())
    async with HttpTransport(tls=ClientTls(config.tls_ca), insecure_http=config.insecure_http) as transport:
        deps = Deps(clock, entropy, transport)
        return await verified_target(config, policy_of(config.policy), device, deps, reference, wait)


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
