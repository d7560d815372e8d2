"""The recipe server: what may enter the log, and that the log is one log."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from infra.lab.kit.recipes import (
    EPOCH,
    EPOCH_SECONDS,
    KEY_PERIOD,
    KEY_ROTATION,
    NOW,
    RecipeKit,
    bad_recipes,
    changed,
)
from recipe_server.admission import KEY_SET_MARGIN
from recipe_server.app import LeafTime, create_app
from recipe_server.config import RecipeServerConfig
from recipe_server.live import LiveEntries, live_entries
from recipe_server.service import RecipeService
from recipe_server.store import RecipeStore
from tacit import __version__, media_types
from tacit.codec import b64url
from tacit.errors import Fatal, Refusal, UsageError
from tacit.logview.live import LiveLog
from tacit.logview.paged import PagedReader
from tacit.logview.signers import LeafSigners
from tacit.logview.view import Bundle, LogView
from tacit.ports import HttpResponse
from tacit.problem import problem_type
from tacit.recipe.context import Context, Stage
from tacit.rules.table import check
from tacit.service.app import CLOCK, DRIVERS, SERVICE_ENV, ServiceEnv
from tacit.service.base.secret_files import write_secret
from tacit.service.base.vouched import UNVOUCHED
from tacit.tlog.canonical import canonical_bytes
from tacit.tlog.cosignature import MAX_SKEW_SECONDS
from tacit.tlog.key_sets import KeySets
from tacit.tlog.leaves import LeafKeys, LeafType, SignedLeaf, sign_leaf
from tacit.tlog.log import MemoryTree
from tacit.tlog.merkle import leaf_hash
from tacit.tlog.pages import Head, decode_page
from tacit.tlog.statements import OptIn
from tacit.tlog.tiles import Tile, decode_bundle, tiles_of
from tests.kit.foreign import split_tile

URL = "http://127.0.0.1:8084"
JSON = {"Content-Type": media_types.JSON}
COLLECTOR = "collector-credential"
KIT = RecipeKit()
GOOD = KIT.recipe()


class Server:
    """A recipe server on a folder, reached without sockets."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = SimClock(NOW)
        self.network = InProcessTransport()

    def config(self, **changes: object) -> RecipeServerConfig:
        values: dict[str, object] = {
            "state_dir": self.folder,
            "log_name": KIT.log_policy.origin,
            "log_key": self.folder / "log.key",
            "policy": KIT.policy,
            "collector_token": self.folder / "collector.token",
            "accept_late_directories": True,
        }
        return RecipeServerConfig.model_validate(values | changes)

    async def start(self, **changes: object) -> None:
        deps = ServiceEnv(self.clock, SeededEntropy(1), self.network, background=False)
        self.app = create_app(self.config(**changes), deps)
        await self.network.mount(URL, self.app)

    async def get(self, path: str, status: int = 200) -> HttpResponse:
        response = await self.network.request("GET", URL + path)
        assert response.status == status, response.body
        return response

    async def json(self, path: str) -> Any:
        return json.loads((await self.get(path)).body)

    async def post(self, leaf: SignedLeaf | bytes) -> HttpResponse:
        body = leaf if isinstance(leaf, bytes) else leaf.encode()
        return await self.network.request("POST", f"{URL}/v1/leaves", headers=JSON, body=body)

    async def publish(self, *leaves: SignedLeaf) -> list[int]:
        indices = []
        for leaf in leaves:
            response = await self.post(leaf)
            assert response.status == 201, response.body
            indices.append(json.loads(response.body)["index"])
        return indices

    async def refused(self, leaf: SignedLeaf | bytes) -> str:
        before = (await self.get("/checkpoint")).body
        response = await self.post(leaf)
        assert response.status == 422, response.body
        assert response.headers["content-type"] == media_types.PROBLEM_JSON
        assert (await self.get("/checkpoint")).body == before
        problem = json.loads(response.body)
        assert problem["detail"]
        kind, _, rule = problem["type"].rpartition(":")
        assert kind == "urn:tacit:refusal"
        return str(rule)

    async def bundle(self) -> Bundle:
        """Fetch every live entry of the log."""
        head = Head.decode((await self.get("/v1/bundle")).body)
        pages = [(await self.get(f"/v1/bundle/{b64url(digest)}")).body for digest in head.pages]
        return Bundle(head.checkpoint, (), tuple(entry for page in pages for entry in decode_page(page)))

    async def read(self, view: LogView, signers: LeafKeys | None = None) -> LiveLog:
        """The log as a device or an aggregator reads it."""
        entries = await PagedReader(self.content).read(view, signers or LeafSigners(KIT.policy))
        return LiveLog.from_entries(entries or ())

    async def content(self, path: str) -> bytes | None:
        response = await self.network.request("GET", URL + path)
        return None if response.status == 404 else response.body

    async def result(self, body: bytes, token: str = COLLECTOR) -> HttpResponse:
        headers = {**JSON, "Authorization": f"Bearer {token}"}
        return await self.network.request("POST", f"{URL}/v1/results", headers=headers, body=body)


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    write_secret(tmp_path / "log.key", b64url(KIT.keys["log"].private).encode())
    write_secret(tmp_path / "collector.token", COLLECTOR.encode())
    running = Server(tmp_path)
    await running.start()
    yield running
    await running.network.close()


