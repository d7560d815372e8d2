"""What a check needs besides the recipe: the time, the log's leaves around it, and the stage of the recipe."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tacit.ledger.account import Charge
from tacit.recipe.census import Census
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Ended, Series
from tacit.tlog.leaves import SignedLeaf
from tacit.tlog.statements import OptIn
from tacit.tlog.token_directories import IssuerDirectory


class Stage(enum.IntEnum):
    """The stage of a recipe; a rule applies from its stage on."""

    DRAFT = 0
    """With the analyst: neither signed nor in a log."""
    PUBLISH = 1
    """Signed and submitted to the operator of the log."""
    LOGGED = 2
    """In the log; leader and helper check it before they opt in."""
    ACTIVE = 3
    """Both have opted in; devices and serving aggregators check it."""


@dataclass(frozen=True, slots=True)
class Context:
    """The context of one recipe at one moment. ``now`` is POSIX seconds."""

    stage: Stage
    now: float
    leaf: SignedLeaf | None = None
    """The recipe's leaf, from PUBLISH on."""
    index: int | None = None
    """The leaf's index, if its inclusion was proved."""
    slot_owner: bytes | None = None
    """Hash of the recipe whose leaf first named this recipe's slot."""
    directory: IssuerDirectory | None = None
    """The one directory of the token's (issuer, epoch)."""
    opt_ins: Mapping[str, OptIn] = field(default_factory=dict)
    """The opt-ins in the log, by role."""
    series: Series | None = None
    """The series that the recipe names, if the log holds it."""
    ended: Ended | None = None
    """How that series was ended, if it was."""
    round_owner: bytes | None = None
    """Hash of the recipe that holds this round of the series: the first one in the log that fits."""
    round_before: Recipe | None = None
    """The recipe that holds the round before this one; None: there is none, or this party does not know it."""
    charges: tuple[Charge, ...] | None = None
    """What the log charges to the accounts beside this recipe; None: this party does not know the whole log."""
    censuses: tuple[Census, ...] = ()
    """The censuses for which the log shows both shares."""


Check = Callable[[Recipe, Policy, Context], str | None]
"""A rule's function: returns None if the recipe passes, or one line with the numbers and what would pass."""
