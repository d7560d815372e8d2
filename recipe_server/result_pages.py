"""Released results page by page, so that no answer grows with their number.

Results are only ever added, each behind all that were before. So a page that another one follows never changes, and may
be kept: by caches for ever, and here, up to ``KEPT_BYTES``.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from recipe_server.store import RecipeStore
from tacit.codec import b64url

PAGE_BYTES, PAGE_RESULTS = 1 << 20, 1000
"""Most bytes of the results on a page, unless one alone has more, and most results."""
KEPT_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class ResultPage:
    """A page as it is sent; ``full``: another follows, so it never changes. ``empty``: it holds nothing."""

    body: bytes
    full: bool
    empty: bool


class ResultPages:
    """The pages of one store's results. Full ones are kept, the most recently used up to ``KEPT_BYTES`` together."""

    def __init__(self, store: RecipeStore) -> None:
        self._store = store
        self._kept: OrderedDict[tuple[bytes | None, int, int], ResultPage] = OrderedDict()
        self._size = 0

    async def page(self, recipe_hash: bytes | None, after: int, limit: int) -> ResultPage:
        """The results behind number ``after`` (-1: from the first) of one recipe or of all, at most ``limit``."""
        key = (recipe_hash, after, min(limit, PAGE_RESULTS))
        if (kept := self._kept.get(key)) is not None:
            self._kept.move_to_end(key)
            return kept
        async with self._store.read() as tx:
            numbers, full = _fitting(await tx.result_sizes(recipe_hash, after, key[2] + 1), key[2])
            results = await tx.numbered_results(recipe_hash, numbers)
        # the collector's own bytes, which were parsed when they arrived, in one JSON object
        following = numbers[-1] if full else None
        of = b"" if recipe_hash is None else b'"recipe_hash":"%s",' % b64url(recipe_hash).encode()
        items = b",".join(b'{"published_at":%d,"result":%s}' % (item.published_at, item.body) for item in results)
        then = b"null" if following is None else b"%d" % following
        page = ResultPage(b'{%s"results":[%s],"next":%s}' % (of, items, then), following is not None, not results)
        if full:
            before = self._kept.pop(key, None)  # read twice at the same time
            self._kept[key] = page
            self._size += len(page.body) - (0 if before is None else len(before.body))
            while self._size > KEPT_BYTES:
                _, dropped = self._kept.popitem(last=False)
                self._size -= len(dropped.body)
        return page


def _fitting(sizes: list[tuple[int, int]], limit: int) -> tuple[list[int], bool]:
    """The numbers of the results that share a page, of (number, size) in order, and whether more follow."""
    numbers: list[int] = []
    total = 0
    for number, size in sizes[:limit]:
        total += size
        if numbers and total > PAGE_BYTES:
            break
        numbers.append(number)
    return numbers, len(numbers) < len(sizes) and bool(numbers)