def new_view() -> LogView:
    return LogView(KIT.log_policy)


async def test_a_published_recipe_is_active_after_both_opt_ins_and_passes_the_devices_rules(server: Server) -> None:
    view = new_view()
    assert (await server.read(view)).recipes == ()
    leaves = [KIT.directory_leaf(), KIT.recipe_leaf(GOOD), KIT.ohttp_leaf()]
    assert await server.publish(*leaves) == [0, 1, 2]
    (pending,) = (await server.json("/v1/recipes"))["recipes"]
    assert (pending["state"], pending["hash"], pending["name"]) == ("pending", GOOD.hash_text, GOOD.name)
    (waiting,) = (await server.read(view)).recipes
    assert not waiting.opted_in
    await server.publish(KIT.opt_in_leaf(GOOD, "helper"), KIT.opt_in_leaf(GOOD, "leader"))
    live = await server.read(view)
    (found,) = live.recipes
    assert found.recipe == GOOD
    assert check(found.recipe, KIT.policy, live.context(found, NOW)) == []
    assert len(live.ohttp_configs) == 1
    whole = await server.json(f"/v1/recipes/{GOOD.hash_text}")
    assert whole["state"] == "active"
    assert whole["recipe"] == GOOD.body()
    assert whole["task_id"] == KIT.opt_in(GOOD, "leader").task_id
    assert {role: item["index"] for role, item in whole["opt_ins"].items()} == {"helper": 3, "leader": 4}


async def test_validly_signed_bad_recipes_are_refused_each_by_its_rule(server: Server) -> None:
    await server.publish(KIT.directory_leaf())
    for rule, recipe in bad_recipes(KIT):
        leaf = KIT.recipe_leaf(recipe)
        context = Context(Stage.PUBLISH, NOW, leaf=leaf, directory=KIT.directory())
        broken = [refusal.rule for refusal in check(recipe, KIT.policy, context)]
        answered = await server.refused(leaf)
        assert rule in broken
        signed = (name for name in broken if name in {"recipe-signature", "analyst-unknown"})
        assert answered == next(signed, broken[0])


async def test_a_recipe_needs_a_trusted_signature(server: Server) -> None:
    await server.publish(KIT.directory_leaf())
    good = KIT.recipe_leaf(GOOD)
    assert await server.refused(dataclasses.replace(good, signature=bytes(64))) == "recipe-signature"
    assert await server.refused(dataclasses.replace(good, signer="someone.example")) == "recipe-signature"
    forged = sign_leaf(LeafType.RECIPE, GOOD.body(), "analyst.example", KIT.keys["helper"])
    assert await server.refused(forged) == "recipe-signature"


async def test_a_recipe_needs_its_directory_first(server: Server) -> None:
    assert await server.refused(KIT.recipe_leaf(GOOD)) == "slot-key-missing"
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))


async def test_a_slot_belongs_to_the_first_recipe_for_ever(server: Server) -> None:
    other = KIT.recipe(name="another-question")
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    assert await server.refused(KIT.recipe_leaf(other)) == "slot-taken"
    await server.publish(KIT.recipe_leaf(KIT.recipe(name="another-question", slot=1)))


