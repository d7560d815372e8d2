"""With which key each leaf must be signed: pinned by the policy, or named by a recipe that is in the log with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from tacit.codec import unb64url
from tacit.errors import DecodeError
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import LOG_SIGNER, Series
from tacit.tlog.fields import Body
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.statements import CensusShare, OptIn, SeriesEnd, Void
from tacit.tlog.token_directories import IssuerDirectory

B = TypeVar("B", bound=Body)

RECIPES_KEPT = 128
AGGREGATORS_LEAVES: dict[LeafType, type[OptIn | Void | CensusShare]] = {
    LeafType.OPT_IN: OptIn,
    LeafType.VOID: Void,
    LeafType.CENSUS_SHARE: CensusShare,
}
"""Leaves that a server of a recipe signs, in the role that the leaf names."""


class LeafSigners:
    """``LeafKeys`` by policy: pinned keys of issuers and gateways, else those that the logged recipes name.

    A recipe names its analyst's key itself; the rule ``analyst-unknown`` decides whether that analyst is trusted. A
    series may be ended by its analyst, and under ``log_key``, that of the checkpoints.
    """

    def __init__(self, policy: Policy, known: Sequence[SignedLeaf] = (), log_key: bytes | None = None) -> None:
        self._policy = policy
        self._known = known
        self._log_key = log_key

    def keys_of(self, leaves: Sequence[SignedLeaf]) -> list[bytes | None]:
        """Key of each leaf's signer; None where the signer does not have that role in any recipe, among the leaves or
        those ``known`` from before."""
        if not leaves:
            return []
        shown = [*self._known, *leaves]
        recipes = {recipe.hash_text: recipe for recipe in map(_recipe_of, shown) if recipe is not None}
        series = {one.hash_text: one for one in map(_series_of, shown) if one is not None}
        return [self.key_of(leaf, recipes, series) for leaf in leaves]

    def key_of(self, leaf: SignedLeaf, recipes: Mapping[str, Recipe], series: Mapping[str, Series]) -> bytes | None:
        """The key of one leaf's signer; ``recipes`` and ``series`` hold, by hash, those that are in the log with it."""
        if leaf.type is LeafType.RECIPE:
            recipe = _recipe_of(leaf)
            return None if recipe is None else _if_signed_by(recipe.parties.analyst, leaf)
        if leaf.type is LeafType.SERIES:
            own = _series_of(leaf)
            return None if own is None else _if_signed_by(own.probe.parties.analyst, leaf)
        if leaf.type is LeafType.SERIES_END:
            end = _body_of(leaf, SeriesEnd)
            return None if end is None else self._ending_key(leaf, end, series.get(end.series_hash))
        if leaf.type in AGGREGATORS_LEAVES:
            body = _body_of(leaf, AGGREGATORS_LEAVES[leaf.type])
            recipe = None if body is None else recipes.get(body.recipe_hash)
            if body is None or recipe is None:
                return None
            party = recipe.parties.server(body.role)
            return None if party is None else _if_signed_by(party, leaf)
        if leaf.type is LeafType.ISSUER_DIRECTORY:
            return self._issuer_key(leaf, recipes)
        return self._gateway_key(leaf, recipes)

    def _ending_key(self, leaf: SignedLeaf, end: SeriesEnd, series: Series | None) -> bytes | None:
        if series is None:
            return None
        if end.role == "log":
            return self._log_key if leaf.signer == LOG_SIGNER else None
        return _if_signed_by(series.probe.parties.analyst, leaf)

    def _issuer_key(self, leaf: SignedLeaf, recipes: Mapping[str, Recipe]) -> bytes | None:
        body = _body_of(leaf, IssuerDirectory)
        if body is None or self._policy.issuers is not None:
            return None if body is None else self._policy.issuer_key(body.issuer)
        for recipe in recipes.values():
            if recipe.parties.issuer.name == body.issuer:
                return unb64url(recipe.parties.issuer.signing_key)
        return None

    def _gateway_key(self, leaf: SignedLeaf, recipes: Mapping[str, Recipe]) -> bytes | None:
        body = _body_of(leaf, OhttpConfig)
        if body is None or self._policy.gateways is not None:
            return None if body is None else self._policy.gateway_key(body.gateway)
        for recipe in recipes.values():
            if recipe.parties.gateway.operator == body.gateway:
                return unb64url(recipe.parties.gateway.signing_key)
        return None


def _recipe_of(leaf: SignedLeaf) -> Recipe | None:
    if leaf.type is not LeafType.RECIPE:
        return None
    try:
        return recipe_in(leaf.body_bytes())
    except DecodeError:
        return None


def _series_of(leaf: SignedLeaf) -> Series | None:
    if leaf.type is not LeafType.SERIES:
        return None
    try:
        return series_in(leaf.body_bytes())
    except DecodeError:
        return None


@lru_cache(maxsize=RECIPES_KEPT)
def series_in(body: bytes) -> Series:
    """Decode a series leaf, as ``recipe_in`` does for a recipe."""
    return Series.decode(body)


@lru_cache(maxsize=RECIPES_KEPT)
def recipe_in(body: bytes) -> Recipe:
    """The recipe with these canonical bytes; cached, so it is decoded once however often its leaf is fetched."""
    return Recipe.decode(body)


def _body_of(leaf: SignedLeaf, model: type[B]) -> B | None:
    try:
        return leaf.body_as(model)
    except DecodeError:
        return None


def _if_signed_by(party: Any, leaf: SignedLeaf) -> bytes | None:
    return unb64url(party.signing_key) if leaf.signer == party.operator else None
