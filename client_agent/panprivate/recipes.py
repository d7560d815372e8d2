"""From a recipe to the state that a device keeps for it, and from that state to what the device sends."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from client_agent.panprivate.watch import Plan, Schedule
from tacit.codec import unb64url
from tacit.errors import DecodeError, Refusal
from tacit.methods.flips import Flips
from tacit.models.forms.pan_private import PanPrivateParties
from tacit.models.forms.pan_private_single import PanPrivateSingleParties
from tacit.panprivate.elgamal import Ciphertext, PublicKey
from tacit.panprivate.single_server import NonZero
from tacit.panprivate.single_server import Occurrences as Counted
from tacit.panprivate.stored import OneServer, TwoServers
from tacit.panprivate.two_servers import SharedCell, SharedNonZero, SharedOccurrences, Sharing
from tacit.ports import Entropy
from tacit.recipe.derive import members_of, task_id
from tacit.recipe.model import Occurrences, Recipe
from tacit.version import DAP_18

Stored = OneServer | TwoServers
RandomisedCells = Sequence[Ciphertext] | Sequence[SharedCell]
"""What is sent: ciphertexts for one server, or secret shares for two."""


def is_watched(recipe: Recipe) -> bool:
    """Whether devices watch an event for the recipe, and answer from the state that they kept."""
    return isinstance(recipe.parties, PanPrivateParties | PanPrivateSingleParties)


def plan_of(recipe: Recipe) -> Plan:
    """What a device keeps for a watched recipe, which the recipe states in full. Raises ``Refusal``:
    ``encoder-mismatch`` for a recipe that does not say which steps are watched, ``state-key-invalid`` for keys to which
    nothing can be encrypted."""
    asked = recipe.question.encoder
    if not isinstance(asked, Occurrences):
        raise Refusal("encoder-mismatch", f"model {recipe.model} needs an encoder occurrences, not {asked.kind}")
    return Plan(recipe.hash, stored_of(recipe), Schedule(asked.start, asked.step_seconds, asked.steps))


def most_of(recipe: Recipe) -> int:
    """Most occurrences of the event that count on one device."""
    asked = recipe.question.encoder
    return asked.most if isinstance(asked, Occurrences) else 1


def stored_of(recipe: Recipe) -> Stored:
    """The form in which the recipe's state is kept. Raises ``Refusal`` as ``plan_of``, and ``ValueError`` for a recipe
    that is not watched."""
    parties, most = recipe.parties, most_of(recipe)
    is_count = recipe.question.statistic == "count"
    if isinstance(parties, PanPrivateSingleParties):
        key = _key(parties.analyzer.state_key)
        return OneServer(NonZero(key) if is_count else Counted(key, most))
    if isinstance(parties, PanPrivateParties):
        leader, helper = (_key(party.state_key) for party in (parties.leader, parties.helper))
        sharing = Sharing(leader, helper, DAP_18.vdaf_context(task_id(recipe)))
        return TwoServers(SharedNonZero(sharing) if is_count else SharedOccurrences(sharing, most))
    raise ValueError(f"nothing is watched for a recipe of model {recipe.model}")


def randomised(recipe: Recipe, stored: Stored, state: bytes, entropy: Entropy) -> RandomisedCells:
    """An answer made from ``state``: the recipe's randomizer is applied to the ciphertexts. The state is not decrypted,
    and cannot be recognised in the answer."""
    members = members_of(recipe.randomizer)
    if isinstance(stored, TwoServers):
        return stored.machine.answer(stored.cells(state), Decimal(members["epsilon0"]), entropy)
    cells = stored.cells(state)
    if isinstance(stored.machine, NonZero):
        return stored.machine.answer(cells, Decimal(members["epsilon0"]), entropy)
    if recipe.randomizer.name == Flips.NAME:
        return (stored.machine.mean(cells, int(members["scale"]), int(members["flips"]), entropy),)
    return stored.machine.histogram(cells, Decimal(members["epsilon0"]), entropy)


def _key(text: str) -> PublicKey:
    try:
        return PublicKey(unb64url(text))
    except DecodeError as error:
        raise Refusal("state-key-invalid", str(error)) from error
