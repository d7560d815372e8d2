"""The parts of following the log that differ between parties: keys, opt-in, and view of a task.

A *participant* is one operator in one role. ``AggregatorParticipant`` is that of leader and helper, whose tasks are DAP
tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tacit.aggregator.credentials import Identity
from tacit.aggregator.keys import find_key, find_state_key
from tacit.aggregator.parties import Served
from tacit.aggregator.records import TaskRow
from tacit.codec import b64url
from tacit.errors import Fatal, Refusal
from tacit.logview.live import LiveRecipe
from tacit.models.parties import Server
from tacit.recipe import derive
from tacit.recipe.model import Recipe
from tacit.roles.aggregator import Party
from tacit.signing import SigningKey
from tacit.task import verify_key_confirmation, verify_key_of
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.statements import OptIn
from tacit.tokens.slots import TokenVerifier

P_co = TypeVar("P_co", bound=Served, covariant=True)

NOT_OURS = "the recipe's reports are sealed to a key that we do not hold"


class Signatory(Protocol):
    """Who signs leaves, and in which role of a recipe."""

    @property
    def role_name(self) -> str:
        """The role as written in recipes and leaves."""
        ...

    @property
    def operator(self) -> str:
        """The operator's name in recipes."""
        ...

    @property
    def signing_key(self) -> SigningKey:
        """The Ed25519 key that signs its leaves."""
        ...


class Participant(Protocol[P_co]):
    """One party that opts in to recipes."""

    @property
    def identity(self) -> Signatory:
        """In which role the party opts in, for which operator, and with which key."""
        ...

    def check_keys(self, own: Server) -> None:
        """Raise a refusal where we do not hold the keys that a recipe names for us."""
        ...

    def task_id(self, recipe: Recipe, token_key_spki: bytes) -> bytes:
        """The id of the recipe's task. Raises a refusal where it has none."""
        ...

    def opt_in(self, item: LiveRecipe, task_id: bytes) -> OptIn:
        """The body of the party's opt-in to ``item``, to be signed; ``task_id`` as from ``task_id``."""
        ...

    def party(self, recipe: Recipe, row: TaskRow, retention: float) -> P_co:
        """The view of a task that we have opted in to; it closes ``retention`` seconds after its end. Raises ``Fatal``
        for a missing key of ours."""
        ...


@dataclass(frozen=True)
class AggregatorParticipant:
    """Leader or helper. ``takes_mixed``: a leader without a shuffler's credential refuses recipes that name
    a shuffler, because nothing could ever be uploaded to them."""

    identity: Identity = field(repr=False)
    takes_mixed: bool = True

    def check_keys(self, own: Server) -> None:
        """Raises refusal ``own-hpke-key``, or ``own-state-key`` where devices are to encrypt their state to us."""
        if find_key(self.identity.hpke_keys, derive.hpke_config(own.hpke_config)) is None:
            raise Refusal("own-hpke-key", NOT_OURS)
        stated = own.state_key_text
        if stated is not None and find_state_key(self.identity.state_keys, stated) is None:
            raise Refusal("own-state-key", "devices would encrypt their state to a key that we do not hold")

    def task_id(self, recipe: Recipe, token_key_spki: bytes) -> bytes:
        """The id of the recipe's DAP task (32 bytes). Raises refusal ``shuffler-unknown``."""
        task = derive.task_of(recipe, token_key_spki)
        if task.is_mixed and not self.takes_mixed:
            raise Refusal("shuffler-unknown", "this leader takes reports from no shuffler (shuffler_token)")
        return task.task_id

    def opt_in(self, item: LiveRecipe, task_id: bytes) -> OptIn:
        """The opt-in, with the peer's seed where the peer opted in first and we hold that seed."""
        role = self.identity.role_name
        other = next((one for name, one in item.opt_ins.items() if name != role), None)
        current = self.identity.peers[0]
        seed_id, seed = current.seed_id, current.verify_key_seed
        if other is not None:
            held = self.identity.seed(other.seed_id)
            if held is not None:
                seed_id, seed = str(other.seed_id), held
        return OptIn(
            recipe_hash=item.recipe.hash_text,
            task_id=b64url(task_id),
            role=role,
            seed_id=seed_id,
            verify_key_confirmation=b64url(verify_key_confirmation(verify_key_of(seed, task_id))),
        )

    def party(self, recipe: Recipe, row: TaskRow, retention: float) -> Party:
        """The view of a task with the verify key of the seed under which we opted in."""
        task = derive.task_of(recipe, row.token_key_spki)
        opt_in = SignedLeaf.decode(row.opt_in).body_as(OptIn)
        seed = self.identity.seed(opt_in.seed_id)
        key = find_key(self.identity.hpke_keys, task.hpke_config(self.identity.role))
        # the private key for the task's state key for us, if the task has one and we hold it
        public = task.state_key(self.identity.role)
        state_key = None if public is None else find_state_key(self.identity.state_keys, b64url(public))
        if seed is None or key is None or (state_key is None and task.state_key(self.identity.role) is not None):
            raise Fatal(f"a key of the active recipe {recipe.hash_text} is missing")
        verifier = TokenVerifier(task.token_key_spki, task.slot)
        verify_key = verify_key_of(seed, task.task_id, task.vdaf.VERIFY_KEY_SIZE)
        closes = task.end_seconds + retention
        return Party(task, self.identity.role, verify_key, key.key_pair, verifier, closes, state_key)
