"""The interfaces that the recipe server's parts expect of the store of the log and the results. All times are POSIX
seconds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol, TypeVar

from recipe_server.records import (
    LoggedCensus,
    LoggedDirectory,
    LoggedKeySet,
    LoggedRecipe,
    LoggedSeries,
    PublishedResult,
)
from tacit.ledger.account import Charge
from tacit.recipe.model import Recipe
from tacit.recipe.series import Series
from tacit.service.store import Store, Transactions
from tacit.tlog.leaves import IssuerDirectory, OhttpConfig, OptIn, SignedLeaf, Void
from tacit.tlog.log import Node
from tacit.tlog.merkle import NodeReader

T = TypeVar("T")


class SeriesTx(Protocol):
    """The series as one transaction sees them."""

    async def add(self, series: Series, index: int) -> None:
        """Record a series that is in the log; it is charged from now on."""
        ...

    async def find(self, series_hash: bytes) -> LoggedSeries | None:
        """The series with this hash, or None."""
        ...

    async def ending_after(self, moment: int) -> list[LoggedSeries]:
        """The series that end after ``moment``, in the order of the log."""
        ...

    async def round_owner(self, series_hash: bytes, number: int) -> bytes | None:
        """Hash of the recipe that is round ``number``, or None."""
        ...


class RoomTx(Protocol):
    """How much of the room for live entries is taken, as one transaction sees it."""

    async def left(self, now: float, ended_seconds: int, census_seconds: int) -> int:
        """Bytes of room that are left at ``now``; ``ended_seconds`` and ``census_seconds`` as for the live entries."""
        ...


class LogTx(Protocol):
    """The transaction of both readers' answers and admission."""

    @property
    def series(self) -> SeriesTx:
        """The part of the transaction that reads series."""
        ...

    async def leaves(self, indices: Collection[int]) -> dict[int, bytes]:
        """The encoded entries at ``indices``, by index."""
        ...

    async def directories(self, issuer: str | None = None) -> list[LoggedDirectory]:
        """All directories, or those of one issuer."""
        ...

    async def key_sets(self, gateway: str | None = None) -> list[LoggedKeySet]:
        """All key sets, or those of one gateway, in the order of their periods."""
        ...

    async def census_shares(self, ending_after: int = -1, recipe_hash: bytes | None = None) -> list[LoggedCensus]:
        """The censuses with a published share that end after ``ending_after``, or the one with this hash, in the order
        of the log."""
        ...


class PagesTx(LogTx, Protocol):
    """The transaction of readers' answers."""

    async def checkpoint(self) -> tuple[int, bytes] | None:
        """(size, note) of the newest checkpoint; None before the first."""
        ...

    async def shown(self) -> tuple[int, bytes] | None:
        """(size, note) of the newest checkpoint that witnesses have cosigned; None before the first."""
        ...

    async def with_nodes(self, compute: Callable[[NodeReader], T]) -> T:
        """The result of ``compute``, which reads the stored hashes."""
        ...

    async def recipes(
        self, *, ending_after: int = -1, recipe_hash: bytes | None = None, after: int = -1, limit: int | None = None
    ) -> list[LoggedRecipe]:
        """Recipes in the order of the log, each with its opt-ins: those that end after ``ending_after`` and have an
        index above ``after``, or the one with this hash; at most ``limit``."""
        ...

    async def voids(self, published_after: int) -> list[tuple[int, int]]:
        """(index, published_at) of the void leaves that were published after ``published_after``."""
        ...


class LedgerTx(Protocol):
    """The transaction that weighs the privacy accounts."""

    async def charges(self, account: str, now: float, *, ending_after: int = -1) -> tuple[Charge, ...]:
        """The charges to an account at ``now``, of recipes and series that end after ``ending_after``."""
        ...


class AdmissionTx(LogTx, LedgerTx, Protocol):
    """The transaction of admission, which also records the admitted leaves."""

    @property
    def room(self) -> RoomTx:
        """The room for live entries."""
        ...

    async def recipe_index(self, recipe_hash: bytes) -> int | None:
        """Index of the recipe's leaf, or None."""
        ...

    async def slot_owner(self, issuer: str, epoch: int, slot: int) -> bytes | None:
        """Hash of the recipe that has the slot, or None."""
        ...

    async def opt_in_index(self, recipe_hash: bytes, role: str) -> int | None:
        """Index of the opt-in of ``role``, or None."""
        ...

    async def void_roles(self, recipe_hash: bytes) -> frozenset[str]:
        """The roles that have declared that nothing of the recipe will ever be released."""
        ...

    async def results(self, recipe_hash: bytes | None = None) -> list[PublishedResult]:
        """Released results, oldest first: all, or those of one recipe."""
        ...

    async def census_cells(self, ending_after: int) -> int:
        """Number of cells of all censuses that end after ``ending_after``."""
        ...

    async def add_recipe(self, recipe: Recipe, index: int) -> None:
        """Record a recipe that is in the log; from now on its slot is taken. A round of a series is charged nothing in
        addition."""
        ...

    async def add_census(self, recipe: Recipe) -> None:
        """Record that the recipe, which is in the log, is a census; its cells take room in every bundle for as long as
        it counts."""
        ...

    async def add_opt_in(self, recipe_hash: bytes, opt_in: OptIn, index: int) -> None:
        """Record the aggregator's opt-in, which is in the log."""
        ...

    async def add_void(self, recipe_hash: bytes, void: Void, index: int, now: int) -> None:
        """Record the aggregator's void leaf, which is in the log."""
        ...

    async def add_census_share(self, recipe_hash: bytes, role: str, index: int) -> None:
        """Record the aggregator's share of a census, which is in the log."""
        ...

    async def add_directory(self, directory: IssuerDirectory, index: int) -> None:
        """Record the issuer's directory of an epoch, which is in the log."""
        ...

    async def add_key_set(self, config: OhttpConfig, index: int) -> None:
        """Record the gateway's key set of a period, which is in the log."""
        ...


class RecipeTx(PagesTx, AdmissionTx, Protocol):
    """The transaction of the service."""

    async def put_checkpoint(self, size: int, note: bytes) -> None:
        """Replace the newest checkpoint."""
        ...

    async def put_shown(self, size: int, note: bytes) -> None:
        """Replace the checkpoint that readers see."""
        ...

    async def edge(self, size: int) -> dict[tuple[int, int], bytes]:
        """The hashes that an append to a tree of ``size`` entries needs."""
        ...

    async def add_entry(self, index: int, leaf: SignedLeaf, data: bytes, nodes: Iterable[Node]) -> None:
        """Store an entry and the hashes that it adds to the tree."""
        ...

    async def index_of(self, data: bytes) -> int | None:
        """Index of the entry with exactly these bytes, or None."""
        ...

    async def leaf_range(self, start: int, count: int) -> list[bytes]:
        """``count`` entries from ``start`` on, in order."""
        ...

    async def is_void(self, recipe_hash: bytes) -> bool:
        """Whether every party that the recipe's model asks has declared that nothing of the recipe will ever be
        released."""
        ...

    async def add_result(self, result: PublishedResult) -> None:
        """Store a result that was released."""
        ...


class RecipeStore(Store, Transactions[RecipeTx], Protocol):
    """The store of the service's state. Transactions that may write run one after another."""
