"""What a device stores: what it knows of the log, its tokens, and one entry for every recipe it ever decided about.

``AgentStore`` is the port; ``MemoryAgentStore`` keeps everything in the process (simulated devices),
``SqlAgentStore`` (``client_agent.store``) in one SQLite file of mode 0600. Both keep the same constraints: one
entry per recipe whose decision never changes, one token per slot, spent with the entry that uses it, one draw per
series, written with the entry of its first round.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from tacit.errors import Fatal, Unavailable
from tacit.models.secure_aggregation.form import SecureAggregation
from tacit.states import Move, States
from tacit.tokens.slots import Slot

DRAWN_TWICE = "a series is drawn for once"
UNCHARGED = "a round is answered under the draw and the charge of its series only"


class State(enum.StrEnum):
    """State of one journal entry; ``ENTRY_STATES`` lists every move."""

    REFUSED = "refused"
    INELIGIBLE = "ineligible"
    NOT_SAMPLED = "not-sampled"
    SCHEDULED = "scheduled"
    SENT = "sent"
    FAILED = "failed"
    EXPIRED = "expired"


ENTRY_STATES = States(
    "an entry of the journal",
    State,
    [
        Move(None, State.REFUSED, "a rule refuses the recipe"),
        Move(None, State.INELIGIBLE, "outside the audience, too late, or without a token"),
        Move(None, State.NOT_SAMPLED, "charged, and the coins say not to send"),
        Move(None, State.SCHEDULED, "charged, the report (or dummy) stored with its time"),
        Move(State.SCHEDULED, State.SCHEDULED, "not stored by the server yet, and sent again later"),
        Move(State.SCHEDULED, State.SENT, "the Leader, or the analyzer, has stored it"),
        Move(State.SCHEDULED, State.FAILED, "the refusal is final"),
        Move(State.SCHEDULED, State.EXPIRED, "its deadline has passed"),
    ],
)


class Fact(enum.StrEnum):
    """The single values that a device stores."""

    LOG_STATE = "log-state"
    """``tacit.logview.view.LogState``: the last accepted tree, or the failure since which the log is not trusted."""
    GATEWAY_KEYS = "gateway-keys"
    """``client_agent.seen_leaves``: the key sets that the log has shown, by period."""
    DIRECTORIES = "directories"
    """``client_agent.seen_leaves``: the issuer's directories that the log has shown, of the epochs around now."""
    LOG_TROUBLE = "log-trouble"
    """``Trouble``: why the log's last answer did not arrive or was refused; empty while the log is accepted."""
    SOURCE_TROUBLE = "source-trouble"
    """``Trouble``: why the data source gave no value; empty while it does."""
    TOKEN_TROUBLE = "token-trouble"  # noqa: S105 - a name
    """``Trouble``: the slot whose token could last not be fetched, for an unexpected reason."""
    MODEL_TROUBLE = "model-trouble"
    """``Trouble``: why the model of a round could not be fetched; empty while none is missing."""
    STATE_TROUBLE = "state-trouble"
    """``Trouble``: what is wrong with the encrypted state of a watched event; empty if nothing is."""

    @classmethod
    def troubles(cls) -> tuple[Fact, ...]:
        """The facts whose value is a ``Trouble``, or empty."""
        return (cls.LOG_TROUBLE, cls.SOURCE_TROUBLE, cls.TOKEN_TROUBLE, cls.MODEL_TROUBLE, cls.STATE_TROUBLE)


@dataclass(frozen=True)
class Entry:
    """One recipe as this device saw it. ``report`` is the finished report, kept until it is stored (P11); ``deadline``
    is the POSIX second after which it is not offered any more."""

    recipe_hash: bytes
    name: str
    state: State
    decided_at: float
    detail: str = ""
    charged_epsilon: str = ""
    slot: Slot | None = None
    send_at: float = 0.0
    deadline: float = 0.0
    attempts: int = 0
    url: str = ""
    model: str = SecureAggregation.name
    """The model that says how ``report`` is sent, and how the answer is read."""
    report: bytes = field(default=b"", repr=False)
    charged_delta: str = ""
    charged_with_relay: str = ""
    """Claim (b) of a charge; empty for charges from before it was recorded."""
    charged_until: float = 0.0
    """For a charge: the POSIX second until which the device may answer, which is the end of the recipe or the
    series."""
    series_hash: bytes = b""
    """For a round: its series. The series is charged with the first entry that has a charge."""
    series_index: int | None = None
    analyst: str = ""
    """The operator whose recipe it is; empty for entries from before it was recorded."""

    @property
    def answers_round(self) -> bool:
        """Whether this is the answer to a round, for which its series must have been drawn for and charged."""
        return bool(self.series_hash) and self.state in {State.NOT_SAMPLED, State.SCHEDULED}