async def test_identical_bytes_are_published_once(server: Server) -> None:
    for leaf in (KIT.directory_leaf(), KIT.recipe_leaf(GOOD), KIT.opt_in_leaf(GOOD, "leader")):
        (index,) = await server.publish(leaf)
        before = (await server.get("/checkpoint")).body
        again = await server.post(leaf)
        assert (again.status, json.loads(again.body)) == (200, {"index": index})
        assert (await server.get("/checkpoint")).body == before


async def test_leaves_that_are_none_are_refused(server: Server) -> None:
    strange = sign_leaf(LeafType.RECIPE, {"version": 1}, "analyst.example", KIT.keys["analyst"])
    for wrong in (
        b"",
        b"{}",
        b"nonsense",
        KIT.recipe_leaf(GOOD).encode() + b" ",
        strange.encode(),
        sign_leaf(LeafType.OPT_IN, {}, "leader.example", KIT.keys["leader"]).encode(),
        sign_leaf(LeafType.ISSUER_DIRECTORY, {}, "issuer.example", KIT.keys["issuer"]).encode(),
        sign_leaf(LeafType.OHTTP_CONFIG, {}, "gateway.example", KIT.keys["gateway"]).encode(),
    ):
        assert await server.refused(wrong) == "leaf-malformed"
    too_large = await server.post(b"x" * 65_536)
    assert too_large.status == 413
    other_type = await server.network.request("POST", f"{URL}/v1/leaves", headers={"Content-Type": "text/plain"})
    assert other_type.status == 415


def opt_in_leaf(role: str, signer: str, key: str, **changes: str) -> SignedLeaf:
    body = OptIn.model_validate({**KIT.opt_in(GOOD, role).canonical(), **changes})
    return sign_leaf(LeafType.OPT_IN, body, signer, KIT.keys[key])


def without_key(role: str) -> SignedLeaf:
    """An opt-in as models without a DAP task have it."""
    own = ("recipe_hash", "task_id", "role")
    body = {name: value for name, value in KIT.opt_in(GOOD, role).canonical().items() if name in own}
    return sign_leaf(LeafType.OPT_IN, OptIn.model_validate(body), f"{role}.example", KIT.keys[role])


async def test_opt_ins_come_from_the_recipes_aggregators_once_each(server: Server) -> None:
    assert await server.refused(KIT.opt_in_leaf(GOOD, "leader")) == "opt-in-recipe"
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    for leaf, rule in (
        (opt_in_leaf("leader", "helper.example", "helper"), "opt-in-signer"),
        (opt_in_leaf("leader", "leader.example", "helper"), "leaf-signature"),
        (opt_in_leaf("helper", "leader.example", "leader"), "opt-in-signer"),
        (opt_in_leaf("leader", "leader.example", "leader", task_id=b64url(bytes(32))), "opt-in-mismatch"),
        (without_key("leader"), "leaf-malformed"),
    ):
        assert await server.refused(leaf) == rule
    await server.publish(KIT.opt_in_leaf(GOOD, "leader"))
    second = opt_in_leaf("leader", "leader.example", "leader", seed_id="seed-2")
    assert await server.refused(second) == "opt-in-exists"
    await server.publish(KIT.opt_in_leaf(GOOD, "helper"))


def directory_leaf(signer: str = "issuer.example", key: str = "issuer", **changes: Any) -> SignedLeaf:
    body = {**KIT.directory().canonical(), **changes}
    return sign_leaf(LeafType.ISSUER_DIRECTORY, body, signer, KIT.keys[key])


async def test_directories_come_from_known_issuers_once_per_epoch(server: Server) -> None:
    for leaf, rule in (
        (directory_leaf(signer="gateway.example"), "issuer-unknown"),
        (directory_leaf(issuer="elsewhere.example", signer="elsewhere.example"), "issuer-unknown"),
        (directory_leaf(key="gateway"), "leaf-signature"),
        (directory_leaf(keys=[{"slot": 0, "token_key": "AAAA"}]), "directory-key-invalid"),
        (directory_leaf(epoch=EPOCH - 1), "directory-over"),
    ):
        assert await server.refused(leaf) == rule
    await server.publish(KIT.directory_leaf())
    assert await server.refused(KIT.directory_leaf(slots=2)) == "directory-exists"
    assert await server.refused(directory_leaf(epoch=2 * EPOCH, epoch_seconds=3_600)) == "directory-epoch-seconds"
    await server.publish(KIT.directory_leaf(EPOCH + 1))


