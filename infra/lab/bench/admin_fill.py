"""Creates an analyst's organisation with a history: a log of many entries with recipes, and an audit log of many acts.

Every row is what the services would have written (signed leaves, hashes, chain). To save time, rows are written in bulk
into the databases while the services do not run.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy.engine import make_url

from infra.lab.kit.recipes import RecipeKit
from recipe_server.config import RecipeServerConfig
from recipe_server.schema import CHARGES, CHECKPOINT, DIRECTORIES, ENTRIES, NODES, OPT_INS, RECIPES
from recipe_server.store import RecipeStore
from services.admin.base.config import AdminConfig
from services.admin.questions.questions import text_of
from services.admin.storage.records import QuestionState
from services.admin.storage.schema import AUDIT, QUESTIONS
from services.admin.storage.store import AdminStore
from tacit.adapters.databases.sql import engine_of
from tacit.adapters.databases.stored import DatabaseStore
from tacit.codec import b64url
from tacit.errors import Fatal
from tacit.ledger.account import ChargeState
from tacit.operations.audit_chain import FIRST, row_hash
from tacit.recipe.charges import charge_of
from tacit.recipe.model import Recipe
from tacit.recipe.policy import Policy
from tacit.service.base.keys import write_signing_key
from tacit.service.base.secret_files import write_secret
from tacit.service.http.auth import token_digest
from tacit.signing import SIGNATURE_SIZE, SigningKey
from tacit.tlog.checkpoint import Checkpoint, sign_checkpoint
from tacit.tlog.leaves import LeafType, SignedLeaf, leaf_label
from tacit.tlog.log import nodes_of_append
from tacit.tlog.merkle import root_hash

BATCH: Final = 20_000
_FAST: Final = ("synchronous = OFF", "cache_size = -262144", "temp_store = MEMORY")
"""SQLite settings for a file that nobody else has open, and that may be lost in a power cut."""

ADMIN, RECIPE_SERVER = "admin", "recipe_server"
EPOCH_SECONDS: Final = 86_400
SLOTS: Final = 4
KEY: Final = "tacit-key-of-the-bench"
ACCOUNT: Final = {"default": {"epsilon": "1000", "delta": "0.001", "window_seconds": 366 * EPOCH_SECONDS}}
Values = tuple[sa.Table, dict[str, Any]]
"""A table, and the values of one row for it."""


@dataclass(frozen=True)
class Filled:
    """The configurations of both services, and the contents of the log."""

    admin: Path
    recipe_server: Path
    recipes: list[str]
    entries: int


class Filler:
    """Fills ``folder``. ``port``: port of the recipe server; ``databases``: URL of an empty database for each service,
    None if they use SQLite files."""

    def __init__(self, folder: Path, port: int, databases: Mapping[str, str] | None = None) -> None:
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
        (folder / "parties.json").write_text(json.dumps(parties), "utf-8")
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

        for name, body in ((ADMIN, self._admin), (RECIPE_SERVER, self._server)):
            if databases is not None:
                body["database_file"] = str(folder / f"{name}.url")
                write_secret(folder / f"{name}.url", databases[name].encode())

    async def fill(self, recipes: int, rows: int) -> Filled:
        """Write a log of ``rows`` entries, ``recipes`` of which are recipes, with a question for each recipe, and an
        audit log of ``rows`` acts."""
        await self._fill(recipes, rows)
        paths = []
        for name, body in ((ADMIN, self._admin), (RECIPE_SERVER, self._server)):
            paths.append(self._folder / f"{name}.json")
            paths[-1].write_text(json.dumps(body), "utf-8")
        return Filled(paths[0], paths[1], [one.hash_text for one in self._recipes], rows)

    async def _fill(self, recipes: int, rows: int) -> None:
        url = RecipeServerConfig.model_validate(self._server).database_url(RECIPE_SERVER)
        async with filling(RecipeStore(url), url) as bulk:
            await self._fill_log(bulk, recipes, rows)
        url = AdminConfig.model_validate(self._admin).database_url(ADMIN)
        async with filling(AdminStore(url), url) as bulk:
            await self._fill_acts(bulk, rows)
            for recipe in self._recipes:
                await bulk.put(QUESTIONS, self._question(recipe))

    async def _fill_log(self, bulk: Bulk, recipes: int, rows: int) -> None:
        edge: dict[int, bytes] = {}
        size = 0
        for kind, data, further in self._leaves(recipes, rows):
            await bulk.put(
                ENTRIES,
                {"position": size, "type": kind.value, "leaf": data, "digest": hashlib.sha256(data).digest()},
            )
            for node in nodes_of_append(lambda level, _: edge[level], size, data):
                edge[node.level] = node.hash
                await bulk.put(NODES, {"level": node.level, "position": node.index, "hash": node.hash})
            for table, values in further:
                await bulk.put(table, values if table is CHARGES else {**values, "position": size})
            size += 1
        root = Checkpoint(self._kit.log_policy.origin, size, root_hash(lambda level, _: edge[level], size))
        await bulk.put(CHECKPOINT, {"only": 1, "size": size, "note": sign_checkpoint(root, self._kit.keys["log"])})

    def _leaves(self, recipes: int, rows: int) -> Iterator[tuple[LeafType, bytes, list[Values]]]:
        """Yield every log entry with the rows that the recipe server keeps about it: recipes with their opt-ins, spread
        among key sets of a gateway, and finally the token keys of today and tomorrow."""
        key_set = _key_sets(self._kit.ohttp_leaf(), self._kit.keys["gateway"])
        others = rows - 3 * recipes - 2
        for number in range(others):
            if number * recipes // others != (number - 1) * recipes // others or not number:
                yield from self._recipe(len(self._recipes), recipes)
            yield LeafType.OHTTP_CONFIG, key_set(number), []
        while len(self._recipes) < recipes:
            yield from self._recipe(len(self._recipes), recipes)
        for epoch in (self._epoch, self._epoch + 1):
            row = {"issuer": "issuer.example", "epoch": epoch, "epoch_seconds": EPOCH_SECONDS}
            leaf = self._kit.directory_leaf(epoch, SLOTS)
            yield leaf.type, leaf.encode(), [(DIRECTORIES, row)]

    def _recipe(self, number: int, recipes: int) -> Iterator[tuple[LeafType, bytes, list[Values]]]:
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
            "refundable": True,
        }
        charged = {
            "recipe_hash": recipe.hash,
            "account": charge.account,
            "name": charge.name,
            "epsilon": f"{charge.cost.epsilon:f}",
            "delta": recipe.privacy.delta,
            "starts_at": charge.start,
            "ends_at": charge.end,
            "epsilon_with_relay": f"{charge.with_relay().cost.epsilon:f}",
        }
        yield LeafType.RECIPE, self._kit.recipe_leaf(recipe).encode(), [(RECIPES, kept), (CHARGES, charged)]
        for role in ("leader", "helper"):
            leaf = self._kit.opt_in_leaf(recipe, role)
            yield leaf.type, leaf.encode(), [(OPT_INS, {"recipe_hash": recipe.hash, "role": role})]

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
            "trains": False,
        }

    async def _fill_acts(self, bulk: Bulk, rows: int) -> None:
        previous = FIRST
        for number in range(1, rows + 1):
            act: dict[str, Any] = {
                "who": "somebody",
                "what": "question.edit",
                "target": f"{number:024x}",
                "at": self._now - rows + number,
                "source": "loopback",
                "outcome": "done",
                "detail": "",
            }
            own = row_hash(number, previous, act)
            await bulk.put(AUDIT, {"number": number, "previous": previous, "hash": own, **act})
            previous = own


def _key_sets(plain: SignedLeaf, key: SigningKey) -> Callable[[int], bytes]:
    """Return a function that makes the leaf of a gateway's key set for a period; ``plain`` is an example. Leaves
    differ only in period and signature, so the text around these is encoded only once. Raises ``Fatal`` if a leaf made
    in this way is not canonical."""
    signer, label = Ed25519PrivateKey.from_private_bytes(key.private), leaf_label(plain.type)
    mark, blank = 2**52 + 1, bytes(SIGNATURE_SIZE)
    pattern = SignedLeaf(plain.type, {**plain.body, "period": mark}, plain.signer, blank)
    first, found, last = pattern.encode().partition(b"%d" % mark)
    inside = pattern.body_bytes().partition(found)
    between, _, end = last.partition(b64url(blank).encode())

    def made(period: int) -> bytes:
        digits = b"%d" % period
        signature = signer.sign(label + inside[0] + digits + inside[2])
        return first + digits + between + b64url(signature).encode() + end

    leaf = SignedLeaf.decode(made(1))
    leaf.verify(key.public)
    if leaf.encode() != made(1) or leaf.body["period"] != 1:
        raise Fatal("the leaf of a key set is not canonical")
    return made


@dataclass
class Bulk:
    """An open database. ``put`` any number of rows, ``flush`` after the last."""

    driver: Any
    waiting: dict[sa.Table, tuple[tuple[str, ...], list[tuple[Any, ...]]]] = field(default_factory=dict)

    async def put(self, table: sa.Table, row: Mapping[str, Any]) -> None:
        """Add one row, with the same columns as the table's other rows."""
        _, rows = self.waiting.setdefault(table, (tuple(row), []))
        rows.append(tuple(row.values()))
        if len(rows) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        """Write the waiting rows, tables in the order in which they were first named."""
        for table, (names, rows) in self.waiting.items():
            if rows:
                await self._write(table.name, names, rows)
                rows.clear()

    async def _write(self, table: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        if hasattr(self.driver, "copy_records_to_table"):
            await self.driver.copy_records_to_table(table, records=rows, columns=names)
            return
        places = ", ".join("?" * len(names))
        statement = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"  # noqa: S608 - names of our own
        await self.driver.executemany(statement, rows)
        await self.driver.commit()


@asynccontextmanager
async def filling(store: DatabaseStore, url: str) -> AsyncIterator[Bulk]:
    """Yield the database at ``url`` for writing, after ``store`` has created, migrated and closed it."""
    await store.open()
    await store.close()
    engine = engine_of(url)
    try:
        async with engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            if make_url(url).get_backend_name() == "sqlite":
                for pragma in _FAST:
                    await driver.execute(f"PRAGMA {pragma}")
            bulk = Bulk(driver)
            yield bulk
            await bulk.flush()
    finally:
        await engine.dispose()
