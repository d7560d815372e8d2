"""What the admin service tells of a log whose server lies: before and after a restart, and in several processes."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from infra.lab.kit.recipes import NOW, RecipeKit
from services.admin.questions.followed_log import FOLDER
from tacit.logview.folder import CHECKPOINT
from tacit.recipe.policy import WitnessLimit
from tacit.tlog.checkpoint import COSIGNATURE, Checkpoint, Note, NoteKey, sign_checkpoint
from tacit.tlog.cosignature import cosign
from tacit.tlog.leaves import SignedLeaf
from tests.http.admin_stage import KIT, LOG_URL, Stage, prepared
from tests.http.witness_world import LyingLog, hostile_leaves

UNVERIFIED = (502, "problem:log-unverified")
READS = ("/v1/log", "/v1/recipes", "/v1/ledger", "/v1/keys", "/v1/log/entries")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        yield running


def leaves(number: int) -> list[SignedLeaf]:
    """A recipe with the leader's opt-in, and others."""
    recipe = KIT.recipe()
    more = [KIT.recipe_leaf(KIT.recipe(name=f"visits-{one}", slot=one)) for one in range(1, number - 1)]
    return [KIT.recipe_leaf(recipe), KIT.opt_in_leaf(recipe, "leader"), *more]


async def serve(stage: Stage, log: LyingLog) -> LyingLog:
    await stage.inner.mount(LOG_URL, log.app())
    return log


async def names(stage: Stage) -> list[str]:
    _, page = await stage.call("GET", "/v1/recipes", status=200)
    return [one["name"] for one in page["recipes"]]


async def refusals(stage: Stage) -> str:
    """The rule by which every reading is refused."""
    for path in (*READS, f"/v1/recipes/{KIT.recipe().hash_text}"):
        assert await stage.refused("GET", path) == UNVERIFIED, path
    _, problem = await stage.call("GET", "/v1/log")
    return str(problem["detail"]).split(":")[0]


@pytest.mark.parametrize(
    ("kept", "more", "rule"),
    [(3, 0, "log-rollback"), (0, 3, "log-rollback"), (2, 2, "log-split-view"), (1, 4, "log-split-view")],
)
async def test_a_log_that_goes_back_or_splits_is_refused_also_by_the_next_process(
    stage: Stage, kept: int, more: int, rule: str
) -> None:
    right = await serve(stage, LyingLog(leaves(4)))
    await stage.start()
    assert await names(stage) == ["doctor-visits", "visits-1", "visits-2"]
    others = [KIT.recipe_leaf(KIT.recipe(name=f"other-{one}", slot=one)) for one in range(3, 3 + more)]
    await serve(stage, right.fork(kept, *others))
    await stage.clock.advance(3600)
    for _ in range(3):
        assert await refusals(stage) == rule
        await stage.start()
    right.add(KIT.recipe_leaf(KIT.recipe(name="later", slot=7)))
    await serve(stage, right)
    assert await names(stage) == ["doctor-visits", "visits-1", "visits-2", "later"]


async def test_a_process_beside_another_knows_what_that_one_was_shown(stage: Stage) -> None:
    right = await serve(stage, LyingLog(leaves(4)))
    await stage.start()
    first = stage.app
    assert await names(stage) == ["doctor-visits", "visits-1", "visits-2"]
    beside = Stage(stage.folder)
    beside.clock = stage.clock
    await serve(beside, right)
    await beside.start()
    assert [one.name for one in stage.folder.glob("log-*")], "a folder of its own"
    assert await names(beside) == await names(stage)
    await serve(beside, right.fork(3))
    await beside.start()
    assert await refusals(beside) == "log-rollback"
    await beside.inner.close()
    assert stage.app is first
    assert not list(stage.folder.glob("log-*"))


async def test_a_checkpoint_that_this_log_did_not_sign_says_nothing_of_it(stage: Stage) -> None:
    log = await serve(stage, LyingLog(leaves(2)))
    path = stage.folder / FOLDER / CHECKPOINT
    foreign = LyingLog(leaves(5))
    for content in (b"", b"x" * (1 << 20), foreign.note(key="leader"), foreign.note(origin="other.example/log")):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        await stage.start()
        assert await names(stage) == ["doctor-visits"]
        assert path.read_bytes() == log.note()


async def test_a_log_without_its_witnesses_is_not_told(stage: Stage) -> None:
    witness = NoteKey("w.example", KIT.keys["gateway"].public, COSIGNATURE)
    limit = WitnessLimit(keys=(witness.encode(),), k=1)
    log = await serve(stage, LyingLog(leaves(3)))
    await stage.start(policy=KIT.policy.model_copy(update={"witnesses": limit}))
    assert await refusals(stage) == "log-checkpoint"
    text = Note.decode(log.note()).text
    log.lines = (cosign(text, witness.name, KIT.keys["gateway"], NOW),)
    assert await names(stage) == ["doctor-visits", "visits-1"]


async def test_entries_that_nobody_can_act_on_are_told_or_refused_in_words(stage: Stage) -> None:
    for entry in hostile_leaves():
        shutil.rmtree(stage.folder / FOLDER, ignore_errors=True)  # a log of its own for each
        await serve(stage, LyingLog([*leaves(2), entry]))
        await stage.start()
        answer, document = await stage.call("GET", "/v1/recipes")
        if answer.status == 200:
            assert [one["name"] for one in document["recipes"]] == ["doctor-visits"]
        else:
            assert (answer.status, document["type"].rpartition(":")[2]) in {
                (502, "peer-answer"),
                (502, "log-unverified"),
            }


async def test_a_log_that_tells_no_pages_of_its_entries_leaves_what_was_read_and_then_says_so(stage: Stage) -> None:
    log = await serve(stage, LyingLog(leaves(4)))
    await stage.start()
    assert await names(stage) == ["doctor-visits", "visits-1", "visits-2"]
    text = Note.decode(log.note()).text
    larger = sign_checkpoint(Checkpoint(KIT.log_policy.origin, 10**15, bytes(32)), KIT.keys["log"])
    for note in (larger, larger[:-20], b"x" * (1 << 20), text.encode()):
        served = web.Application()
        served.router.add_get("/checkpoint", answering(note))
        await stage.inner.mount(LOG_URL, served)
        await stage.clock.advance(60)
        answer, problem = await stage.call("GET", "/v1/recipes")
        assert (answer.status in {502, 503}, problem["type"].startswith("urn:tacit:problem:")) == (True, True), problem
    await serve(stage, log)
    assert await names(stage) == ["doctor-visits", "visits-1", "visits-2"]


def answering(note: bytes) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A handler that always answers so."""

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=note)

    return answer


async def test_what_an_analyst_who_is_not_trusted_put_into_the_log_is_told_and_charged_as_it_stands_there(
    stage: Stage,
) -> None:
    stranger = RecipeKit(77)
    await serve(stage, LyingLog([*leaves(2), stranger.recipe_leaf(stranger.recipe(name="not-ours"))]))
    await stage.start()
    assert await names(stage) == ["doctor-visits", "not-ours"]
    _, ledger = await stage.call("GET", "/v1/ledger", status=200)
    assert [one["name"] for one in ledger["accounts"][0]["recipes"]] == ["doctor-visits", "not-ours"]