async def test_a_directory_comes_at_most_two_epochs_ahead_or_as_much_as_clocks_differ(server: Server) -> None:
    assert await server.refused(KIT.directory_leaf(EPOCH + 3)) == "directory-early"
    await server.publish(KIT.directory_leaf(EPOCH + 2))
    server.clock.jump((EPOCH + 1) * 86_400 - MAX_SKEW_SECONDS - server.clock.now() - 1)
    assert await server.refused(KIT.directory_leaf(EPOCH + 3)) == "directory-early"
    server.clock.jump(1)
    await server.publish(KIT.directory_leaf(EPOCH + 3))


async def test_a_log_whose_clock_contradicts_its_newest_directory_says_so_and_deletes_nothing(server: Server) -> None:
    """Behind it, its clock is wrong. After its time, the issuer may be late, and has to be let in."""
    await server.publish(KIT.directory_leaf(EPOCH + 1))
    compare = next(one for one in server.app[DRIVERS] if isinstance(one, LeafTime))
    vouched = server.app[SERVICE_ENV].vouched
    for days in (-30 * 365, -31, 70, 30 * 365):
        server.clock.set_back(-days * 86_400)
        await compare.step()
        answer = await server.network.request("GET", f"{URL}/readyz")
        assert (answer.status, b"the log's newest directory is of" in answer.body) == (503 if days < 0 else 200, True)
        assert vouched.past() == UNVOUCHED
        server.clock.set_back(days * 86_400)
        assert (await server.network.request("GET", f"{URL}/readyz")).status == 200
    assert vouched.past() < server.clock.now(), "a directory vouches for its epoch, not for the second"
    assert vouched.is_past((EPOCH - 1) * 86_400)


async def test_a_log_that_its_witness_contradicts_takes_and_refuses_nothing(server: Server) -> None:
    """What it refused for its clock would be refused for good, and a directory too early would stay."""
    vouched = server.app[SERVICE_ENV].vouched
    vouched.hear("a witness", server.clock.now())
    server.clock.set_back(-3 * 86_400)
    answer = await server.post(KIT.directory_leaf(EPOCH + 5))
    assert (answer.status, problem_type(answer.body), "retry-after" in answer.headers) == (503, CLOCK, True)
    server.clock.set_back(3 * 86_400)
    assert await server.refused(KIT.directory_leaf(EPOCH + 5)) == "directory-early"
    await server.publish(KIT.directory_leaf(EPOCH + 1))


async def test_late_directories_are_refused_where_the_configuration_says_so(server: Server) -> None:
    await server.start(accept_late_directories=False)
    for epoch in (EPOCH, EPOCH + 1):
        assert await server.refused(KIT.directory_leaf(epoch)) == "directory-late"
    await server.publish(KIT.directory_leaf(EPOCH + 2))


def key_set_leaf(signer: str = "gateway.example", key: str = "gateway", **changes: Any) -> SignedLeaf:
    body = {**KIT.ohttp_leaf().body, **changes}
    return sign_leaf(LeafType.OHTTP_CONFIG, body, signer, KIT.keys[key])


async def test_key_sets_come_from_known_gateways_and_hold_keys(server: Server) -> None:
    for leaf, rule in (
        (key_set_leaf("issuer.example", "issuer"), "gateway-unknown"),
        (key_set_leaf("other.example", gateway="other.example"), "gateway-unknown"),
        (key_set_leaf(key="issuer"), "leaf-signature"),
        (key_set_leaf(active="AAAA"), "ohttp-key-invalid"),
        (key_set_leaf(previous="AAAA"), "ohttp-key-invalid"),
        (key_set_leaf(rotation_seconds=1), "leaf-malformed"),
    ):
        assert await server.refused(leaf) == rule