@dataclass(frozen=True)
class SeriesDraw:
    """This device's draw for a series, made once, when it was first eligible for a round (P26). ``chosen_round``: with
    donation, the one round in which it takes part; ``None`` if it takes part in none, or if each round has a coin of
    its own."""

    series_hash: bytes
    name: str
    drawn_at: float
    first_round: int
    chosen_round: int | None = None


@dataclass(frozen=True)
class Prefetch:
    """The token of one slot: planned (``due_at``), requested (``pending`` is stored, so that a retry after a crash
    sends the same blinded message), held (``token``), or ``spent`` (``forget`` then deletes token and secrets).

    ``key_id`` is the SHA-256 of the slot's key when it was planned; a token is never requested under another one.
    ``preimages`` is r_leader followed by r_helper (P10).
    """

    slot: Slot
    due_at: float
    key_id: bytes = b""
    preimages: bytes = field(default=b"", repr=False)
    pending: bytes = field(default=b"", repr=False)
    token: bytes = field(default=b"", repr=False)
    spent: bool = False
    attempts: int = 0

    @property
    def usable(self) -> bool:
        """Whether there is a token that no report has used."""
        return bool(self.token) and not self.spent

    @property
    def settled(self) -> bool:
        """Whether there is nothing left to fetch."""
        return bool(self.token) or self.spent

    def emptied(self) -> Prefetch:
        """The row without token and secrets: the report holds them sealed, and nothing else needs them."""
        return Prefetch(self.slot, self.due_at, self.key_id, spent=True, attempts=self.attempts)


class AgentStore(Protocol):
    """The agent's only durable state. Every method is one transaction."""

    errors: ClassVar[tuple[type[Exception], ...]]
    """The store's own errors. They end the run, whatever the agent was doing."""

    async def fact(self, fact: Fact) -> bytes:
        """The value stored last under this name, or empty bytes."""
        ...

    async def keep(self, facts: Mapping[Fact, bytes]) -> None:
        """Replace these values, all or none of them; other facts stay."""
        ...

    async def prefetches(self) -> list[Prefetch]:
        """Every slot this device knows of."""
        ...

    async def put_prefetch(self, *prefetches: Prefetch) -> None:
        """Insert or update the rows of these slots, all together."""
        ...

    async def forget(self, before: int) -> None:
        """Delete the rows of epochs below ``before``, and everything about a spent token that could link it to its
        report."""
        ...

    async def entries(self) -> list[Entry]:
        """The whole journal, oldest first."""
        ...

    async def decide(self, entry: Entry, spend: Slot | None = None, draw: SeriesDraw | None = None) -> bool:
        """Write a recipe's first entry together with ``draw``, the draw for its series; with ``spend``, also mark that
        slot's token as spent.

        Returns ``False`` and changes nothing if the recipe already has an entry. Raises ``Fatal`` if the token is
        missing or was used before, if the series already has a draw, if ``entry`` answers a round of a series that has
        none, or if no entry may begin in this state.
        """
        ...

    async def draw(self, series_hash: bytes) -> SeriesDraw | None:
        """The stored draw for a series; None if this device has not drawn for it."""
        ...

    async def update(self, entry: Entry) -> None:
        """Move an entry along ``ENTRY_STATES``. Raises ``Fatal`` for any other move."""
        ...


