"""What a checker knows beside the recipe: the time, the log's leaves around it, and how far along the recipe
is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tacit.ledger.account import Charge
from tacit.ledger.budget import Accountant, conservative
from tacit.recipe.census import Census
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.recipe.series import Series
from tacit.tlog.leaves import IssuerDirectory, OptIn, SignedLeaf


class Stage(enum.IntEnum):
    """How far a recipe is; a rule applies from its stage on."""

    DRAFT = 0
    """On the analyst's desk: neither signed nor in a log."""
    PUBLISH = 1
    """Signed, handed to the operator of the log."""
    LOGGED = 2
    """In the log: what leader and helper look at before they opt in."""
    ACTIVE = 3
    """Both have opted in: what devices and serving aggregators look at."""


@dataclass(frozen=True, slots=True)
class Context:
    """The surroundings of one recipe at one moment. ``now`` is POSIX seconds."""

    stage: Stage
    now: float
    leaf: SignedLeaf | None = None
    """The recipe's leaf, from PUBLISH on."""
    index: int | None = None
    """Its index, if its inclusion was proved."""
    slot_owner: bytes | None = None
    """Hash of the recipe whose leaf first named this recipe's slot."""
    directory: IssuerDirectory | None = None
    """The one directory of the token's (issuer, epoch)."""
    opt_ins: Mapping[str, OptIn] = field(default_factory=dict)
    """The opt-ins in the log, by role."""
    series: Series | None = None
    """The series that the recipe names, if the log holds it."""
    round_owner: bytes | None = None
    """Hash of the recipe that is this round of the series: the first one in the log that fits."""
    charges: tuple[Charge, ...] | None = None
    """What the log charges to the accounts beside this recipe; None: this party does not know all of it."""
    accountant: Accountant = conservative
    censuses: tuple[Census, ...] = ()
    """The censuses of which the log shows both shares."""


Check = Callable[[Recipe, Policy, Context], str | None]
"""A rule's function: None, or one line with the numbers and what would pass."""