async def test_a_gateway_has_one_key_set_per_period_and_publishes_it_well_ahead(server: Server) -> None:
    first = KIT.ohttp_leaf()
    active = str(first.body["active"])
    assert await server.refused(KIT.ohttp_leaf(KEY_PERIOD - 1)) == "ohttp-config-over"
    assert await server.refused(KIT.ohttp_leaf(KEY_PERIOD + 2)) == "ohttp-config-early"
    await server.publish(first)
    assert await server.refused(KIT.ohttp_leaf()) == "ohttp-config-exists"
    assert await server.refused(KIT.ohttp_leaf(KEY_PERIOD, active)) in {"ohttp-config-exists", "leaf-malformed"}
    following = KEY_PERIOD + 1
    assert await server.refused(key_set_leaf(period=following, rotation_seconds=KEY_ROTATION // 2)) == (
        "ohttp-config-rotation"
    )
    other = str(KIT.ohttp_leaf().body["active"])
    assert await server.refused(KIT.ohttp_leaf(following, other)) == "ohttp-config-previous"
    deadline = following * KEY_ROTATION - KEY_ROTATION // KEY_SET_MARGIN
    server.clock.jump(deadline - 1 - server.clock.now())
    await server.publish(KIT.ohttp_leaf(following, active))
    server.clock.jump(KEY_ROTATION + 1)
    assert await server.refused(KIT.ohttp_leaf(following + 1)) == "ohttp-config-late"
    server.clock.jump(2 * KEY_ROTATION)
    await server.publish(KIT.ohttp_leaf(following + 2))
    assert await server.refused(KIT.ohttp_leaf(following + 1)) == "ohttp-config-order"


async def test_one_of_many_key_sets_of_a_period_that_race_enters_the_log(server: Server) -> None:
    answers = await asyncio.gather(*(server.post(KIT.ohttp_leaf()) for _ in range(6)))
    assert sorted(answer.status for answer in answers) == [201, *[422] * 5]
    await server.start()
    assert await server.refused(KIT.ohttp_leaf()) == "ohttp-config-exists"


async def test_an_operator_that_names_nobody_admits_nobody(server: Server) -> None:
    await server.start(policy={})
    assert await server.refused(KIT.directory_leaf()) == "issuer-unknown"
    assert await server.refused(KIT.ohttp_leaf()) == "gateway-unknown"
    assert await server.refused(KIT.recipe_leaf(GOOD)) == "analyst-unknown"


async def test_a_restart_on_the_same_folder_keeps_the_log(server: Server) -> None:
    view = new_view()
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    await server.read(view)
    before = (await server.get("/checkpoint")).body
    await server.start()
    assert (await server.get("/checkpoint")).body == before
    await server.publish(KIT.opt_in_leaf(GOOD, "leader"))
    assert len((await server.read(view)).recipes) == 1
    assert (server.folder / "recipe_server.sqlite3").stat().st_mode & 0o077 == 0


async def test_a_log_key_that_is_not_this_logs_stops_the_start(server: Server) -> None:
    write_secret(server.folder / "log.key", b64url(KIT.keys["analyst"].private).encode())
    with pytest.raises(Fatal, match="another log or key"):
        await server.start()
    with pytest.raises(UsageError, match=r"log\.key"):
        await server.start(log_key=server.folder / "missing" / "log.key")


async def test_a_service_that_is_not_open_says_so(server: Server) -> None:
    with pytest.raises(Fatal, match="not open"):
        await RecipeService(server.config(), server.clock, RecipeStore("sqlite+aiosqlite:///:memory:")).checkpoint()


async def test_concurrent_publishes_make_one_log_without_gaps(server: Server) -> None:
    await server.publish(KIT.directory_leaf(slots=12))
    leaves = [KIT.recipe_leaf(KIT.recipe(name=f"question-{slot}", slot=slot)) for slot in range(12)]
    answers = await asyncio.gather(*(server.post(leaf) for leaf in (*leaves, *leaves)))
    assert {answer.status for answer in answers} == {200, 201}
    assert sorted(json.loads(answer.body)["index"] for answer in answers) == sorted([*range(1, 13), *range(1, 13)])
    view = new_view()
    assert len((await server.read(view)).recipes) == 12
    assert view.state.size == 13


async def test_two_recipes_racing_for_a_slot_end_with_one_owner(server: Server) -> None:
    await server.publish(KIT.directory_leaf())
    leaves = [KIT.recipe_leaf(KIT.recipe(name=f"racer-{number}")) for number in range(6)]
    answers = await asyncio.gather(*(server.post(leaf) for leaf in leaves))
    assert sorted(answer.status for answer in answers) == [201, *[422] * 5]


@pytest.mark.slow
async def test_every_tile_of_a_log_of_300_entries_verifies_against_the_checkpoint(server: Server) -> None:
    for number in range(300):
        await server.publish(KIT.directory_leaf(EPOCH + number, 1))
        server.clock.jump(86_400)
    checkpoint = KIT.log_policy.open((await server.get("/checkpoint")).body)
    assert checkpoint.size == 300
    entries: list[bytes] = []
    for tile in (Tile(None, 0), Tile(None, 1, 44)):
        response = await server.get(f"/{tile.path()}")
        entries += decode_bundle(response.body)
        assert "immutable" in response.headers["cache-control"]
    tree = MemoryTree(entries)
    assert tree.root() == checkpoint.root
    assert tiles_of(300) == [Tile(0, 0), Tile(0, 1, 44), Tile(1, 0, 1)]
    for tile in tiles_of(300):
        hashes = split_tile((await server.get(f"/{tile.path()}")).body, tile.width)
        if tile.level == 0:
            assert hashes == [leaf_hash(entry) for entry in entries[tile.index * 256 :][: tile.width]]
        else:
            assert hashes == [tree.root(256)]
    assert (await server.get(f"/{Tile(0, 1, 20).path()}")).body  # an older, narrower tile is still there
    for missing in ("/tile/0/001", "/tile/0/001.p/45", "/tile/1/000.p/2", "/tile/0/2", "/tile/x", "/tile/entries/002"):
        await server.get(missing, 404)


async def test_a_log_that_shows_another_history_is_found_out_and_never_trusted_again(
    server: Server, tmp_path: Path
) -> None:
    view = new_view()
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    await server.read(view)
    twin = Server(tmp_path / "twin")
    write_secret(twin.folder / "log.key", b64url(KIT.keys["log"].private).encode())
    await twin.start(collector_token=None)
    await twin.publish(KIT.directory_leaf(), KIT.ohttp_leaf())
    with pytest.raises(Refusal, match="log-split-view"):
        await twin.read(view)
    await twin.publish(KIT.recipe_leaf(GOOD))
    with pytest.raises(Refusal, match="log-split-view"):
        await server.read(view)
    await twin.network.close()


async def test_a_log_that_lost_entries_is_seen_as_a_rollback(server: Server, tmp_path: Path) -> None:
    view = new_view()
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    await server.read(view)
    younger = Server(tmp_path / "younger")
    write_secret(younger.folder / "log.key", b64url(KIT.keys["log"].private).encode())
    await younger.start(collector_token=None)
    await younger.publish(KIT.directory_leaf())
    with pytest.raises(Refusal, match="log-rollback"):
        await younger.read(view)
    await younger.network.close()


async def test_the_bundle_holds_what_is_live_and_nothing_else(server: Server) -> None:
    other = KIT.recipe(name="later", slot=1, start=NOW // 60 * 60 + 36_000)
    leaves = [KIT.directory_leaf(epoch) for epoch in (EPOCH, EPOCH + 1, EPOCH + 2)]
    leaves += [KIT.ohttp_leaf(), KIT.ohttp_leaf(KEY_PERIOD + 1)]
    leaves += [KIT.recipe_leaf(GOOD), KIT.opt_in_leaf(GOOD, "leader"), KIT.recipe_leaf(other)]
    await server.publish(*leaves)
    assert [entry.index for entry in (await server.bundle()).entries] == [0, 1, 3, 4, 5, 6, 7]
    server.clock.jump(3 * 3_600)
    assert [entry.index for entry in (await server.bundle()).entries] == [0, 1, 3, 4, 7]
    server.clock.jump(EPOCH_SECONDS)
    assert [entry.index for entry in (await server.bundle()).entries] == [1, 2, 3, 4]
    server.clock.jump((KEY_PERIOD + 2) * KEY_ROTATION - server.clock.now())
    assert [entry.index for entry in (await server.bundle()).entries] == [4]
    states = [item["state"] for item in (await server.json("/v1/recipes"))["recipes"]]
    assert states == ["over", "over"]


async def test_key_sets_are_shown_by_themselves_with_their_proofs_while_they_may_be_used(server: Server) -> None:
    await server.publish(KIT.directory_leaf(), KIT.ohttp_leaf(), KIT.ohttp_leaf(KEY_PERIOD + 1))
    for expected in ([1, 2], [2]):
        found = KeySets.decode((await server.get("/v1/key-sets")).body)
        bundle = Bundle(found.checkpoint, (), found.entries)
        entries = new_view().accept(bundle, LeafSigners(KIT.policy))
        assert [entry.index for entry in entries] == expected
        server.clock.jump((KEY_PERIOD + 2) * KEY_ROTATION - server.clock.now())


async def test_a_large_set_of_pages_is_shown_for_a_while_and_a_small_one_is_new_at_once(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    await server.publish(KIT.directory_leaf())
    for entries, small in ((1, 512), (2, 0), (2, 0)):
        monkeypatch.setattr("recipe_server.bundles.SMALL", small)
        assert len((await server.bundle()).entries) == entries
        await server.publish(KIT.recipe_leaf(KIT.recipe(name=f"next-{entries}-{small}", slot=await size(server))))
    server.clock.jump(1)
    assert len((await server.bundle()).entries) == 4


async def size(server: Server) -> int:
    return KIT.log_policy.open((await server.get("/checkpoint")).body).size


async def test_a_directory_stays_in_the_bundle_while_a_recipe_of_its_epoch_does(server: Server) -> None:
    start = (EPOCH + 1) * EPOCH_SECONDS - 600
    late = KIT.recipe(start=start, duration=600)
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(late))
    server.clock.jump(start + 900 - NOW)
    assert [entry.index for entry in (await server.bundle()).entries] == [0, 1]


async def test_bundles_from_every_earlier_size_are_consistent(server: Server) -> None:
    states = []
    view = new_view()
    for leaf in (
        KIT.directory_leaf(),
        KIT.recipe_leaf(GOOD),
        *(KIT.directory_leaf(EPOCH + number) for number in range(1, 10)),
    ):
        await server.publish(leaf)
        await server.read(view)
        states.append(view.state)
        server.clock.jump(0 if len(states) < 3 else 86_400)
    for state in (*states, *states):
        later = LogView(KIT.log_policy, state)
        await server.read(later)
        assert later.state.size == 11
    for wrong in ("0/0", "12/0", "11/1", "-1/0", "x/0", f"{'1' * 20}/0", "%D9%A1/0"):
        await server.get(f"/v1/hashes/{wrong}", 404)
    for wrong in ("AAAA", "x", b64url(bytes(32))):
        await server.get(f"/v1/bundle/{wrong}", 404)


async def test_answers_say_how_long_they_may_be_cached(server: Server) -> None:
    for path in ("/checkpoint", "/v1/bundle", "/v1/recipes", "/v1/results"):
        assert (await server.get(path)).headers["cache-control"] == "public, max-age=5"
    note = await server.get("/checkpoint")
    assert note.headers["content-type"] == "text/plain; charset=utf-8"
    assert await server.json("/healthz") == {
        "status": "ok",
        "service": "recipe_server",
        "version": __version__,
    }


async def test_lists_go_on_behind_an_index_and_unknown_recipes_are_not_found(server: Server) -> None:
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD), KIT.recipe_leaf(KIT.recipe(name="b", slot=1)))
    assert [item["name"] for item in (await server.json("/v1/recipes?after=1"))["recipes"]] == ["b"]
    for path in (f"/v1/recipes/{b64url(bytes(32))}", "/v1/recipes/x", f"/v1/results/{GOOD.hash_text}", "/v1/results/x"):
        await server.get(path, 404)


