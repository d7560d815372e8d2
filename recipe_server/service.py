"""The recipe server without HTTP: publish leaves and results, read the log, recipes and results.

``publish_leaf`` is the one way into the log, for the public app, the command line and an admin API alike. An entry, the
hashes it adds, its recorded content and the new signed checkpoint commit in one transaction, so that a checkpoint is
never ahead of what is stored, nor behind what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from recipe_server.admission import Admission, decode_leaf, operator_policy, stored_recipe
from recipe_server.bundles import Answers
from recipe_server.config import RecipeServerConfig
from recipe_server.records import LoggedRecipe, PublishedResult
from recipe_server.result_pages import ResultPage, ResultPages
from recipe_server.results import Result
from recipe_server.store import RecipeStore, RecipeTx
from tacit.adapters.messaging.topics import KEYS, LOG, RECIPES, encode_size
from tacit.announcer import Announcer
from tacit.codec import b64url
from tacit.errors import CryptoError, Fatal, Refusal
from tacit.models.forms import form_of
from tacit.ports import Clock
from tacit.recipe.logged import in_full, recipe_state, stated_members, summary
from tacit.service.base.keys import read_signing_key
from tacit.service.base.log import get_logger
from tacit.service.stores import Durable
from tacit.tlog.checkpoint import Checkpoint, LogPolicy, NoteKey, sign_checkpoint
from tacit.tlog.leaves import LeafType, SignedLeaf
from tacit.tlog.log import nodes_of_append
from tacit.tlog.merkle import EMPTY_ROOT, prove_consistency, root_hash
from tacit.tlog.tiles import TILE_WIDTH, Tile, encode_bundle, tile_bytes
from tacit.tlog.token_directories import MAX_LOOKAHEAD

LIST_LIMIT = 1000
STATED_KEPT = 2048
"""Number of recipes whose entry for lists is cached: about 4 KiB each."""
_KEY_LEAVES = frozenset({LeafType.ISSUER_DIRECTORY, LeafType.OHTTP_CONFIG})


@dataclass(frozen=True, slots=True)
class Published:
    """Index of a leaf, and whether it was added now (False: the log already held these bytes)."""

    index: int
    added: bool


class RecipeService:
    """The operator's service over one store. Call ``open`` before use and ``close`` after."""

    def __init__(
        self, config: RecipeServerConfig, clock: Clock, store: RecipeStore, announcer: Announcer | None = None
    ) -> None:
        """``announcer`` is told of every entry after its commit. Raises ``UsageError`` if the log's key cannot be
        read."""
        self._config = config
        self._clock = clock
        self._announcer = announcer
        self._key = read_signing_key(config.log_key)
        policy = operator_policy(config.policy)
        self._admission = Admission(policy, config.accept_late_directories, config.ended_seconds, self._key.public)
        self._store = store
        self.grown: Callable[[], None] | None = None
        """Called after an entry was added, so that witnesses are asked to cosign it."""
        self._size = 0
        """Number of entries that readers are shown."""
        self._unsaid: set[str] = set()
        """Topics of entries that readers are not shown yet."""
        self._answers = Answers(store, self._shown_checkpoint, clock, config.ended_seconds, policy)
        self._result_pages = ResultPages(store)
        self._log = get_logger("recipe_server")

    @property
    def note_key(self) -> NoteKey:
        """The key that readers of this log pin."""
        return NoteKey(self._config.log_name, self._key.public)

    @property
    def size(self) -> int:
        """Number of entries that readers are shown."""
        return self._size

    @property
    def durable(self) -> Durable | None:
        """The durable storage of the store while it is open, or None."""
        return self._store.durable

    async def open(self) -> None:
        """Open the store; an empty log gets its first checkpoint. Raises ``Fatal`` if the stored checkpoint is of
        another log or key."""
        await self._store.open()
        try:
            await self._check_checkpoint()
        except BaseException:
            await self.close()
            raise
        self._announce(LOG)

    async def _check_checkpoint(self) -> None:
        async with self._store.transaction() as tx:
            stored = await tx.checkpoint()
            if stored is None:
                await tx.put_checkpoint(0, self._sign_checkpoint(0, EMPTY_ROOT))
                return
            shown = await self._shown_checkpoint(tx)
        self._size = shown[0]
        try:
            for note in (stored[1], shown[1]):
                LogPolicy(self.note_key).open(note)
        except CryptoError as error:
            raise Fatal("the stored checkpoint is of another log or key") from error

    async def _shown_checkpoint(self, tx: RecipeTx) -> tuple[int, bytes]:
        """(size, note) of the checkpoint that readers see: if there are witnesses, the newest that they have cosigned;
        the newest one of the log if they have cosigned none yet."""
        shown = await tx.shown() if self._config.witnesses else None
        return shown or await _checkpoint(tx)

    async def newest_leaf(self) -> tuple[int, int] | None:
        """Between which POSIX seconds it is, by the newest directory in the log: its issuer published it at most
        ``MAX_LOOKAHEAD`` epochs ahead, and a later one is due before its own epoch ends. None without a directory."""
        async with self._store.read() as tx:
            directories = await tx.directories()
        newest = max(directories, key=lambda one: (one.epoch + 1) * one.epoch_seconds, default=None)
        if newest is None:
            return None
        seconds = newest.epoch_seconds
        return (newest.epoch - MAX_LOOKAHEAD) * seconds, (newest.epoch + 1) * seconds

    async def close(self) -> None:
        await self._store.close()

    async def publish_leaf(self, data: bytes) -> Published:
        """Admit ``data`` to the log. The same bytes again give the same index. Raises ``Refusal``."""
        leaf = decode_leaf(data)
        async with self._store.transaction() as tx:
            known = await tx.index_of(data)
            if known is not None:
                return Published(known, added=False)
            register = await self._admission.admit(leaf, tx, self._clock.now())
            index, _ = await _checkpoint(tx)
            await self._append(tx, index, leaf, data)
            await register(tx, index)
            shown, _ = await self._shown_checkpoint(tx)
        self._unsaid |= {LOG, KEYS if leaf.type in _KEY_LEAVES else RECIPES}
        self._log.info("leaf_published", type=leaf.type.value, index=index)
        self._grown_to(shown)
        if self.grown is not None:
            self.grown()
        return Published(index, added=True)

    def _grown_to(self, size: int) -> None:
        """Note that readers are shown ``size`` entries from now on."""
        if size != self._size:
            self._size = size
            self._announce(*sorted(self._unsaid))
            self._unsaid.clear()

    async def newest(self) -> int:
        """Number of entries in the log, shown or not."""
        async with self._store.read() as tx:
            return (await _checkpoint(tx))[0]

    async def signed(self, size: int) -> bytes:
        """The checkpoint of the first ``size`` entries, signed by the log alone."""
        async with self._store.read() as tx:
            newest, note = await _checkpoint(tx)
            if size == newest:
                return note
            return self._sign_checkpoint(size, await tx.with_nodes(lambda read: root_hash(read, size)))

    async def extends(self, old: int, size: int) -> tuple[bytes, ...]:
        """Proof that the tree of ``size`` entries extends the tree of ``old`` entries."""
        async with self._store.read() as tx:
            return tuple(await tx.with_nodes(lambda read: prove_consistency(read, old, size)))

    async def show(self, size: int, note: bytes) -> None:
        """Show readers ``note``, a cosigned checkpoint of ``size`` entries, unless they are already shown a larger
        one."""
        async with self._store.transaction() as tx:
            shown = await tx.shown()
            if shown is not None and shown[0] > size:
                return
            await tx.put_shown(size, note)
        self._grown_to(size)

    def _announce(self, *topics: str) -> None:
        """Announce the size of the log. It is announced again at every start, since the last announcement may have been
        lost."""
        if self._announcer is not None:
            for topic in topics:
                self._announcer.publish(topic, encode_size(self._size))

    async def _append(self, tx: RecipeTx, index: int, leaf: SignedLeaf, data: bytes) -> None:
        edge = await tx.edge(index)
        nodes = nodes_of_append(lambda level, at: edge[level, at], index, data)
        edge.update({(node.level, node.index): node.hash for node in nodes})
        root = root_hash(lambda level, at: edge[level, at], index + 1)
        await tx.add_entry(index, leaf, data, nodes)
        await tx.put_checkpoint(index + 1, self._sign_checkpoint(index + 1, root))

    def _sign_checkpoint(self, size: int, root: bytes) -> bytes:
        return sign_checkpoint(Checkpoint(self._config.log_name, size, root), self._key)

    async def checkpoint(self) -> bytes:
        """The newest checkpoint that readers are shown."""
        async with self._store.read() as tx:
            return (await self._shown_checkpoint(tx))[1]

    async def tile(self, tile: Tile) -> bytes | None:
        """Content of a hash tile or entry bundle; None if the log is not large enough."""
        async with self._store.read() as tx:
            size, _ = await _checkpoint(tx)
            if not tile.exists_at(size):
                return None
            if tile.level is None:
                return encode_bundle(await tx.leaf_range(tile.index * TILE_WIDTH, tile.width))
            return await tx.with_nodes(lambda read: tile_bytes(tile, read))

    async def head(self) -> bytes:
        """The encoded head of the log's pages (``tacit.tlog.pages``)."""
        return await self._answers.head()

    def page(self, digest: bytes) -> bytes | None:
        """The encoded page with this SHA-256; None once it is no longer kept."""
        return self._answers.page(digest)

    async def key_sets(self) -> bytes:
        """The encoded key sets of gateways, for relays."""
        return await self._answers.key_sets()

    async def hashes(self, size: int, block: int) -> bytes | None:
        """The encoded hashes of a block in a tree that the log has had, or None."""
        return await self._answers.hashes(size, block)

    async def recipes(self, after: int = -1, limit: int = LIST_LIMIT) -> list[dict[str, Any]]:
        """Summaries in the order of the log of recipes with an index above ``after``, at most ``limit`` and at most
        LIST_LIMIT."""
        now = self._clock.now()
        async with self._store.read() as tx:
            logged = await tx.recipes(after=after, limit=min(limit, LIST_LIMIT))
            leaves = await tx.leaves([recipe.index for recipe in logged])
        return [_summary(recipe, leaves[recipe.index], now) for recipe in logged]

    async def recipe(self, recipe_hash: bytes) -> dict[str, Any] | None:
        """One recipe in full: summary, body, leaf, opt-ins, task id. None if the log does not hold it."""
        async with self._store.read() as tx:
            recipes = await tx.recipes(recipe_hash=recipe_hash)
            if not recipes:
                return None
            logged = recipes[0]
            leaves = await tx.leaves([logged.index, *logged.opt_ins.values()])
        data = leaves[logged.index]
        opt_ins = {role: (index, leaves[index]) for role, index in logged.opt_ins.items()}
        return {**_summary(logged, data, self._clock.now()), **in_full(stored_recipe(data), data, opt_ins)}

    async def publish_result(self, data: bytes) -> bool:
        """Store a released result; False if it was stored before. Raises ``DecodeError``, or ``Refusal``
        ``result-recipe`` (not in the log), ``result-void`` or ``result-exists`` (another result of that batch)."""
        result = Result.decode(data)
        async with self._store.transaction() as tx:
            if await tx.recipe_index(result.recipe_hash) is None:
                raise Refusal("result-recipe", "the log does not hold the recipe")
            if await tx.is_void(result.recipe_hash):
                raise Refusal("result-void", "leader and helper have said that nothing of the recipe is released")
            if (known := await tx.result_of(result.recipe_hash, result.batch_id)) is not None:
                if known == data:
                    return False
                raise Refusal("result-exists", "the batch has another result already")
            published_at = int(self._clock.now())
            await tx.add_result(PublishedResult(result.recipe_hash, result.batch_id, data, published_at))
        self._log.info("result_published", recipe=b64url(result.recipe_hash))
        return True

    async def results(self, recipe_hash: bytes | None, after: int, limit: int) -> ResultPage:
        """A page of the released results of one recipe or of all, in the order of publication, behind number
        ``after``."""
        return await self._result_pages.page(recipe_hash, after, limit)


async def _checkpoint(tx: RecipeTx) -> tuple[int, bytes]:
    stored = await tx.checkpoint()
    if stored is None:
        raise Fatal("the store has no checkpoint")
    return stored


def _summary(logged: LoggedRecipe, data: bytes, now: float) -> dict[str, Any]:
    roles, said = _read_stated(data)
    state = recipe_state(roles, logged.opt_ins, logged.ends_at, now)
    return summary(b64url(logged.hash), logged.index, state, said)


@lru_cache(maxsize=STATED_KEPT)
def _read_stated(data: bytes) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The roles that must opt in to the recipe in a leaf, and the members that a summary takes from it."""
    recipe = stored_recipe(data)
    return form_of(recipe.model).opting_in(recipe.parties), stated_members(recipe)