@dataclass(frozen=True)
class Trouble:
    """Something that keeps this device from working, for its owner: since when (POSIX seconds), and what."""

    since: float
    what: str

    def encode(self) -> bytes:
        """JSON, for the value of a ``Fact``; see ``decode``."""
        return json.dumps({"since": self.since, "what": self.what}).encode()

    @classmethod
    def decode(cls, data: bytes) -> Trouble | None:
        """Inverse of ``encode``; None for empty bytes."""
        return cls(**json.loads(data)) if data else None


async def note(store: AgentStore, fact: Fact, what: str, now: float) -> None:
    """Store a trouble for the device's owner, since ``now``; an empty ``what`` says that it is over."""
    known = Trouble.decode(await store.fact(fact))
    if what != (known.what if known else ""):
        await store.keep({fact: Trouble(now, what).encode() if what else b""})


class MemoryAgentStore:
    """An ``AgentStore`` in memory: what it holds is lost with the process."""

    errors: ClassVar[tuple[type[Exception], ...]] = (Unavailable,)

    def __init__(
        self,
        facts: Mapping[Fact, bytes] | None = None,
        prefetches: Iterable[Prefetch] = (),
        entries: Iterable[Entry] = (),
        draws: Iterable[SeriesDraw] = (),
    ) -> None:
        """Empty, or with the contents of another store."""
        self._facts: dict[Fact, bytes] = dict(facts or {})
        self._prefetches: dict[Slot, Prefetch] = {one.slot: one for one in prefetches}
        self._entries: dict[bytes, Entry] = {entry.recipe_hash: entry for entry in entries}
        self._draws: dict[bytes, SeriesDraw] = {draw.series_hash: draw for draw in draws}

    async def fact(self, fact: Fact) -> bytes:
        """The value stored last under this name, or empty bytes."""
        return self._facts.get(fact, b"")

    async def keep(self, facts: Mapping[Fact, bytes]) -> None:
        self._facts.update(facts)

    async def prefetches(self) -> list[Prefetch]:
        """Every slot that this device knows of, in the order of their first rows."""
        return list(self._prefetches.values())

    async def put_prefetch(self, *prefetches: Prefetch) -> None:
        """Insert or replace the rows of these slots."""
        self._prefetches.update({prefetch.slot: prefetch for prefetch in prefetches})

    async def forget(self, before: int) -> None:
        """Delete the rows of epochs below ``before``, and empty those of spent tokens."""
        self._prefetches = {
            slot: row.emptied() if row.spent else row for slot, row in self._prefetches.items() if slot.epoch >= before
        }

    async def entries(self) -> list[Entry]:
        """The whole journal, oldest first."""
        return list(self._entries.values())

    async def decide(self, entry: Entry, spend: Slot | None = None, draw: SeriesDraw | None = None) -> bool:
        """Store a recipe's first entry, its draw and the mark on its token, all or nothing; False if the recipe already
        has an entry. Raises ``Fatal`` as ``AgentStore.decide``."""
        if entry.recipe_hash in self._entries:
            return False
        ENTRY_STATES.check(None, entry.state)
        if draw is not None and draw.series_hash in self._draws:
            raise Fatal(DRAWN_TWICE)
        drawn = self._draws.keys() | ({draw.series_hash} if draw else set())
        if entry.answers_round and entry.series_hash not in drawn:
            raise Fatal(UNCHARGED)
        if spend is not None:
            held = self._prefetches.get(spend)
            if held is None or not held.usable:
                raise Fatal("the token of the recipe's slot is missing or was used before")
            self._prefetches[spend] = replace(held, spent=True)
        if draw is not None:
            self._draws[draw.series_hash] = draw
        self._entries[entry.recipe_hash] = entry
        return True

    async def draw(self, series_hash: bytes) -> SeriesDraw | None:
        """The stored draw for a series; None if this device has not drawn for it."""
        return self._draws.get(series_hash)

    async def update(self, entry: Entry) -> None:
        """Move an entry along ``ENTRY_STATES``. Raises ``Fatal`` for any other move."""
        known = self._entries.get(entry.recipe_hash)
        if known is None:
            raise Fatal("the journal has no entry of this recipe")
        ENTRY_STATES.check(known.state, entry.state)
        self._entries[entry.recipe_hash] = entry
