"""Rules on what the log says about the recipe: signature, inclusion, opt-ins (P5)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from tacit.codec import b64url, unb64url
from tacit.errors import CryptoError, Refusal
from tacit.models.forms import form_of
from tacit.recipe.context import Context
from tacit.recipe.derive import confirms, task_id_at
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.tlog.leaves import LeafType
from tacit.tlog.statements import OptIn


def recipe_signature(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The leaf holds this recipe, its signer is the analyst's operator, and the signature verifies with the analyst's
    key."""
    leaf, analyst = context.leaf, recipe.parties.analyst
    if leaf is None:
        return f"the recipe is not signed; its analyst {analyst.operator} must sign it"
    if leaf.type is not LeafType.RECIPE or dict(leaf.body) != recipe.body():
        return f"the signed leaf holds another recipe; sign the one with hash {recipe.hash_text}"
    if leaf.signer != analyst.operator:
        return f"signed by {leaf.signer}; the analyst {analyst.operator} must sign it"
    try:
        leaf.verify(unb64url(analyst.signing_key))
    except CryptoError as error:
        return f"{error}; {analyst.operator} must sign with the key that the recipe names"
    return None


def recipe_in_log(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """The recipe's inclusion in the log was proved."""
    return f"the log does not hold recipe {recipe.hash_text}; publish it first" if context.index is None else None


def opt_in_missing(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """Leader and helper have both opted in, with one server the analyzer has, and so has a shuffler that the recipe
    names."""
    wanted = form_of(recipe.model).opting_in(recipe.parties)
    missing = [role for role in wanted if role not in context.opt_ins]
    if not missing:
        return None
    who = {1: "it", 2: "both"}.get(len(wanted), "all")
    return f"no opt-in of {' and '.join(missing)}; {who} must opt in"


def opt_in_mismatch(recipe: Recipe, policy: Policy, context: Context) -> str | None:
    """All opt-ins name this recipe's hash, its task id as this party derives it (a shuffler's: the recipe's hash), and
    their own role; those of leader and helper agree in ``seed_id`` and ``verify_key_confirmation``."""
    form = form_of(recipe.model)
    roles = form.opting_in(recipe.parties)
    found = [(role, context.opt_ins[role]) for role in roles if role in context.opt_ins]
    for role, opt_in in found:
        try:
            task = b64url(task_id_at(recipe, role))
        except Refusal as refusal:
            return refusal.detail
        proves = confirms(recipe, role)
        if opt_in.role != role or opt_in.recipe_hash != recipe.hash_text or opt_in.task_id != task:
            said = f"{opt_in.role}, recipe {opt_in.recipe_hash}, task {opt_in.task_id}"
            return f"the opt-in of {role} is for {said}; it must be for {role}, {recipe.hash_text}, {task}"
        if proves != (opt_in.verify_key_confirmation is not None):
            return f"the opt-in of {role} must {'confirm a verify key' if proves else 'name no verify key'}"
    return _seeds_differ([pair for pair in found if confirms(recipe, pair[0])])


def _seeds_differ(found: Sequence[tuple[str, OptIn]]) -> str | None:
    """Why two opt-ins do not use the same verify key, or None."""
    for (first, one), (second, other) in itertools.pairwise(found):
        if one.seed_id != other.seed_id:
            return f"{first} uses seed {one.seed_id}, {second} {other.seed_id}; both must use the same"
        if one.verify_key_confirmation != other.verify_key_confirmation:
            return f"{first} and {second} confirm different verify keys of seed {one.seed_id}; both need one peer file"
    return None