async def test_results_are_published_by_the_collector_only_and_once_per_batch(server: Server) -> None:
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    body = json.dumps({"recipe_hash": GOOD.hash_text, "batch_id": "1", "buckets": [{"estimate": 1.5}]}).encode()
    for token in ("", "wrong"):
        assert (await server.result(body, token)).status == 401
    assert (await server.result(body)).status == 201
    assert (await server.result(body)).status == 200
    other = body.replace(b"1.5", b"2.5")
    refused = await server.result(other)
    assert json.loads(refused.body)["type"] == "urn:tacit:refusal:result-exists"
    unknown = canonical_bytes({"recipe_hash": b64url(bytes(32))})
    assert json.loads((await server.result(unknown)).body)["type"] == "urn:tacit:refusal:result-recipe"
    await server.start()
    (listed,) = (await server.json("/v1/results"))["results"]
    assert listed == {"published_at": NOW, "result": json.loads(body)}
    assert (await server.json(f"/v1/results/{GOOD.hash_text}"))["results"] == [listed]
    for wrong in (b"", b"[]", b"{}", b'{"recipe_hash": "x"}', b'{"recipe_hash": NaN}', b"[" * 100_000):
        assert (await server.result(wrong)).status == 400
    odd = json.dumps({"recipe_hash": GOOD.hash_text, "batch_id": 7}).encode()
    assert (await server.result(odd)).status == 400


