"""Items ordered by a number that changes often: the highest are found without looking at all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Ranks(Generic[T]):
    """Items by rank, an integer; rank 0 is not kept. ``put`` takes constant time; ``highest`` sorts the ranks in use,
    not the items."""

    def __init__(self) -> None:
        self._rank: dict[T, int] = {}
        self._at: dict[int, dict[T, None]] = {}

    def put(self, thing: T, rank: int) -> None:
        """Set the rank of ``thing``; it comes last among the items of that rank."""
        before = self._rank.get(thing, 0)
        if rank == before:
            return
        if before:
            del self._at[before][thing]
            if not self._at[before]:
                del self._at[before]
        if rank:
            self._rank[thing] = rank
            self._at.setdefault(rank, {})[thing] = None
        else:
            del self._rank[thing]

    def highest(self) -> Iterator[dict[T, None]]:
        """The items of each rank, the highest rank first."""
        return (self._at[rank] for rank in sorted(self._at, reverse=True))
