"""What is required of a store whose state is only used through transactions: the aggregators' or the collector's, or a
test's own."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

Tx_co = TypeVar("Tx_co", covariant=True)


class Transactions(Protocol[Tx_co]):
    """A store that is only used through transactions. ``Tx_co``: what its user requires of one."""

    def transaction(self) -> AbstractAsyncContextManager[Tx_co]:
        """Commit everything in the block, or nothing; it runs alone."""
        ...

    def read(self) -> AbstractAsyncContextManager[Tx_co]:
        """Read, in the block, from one consistent view of what was committed."""
        ...
