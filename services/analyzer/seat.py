"""The analyzer's identity towards the log's follower, and its secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.analyzer.config import AnalyzerConfig
from tacit.aggregator.keys import find_key
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.aggregator.records import TaskRow
from tacit.aggregator.seat import NOT_OURS
from tacit.aggregator.state_keys import find_state_key, read_state_keys
from tacit.errors import Fatal, Refusal
from tacit.logview.live import LiveRecipe
from tacit.models.one_server import ANALYZER
from tacit.models.parties import Server
from tacit.models.servers import server_side
from tacit.panprivate.elgamal import PrivateKey
from tacit.recipe import derive
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import AnalyzerParty
from tacit.service.keys import read_signing_key
from tacit.signing import SigningKey
from tacit.tlog.leaves import OptIn
from tacit.tokens.slots import TokenVerifier


@dataclass(frozen=True)
class AnalyzerIdentity:
    """Operator name and keys. ``hpke_keys``: the preferred key first."""

    operator: str
    signing_key: SigningKey = field(repr=False)
    hpke_keys: LiveHpkeKeys = field(repr=False)
    state_keys: Sequence[PrivateKey] = field(repr=False)

    @property
    def role_name(self) -> str:
        """The role's name in recipes and leaves."""
        return ANALYZER


def read_identity(config: AnalyzerConfig) -> AnalyzerIdentity:
    """Read every key file that ``config`` names. Raises ``UsageError``."""
    return AnalyzerIdentity(
        config.operator,
        read_signing_key(config.signing_key),
        LiveHpkeKeys(config.hpke_keys),
        read_state_keys(config.state_keys),
    )


@dataclass(frozen=True)
class AnalyzerSeat:
    """The analyzer as a ``Seat`` of the log's follower."""

    identity: AnalyzerIdentity

    def check_keys(self, own: Server) -> None:
        """Raises ``Refusal`` ``own-hpke-key``."""
        if find_key(self.identity.hpke_keys, derive.hpke_config(own.hpke_config)) is None:
            raise Refusal("own-hpke-key", NOT_OURS)

    def task_id(self, recipe: Recipe, token_key_spki: bytes) -> bytes:
        """The recipe's hash (32 bytes), if its reports can be read. Raises ``Refusal`` otherwise, so that the recipe is
        refused before a device answers, not after."""
        side = server_side(recipe.model)
        task = side.task(recipe, token_key_spki)
        TokenVerifier(token_key_spki, task.slot)
        stated = side.state_key(recipe)
        key = None if stated is None else find_state_key(self.identity.state_keys, stated)
        if stated is not None and key is None:
            raise Refusal("own-state-key", "the recipe's devices encrypt their state to a key that we do not hold")
        side.reading(recipe, key)
        return task.task_id

    def opt_in(self, item: LiveRecipe, _task_id: bytes) -> OptIn:
        """The analyzer's opt-in, without a verify key to confirm."""
        return OptIn(recipe_hash=item.recipe.hash_text, task_id=item.recipe.hash_text, role=ANALYZER)

    def party(self, recipe: Recipe, row: TaskRow, retention: float) -> AnalyzerParty:
        """The party of a recipe, with the private keys to the public keys that the recipe names."""
        side = server_side(recipe.model)
        stated = side.state_key(recipe)
        task = side.task(recipe, row.token_key_spki)
        key = find_key(self.identity.hpke_keys, task.hpke_config)
        state_key = None if stated is None else find_state_key(self.identity.state_keys, stated)
        if key is None or (stated is not None and state_key is None):
            raise Fatal(f"a key of the active recipe {recipe.hash_text} is missing")
        verifier = TokenVerifier(row.token_key_spki, task.slot)
        reading = side.reading(recipe, state_key)
        return AnalyzerParty(task, key.key_pair, verifier, reading, task.end_seconds + retention)
