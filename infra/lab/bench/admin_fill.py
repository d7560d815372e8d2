"""An analyst's organisation with a past: a log of many entries, recipes in it, and as many acts in the audit log.

Everything is as the services would have written it (signed leaves, hashes, chain), but for the time that it would take
them: rows go into the databases of services that do not run, many at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from infra.lab.kit.recipes import RecipeKit
from recipe_server.config import RecipeServerConfig
from recipe_server.schema import CHARGES, CHECKPOINT, DIRECTORIES, ENTRIES, NODES, OPT_INS, RECIPES
from recipe_server.store import SqlRecipeStore
from services.admin.core.audit import chained
from services.admin.core.config import AdminConfig
from services.admin.core.questions import text_of
from services.admin.core.records import Act, QuestionState
from services.admin.core.schema import AUDIT, QUESTIONS
from services.admin.core.store import SqlAdminStore
from tacit.adapters.kept_tree import FileTree
from tacit.codec import b64url
from tacit.ledger.account import ChargeState
from tacit.operations.audit_chain import FIRST
from tacit.recipe.charges import charge_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.service.auth import token_digest
from tacit.service.config import write_secret
from tacit.service.keys import write_signing_key
from tacit.tlog.checkpoint import Checkpoint, sign_checkpoint
from tacit.tlog.leaves import LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import nodes_of_append

EPOCH_SECONDS: Final = 86_400
SLOTS: Final = 4
BATCH: Final = 5_000
KEY: Final = "tacit-key-of-the-bench"
ACCOUNT: Final = {"default": {"epsilon": "1000", "delta": "0.001", "window_seconds": 366 * EPOCH_SECONDS}}
Rows = dict[sa.Table, list[dict[str, Any]]]


@dataclass(frozen=True)
class Filled:
    """Configurations of both services, and what the log holds."""

    admin: Path
    recipe_server: Path
    recipes: list[str]
    entries: int


class Filler:
    """Fills ``folder``. ``port``: of the recipe server."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._kit = RecipeKit()
        self._now = int(time.time())
        self._epoch = self._now // EPOCH_SECONDS
        self._url = f"http://127.0.0.1:{port}"
        self._policy = Policy.model_validate({**self._kit.policy.model_dump(), "accounts": ACCOUNT})
        self._recipes: list[Recipe] = []
        write_signing_key(folder / "log.key", self._kit.keys["log"])
        write_signing_key(folder / "analyst.key", self._kit.keys["analyst"])
        write_secret(folder / "collector.token", b"secret\n")
        parties = {"secure-aggregation": self._kit.parties().model_dump(mode="json")}
        (folder / "parties.json").write_text(json.dumps(parties))
        people = [{"name": "bench", "role": "approver", "key_sha256": b64url(token_digest(KEY))}]
        people.append({"name": "other", "role": "administrator", "key_sha256": b64url(token_digest(f"{KEY}-2"))})
        write_secret(folder / "people.json", json.dumps({"people": people}).encode())
        for name in ("admin", "log"):
            (folder / name).mkdir(mode=0o700)
        self._server = {
            "state_dir": str(folder / "log"),
            "listen": {"port": port},
            "log_name": self._kit.log_policy.origin,
            "log_key": str(folder / "log.key"),
            "policy": self._policy.model_dump(mode="json", exclude_none=True),
            "collector_token": str(folder / "collector.token"),
            "accept_late_directories": True,
        }
        self._admin = {
            "state_dir": str(folder / "admin"),
            "log": {"url": self._url, "key": self._kit.log_policy.log_key.encode()},
            "policy": self._policy.model_dump(mode="json", exclude_none=True),
            "parties": str(folder / "parties.json"),
            "epoch_seconds": EPOCH_SECONDS,
            "analyst_key": str(folder / "analyst.key"),
            "people": str(folder / "people.json"),
        }

    def fill(self, recipes: int, rows: int) -> Filled:
        """``recipes`` of a log of ``rows`` entries, with as many acts and ``recipes`` questions."""
        server = RecipeServerConfig.model_validate(self._server)
        admin = AdminConfig.model_validate(self._admin)
        with _Opened(SqlRecipeStore, server.database_url("recipe_server")) as engine:
            self._fill_log(engine, recipes, rows)
        with _Opened(SqlAdminStore, admin.database_url("admin")) as engine:
            _insert(engine, AUDIT, self._acts(rows))
            _insert(engine, QUESTIONS, map(self._question, self._recipes))
        paths = []
        for name, body in (("admin", self._admin), ("recipe-server", self._server)):
            paths.append(self._folder / f"{name}.json")
            paths[-1].write_text(json.dumps(body))
        return Filled(paths[0], paths[1], [one.hash_text for one in self._recipes], rows)

    def _fill_log(self, engine: sa.Engine, recipes: int, rows: int) -> None:
        with tempfile.TemporaryDirectory(dir=self._folder) as folder, engine.begin() as connection:
            tree, waiting = FileTree(Path(folder)), Rows()
            for leaf, further in self._leaves(recipes, rows):
                data, index = leaf.encode(), tree.size
                digest = hashlib.sha256(data).digest()
                entry = {"position": index, "type": leaf.type.value, "leaf": data, "digest": digest}
                waiting.setdefault(ENTRIES, []).append(entry)
                for node in nodes_of_append(tree.read, index, data):
                    row = {"level": node.level, "position": node.index, "hash": node.hash}
                    waiting.setdefault(NODES, []).append(row)
                for table, values in further:
                    position = {} if table is CHARGES else {"position": index}
                    waiting.setdefault(table, []).append({**values, **position})
                tree.append(data)
                if tree.size % BATCH == 0 or tree.size == rows:
                    for table in (ENTRIES, NODES, RECIPES, OPT_INS, CHARGES, DIRECTORIES):
                        if waiting.get(table):
                            connection.execute(sa.insert(table), waiting[table])
                    waiting.clear()
            root = Checkpoint(self._kit.log_policy.origin, tree.size, tree.root())
            note = sign_checkpoint(root, self._kit.keys["log"])
            connection.execute(sa.delete(CHECKPOINT))
            connection.execute(sa.insert(CHECKPOINT).values(only=1, size=tree.size, note=note))
            tree.close()

    def _leaves(self, recipes: int, rows: int) -> Iterator[tuple[SignedLeaf, list[tuple[sa.Table, dict[str, Any]]]]]:
        """Every entry with the rows that the recipe server keeps of it: recipes with their opt-ins spread over key sets
        of a gateway, and last the token keys of today and tomorrow."""
        plain = self._kit.ohttp_leaf()
        others = rows - 3 * recipes - 2
        for number in range(others):
            if number * recipes // others != (number - 1) * recipes // others or not number:
                yield from self._recipe(len(self._recipes), recipes)
            body = {**plain.body, "period": number}
            yield sign_leaf(LeafType.OHTTP_CONFIG, body, plain.signer, self._kit.keys["gateway"]), []
        while len(self._recipes) < recipes:
            yield from self._recipe(len(self._recipes), recipes)
        for epoch in (self._epoch, self._epoch + 1):
            row = {"issuer": "issuer.example", "epoch": epoch, "epoch_seconds": EPOCH_SECONDS}
            yield self._kit.directory_leaf(epoch, SLOTS), [(DIRECTORIES, row)]

    def _recipe(self, number: int, recipes: int) -> Iterator[tuple[SignedLeaf, list[tuple[sa.Table, dict[str, Any]]]]]:
        if number >= recipes:
            return
        before = (recipes - number) // SLOTS
        epoch, slot = self._epoch - 1 - before, number % SLOTS
        start = epoch * EPOCH_SECONDS + slot * 3_600
        recipe = self._kit.recipe(name=f"question-{number}", epoch=epoch, slot=slot, start=start)
        self._recipes.append(recipe)
        charge = charge_of(recipe, ChargeState.PENDING)
        kept = {
            "hash": recipe.hash,
            "issuer": recipe.token.issuer,
            "epoch": epoch,
            "slot": slot,
            "ends_at": recipe.interval.end,
            "model": recipe.model,
        }
        charged = {
            "recipe_hash": recipe.hash,
            "account": charge.account,
            "name": charge.name,
            "epsilon": f"{charge.cost.epsilon:f}",
            "delta": recipe.privacy.delta,
            "starts_at": charge.start,
            "ends_at": charge.end,
            "refundable": True,
            "epsilon_with_relay": f"{charge.with_relay().cost.epsilon:f}",
        }
        yield self._kit.recipe_leaf(recipe), [(RECIPES, kept), (CHARGES, charged)]
        for role in ("leader", "helper"):
            yield self._kit.opt_in_leaf(recipe, role), [(OPT_INS, {"recipe_hash": recipe.hash, "role": role})]

    def _question(self, recipe: Recipe) -> dict[str, Any]:
        survey = self._kit.survey(name=recipe.name)
        return {
            "id": recipe.hash_text[:24],
            "state": QuestionState.ENDED.value,
            "revision": 4,
            "text": text_of(survey),
            "authors": json.dumps(["somebody"]),
            "created": recipe.interval.start,
            "changed": recipe.interval.start,
            "approver": "other",
            "approval": bytes(32),
            "recipe": b"",
            "recipe_hash": recipe.hash_text,
            "leaf": b"",
            "position": None,
        }

    def _acts(self, rows: int) -> Iterator[dict[str, Any]]:
        previous = FIRST
        for number in range(1, rows + 1):
            act = Act("somebody", "question.edit", f"{number:024x}", self._now - rows + number, "loopback", "done")
            row = chained(number, previous, act)
            previous = row.hash
            yield {"number": number, "previous": row.previous, "hash": row.hash, **asdict(act)}


class _Opened:
    """A service's empty database, migrated, for bulk."""

    def __init__(self, store: Any, url: str) -> None:
        self._store = store(url)
        self._engine = sa.create_engine(url.replace("+aiosqlite", ""))

    def __enter__(self) -> sa.Engine:
        async def migrate() -> None:
            await self._store.open()
            await self._store.close()

        asyncio.run(migrate())
        return self._engine

    def __exit__(self, *_error: object) -> None:
        self._engine.dispose()


def _insert(engine: sa.Engine, table: sa.Table, rows: Iterable[dict[str, Any]]) -> None:
    waiting: list[dict[str, Any]] = []
    with engine.begin() as connection:
        for row in rows:
            waiting.append(row)
            if len(waiting) == BATCH:
                connection.execute(sa.insert(table), waiting)
                waiting = []
        if waiting:
            connection.execute(sa.insert(table), waiting)