async def test_results_are_read_page_by_page_however_many_and_large_they_are(server: Server) -> None:
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    sizes = [3 << 20, 3 << 20, *(5000 for _ in range(300)), 3 << 20]
    for number, size in enumerate(sizes):
        text = f'{{"recipe_hash":"{GOOD.hash_text}","batch_id":"{number}","n":{number},"x":"{"x" * size}"}}'
        server.clock.jump(-1)
        assert (await server.result(text.encode())).status == 201
    for path in ("/v1/results", f"/v1/results/{GOOD.hash_text}"):
        found: list[int] = []
        after, pages = -1, 0
        while after is not None:
            answer = await server.get(f"{path}?after={after}" if after >= 0 else path)
            page = json.loads(answer.body)
            assert len(answer.body) < (4 << 20), "one result of the largest size, or many small ones"
            assert ("immutable" in answer.headers["cache-control"]) == (page["next"] is not None)
            found += [one["result"]["n"] for one in page["results"]]
            after, pages = page["next"], pages + 1
        assert found == list(range(len(sizes))), "in the order of publication, whatever the clock said"
        assert pages == 5
        for _ in range(2):
            part = await server.json(f"{path}?after=1&limit=2")
            assert ([one["result"]["n"] for one in part["results"]], part["next"]) == ([2, 3], 3)
        assert await server.json(f"{path}?after=99999") == {**part, "results": [], "next": None}
        await server.get(f"{path}?after=x", 400)


