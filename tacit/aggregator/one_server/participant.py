"""A server without aggregators towards the follower of the log: its identity, and its view of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tacit.aggregator.keys import find_key, find_state_key
from tacit.aggregator.live_keys import LiveHpkeKeys
from tacit.aggregator.participant import NOT_OURS
from tacit.aggregator.records import TaskRow
from tacit.errors import Fatal, Refusal
from tacit.logview.live import LiveRecipe
from tacit.models.interfaces.server import ServerSide
from tacit.models.parties import Server
from tacit.ports import StateKey
from tacit.recipe import derive
from tacit.recipe.model import Recipe
from tacit.roles.analyzer import AnalyzerParty
from tacit.signing import SigningKey
from tacit.tlog.statements import OptIn
from tacit.tokens.slots import TokenVerifier


@dataclass(frozen=True)
class ServerIdentity:
    """Role, operator name and keys. ``hpke_keys``: the preferred key first."""

    role_name: str
    operator: str
    signing_key: SigningKey = field(repr=False)
    hpke_keys: LiveHpkeKeys = field(repr=False)
    state_keys: Sequence[StateKey] = field(default=(), repr=False)


@dataclass(frozen=True)
class ServerParticipant:
    """The server as a ``Participant`` of the log's follower. ``side_of``: its side of a model, by the model's name."""

    identity: ServerIdentity
    side_of: Callable[[str], ServerSide]

    def check_keys(self, own: Server) -> None:
        """Raises ``Refusal`` ``own-hpke-key``."""
        if find_key(self.identity.hpke_keys, derive.hpke_config(own.hpke_config)) is None:
            raise Refusal("own-hpke-key", NOT_OURS)

    def task_id(self, recipe: Recipe, token_key_spki: bytes) -> bytes:
        """The recipe's hash (32 bytes), if its reports can be read. Raises ``Refusal`` otherwise, so that the recipe is
        refused before a device answers, not after."""
        side = self.side_of(recipe.model)
        task = side.task(recipe, token_key_spki)
        TokenVerifier(token_key_spki, task.slot)
        stated = side.state_key(recipe)
        key = None if stated is None else find_state_key(self.identity.state_keys, stated)
        if stated is not None and key is None:
            raise Refusal("own-state-key", "the recipe's devices encrypt their state to a key that we do not hold")
        side.reading(recipe, key)
        return task.task_id

    def opt_in(self, item: LiveRecipe, _task_id: bytes) -> OptIn:
        """The server's opt-in, without a verify key to confirm."""
        return OptIn(recipe_hash=item.recipe.hash_text, task_id=item.recipe.hash_text, role=self.identity.role_name)

    def party(self, recipe: Recipe, row: TaskRow, retention: float) -> AnalyzerParty:
        """The party of a recipe, with the private keys to the public keys that the recipe names."""
        side = self.side_of(recipe.model)
        stated = side.state_key(recipe)
        task = side.task(recipe, row.token_key_spki)
        key = find_key(self.identity.hpke_keys, task.hpke_config)
        state_key = None if stated is None else find_state_key(self.identity.state_keys, stated)
        if key is None or (stated is not None and state_key is None):
            raise Fatal(f"a key of the active recipe {recipe.hash_text} is missing")
        verifier = TokenVerifier(row.token_key_spki, task.slot)
        reading = side.reading(recipe, state_key)
        bundling, onward = side.bundling(recipe, row.token_key_spki), side.onward(recipe, row.token_key_spki)
        return AnalyzerParty(task, key.key_pair, verifier, reading, task.end_seconds + retention, bundling, onward)