async def test_without_a_collector_credential_nobody_publishes_results(server: Server) -> None:
    await server.start(collector_token=None)
    assert (await server.result(b"{}")).status == 401


async def test_a_log_in_memory_works_the_same(server: Server) -> None:
    await server.start(storage="memory")
    await server.publish(KIT.directory_leaf(), KIT.recipe_leaf(GOOD))
    assert len((await server.read(new_view())).recipes) == 1


async def test_an_ended_recipe_is_refused(server: Server) -> None:
    await server.publish(KIT.directory_leaf())
    server.clock.jump(2 * 3_600)
    assert await server.refused(KIT.recipe_leaf(GOOD)) == "interval-over"
    moved = changed(GOOD, "interval.start", NOW + 7_200)
    await server.publish(KIT.recipe_leaf(moved))


async def test_an_answer_overtaken_by_a_publication_is_not_kept(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RecipeStore(f"sqlite+aiosqlite:///{server.folder / 'other.sqlite3'}")
    service = RecipeService(server.config(), server.clock, store)
    await service.open()
    try:
        await service.publish_leaf(KIT.directory_leaf().encode())

        async def overtaken(*arguments: Any) -> LiveEntries:
            monkeypatch.setattr("recipe_server.bundles.live_entries", live_entries)
            await service.publish_leaf(KIT.recipe_leaf(GOOD).encode())
            return await live_entries(*arguments)

        monkeypatch.setattr("recipe_server.bundles.live_entries", overtaken)
        for count in (1, 2):
            (digest,) = Head.decode(await service.head()).pages
            assert len(decode_page(service.page(digest) or b"")) == count
    finally:
        await service.close()
