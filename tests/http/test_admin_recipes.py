"""Recipes, yields, results, collections, accounts and the log, as the admin API tells them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS
from services.admin.questions import followed_log as reading
from services.admin.questions.followed_log import BURN_SECONDS
from tacit import media_types
from tacit.codec import b64url, unb64url
from tacit.errors import Abort
from tacit.extras import install_command
from tacit.logview.live import LiveLog
from tacit.operations.burn_down import BurnDown, burn_downs
from tacit.operations.tables import csv_bytes
from tacit.recipe.policy import Policy
from tacit.tlog.key_sets import OhttpConfig
from tacit.tlog.merkle import verify_inclusion
from tests.certificates import Authority
from tests.http.admin_collector import COLLECTOR_URL, CollectorStub, beside
from tests.http.admin_stage import KIT, LOG_URL, Stage, prepared

UNKNOWN = b64url(bytes(32))


@pytest.fixture
def collector() -> CollectorStub:
    return CollectorStub()


@pytest.fixture
async def stage(tmp_path: Path, collector: CollectorStub) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        await running.start(**await beside(running, collector))
        yield running


async def published(stage: Stage, name: str = "visits") -> str:
    question = await stage.approved(name=name)
    return str((await stage.call("POST", f"/v1/questions/{question}/publish", status=200))[1]["hash"])


async def test_a_recipe_is_shown_with_its_yield_and_the_question_that_it_came_from(
    stage: Stage, collector: CollectorStub
) -> None:
    hashes = [await published(stage, f"visits-{number}") for number in range(3)]
    elsewhere = KIT.recipe()
    assert (await stage.post_leaf(KIT.recipe_leaf(elsewhere))).status == 201
    found, cursor = [], ""
    while cursor is not None:
        _, page = await stage.call("GET", f"/v1/recipes?limit=3{cursor and f'&cursor={cursor}'}", role="viewer")
        found += page["recipes"]
        cursor = page["next"]
    assert [one["hash"] for one in found] == [*hashes, elsewhere.hash_text]
    assert [one["question_id"] is None for one in found] == [False, False, False, True]
    _, document = await stage.call("GET", f"/v1/recipes/{hashes[0]}", status=200)
    assert (document["state"], document["recipe"]["name"], document["rejections"]) == ("pending", "visits-0", None)
    told = document["yield"]
    assert (told["contributions"], told["min_batch_size"], told["exact"]) == (0, document["min_batch_size"], False)
    collector.released.append(
        {"recipe_hash": hashes[0], "report_count": 412, "released_at": 1, "name": "visits-0", "batch": 0}
    )
    _, document = await stage.call("GET", f"/v1/recipes/{hashes[0]}", status=200)
    assert (document["yield"]["contributions"], document["yield"]["exact"]) == (412, True)
    for name in (UNKNOWN, "x"):
        assert (await stage.call("GET", f"/v1/recipes/{name}"))[0].status == 404


async def test_results_are_those_of_the_collector_and_a_batch_is_asked_for(
    stage: Stage, collector: CollectorStub
) -> None:
    recipe = await published(stage)
    collector.released = [
        {"recipe_hash": one, "report_count": 400, "released_at": 1, "name": "visits", "batch": 0}
        for one in (recipe, UNKNOWN)
    ]
    assert (await stage.call("GET", f"/v1/results?recipe={recipe}"))[1] == {
        "results": collector.released[:1],
        "next": None,
    }
    assert (await stage.call("GET", "/v1/results"))[1] == {"results": collector.released, "next": None}
    key = {"Idempotency-Key": "collect"}
    for _ in range(2):
        answer, made = await stage.call("POST", "/v1/collections", {"recipe": recipe}, headers=key, status=201)
    assert (collector.asked, answer.headers["location"]) == ([recipe], "/v1/collections/c0")
    assert (await stage.call("GET", "/v1/collections/c0"))[1] == made
    assert (await stage.call("GET", "/v1/collections"))[1] == {"collections": [made], "next": None}
    assert await stage.refused("POST", "/v1/collections", {"recipe": recipe}, role="viewer") == (
        403,
        "problem:forbidden",
    )
    stage.network.partition(COLLECTOR_URL)
    assert await stage.refused("GET", "/v1/results") == (503, "problem:peer-away")
    assert (await stage.call("GET", f"/v1/recipes/{recipe}", status=200))[1]["yield"] is None
    await stage.start()
    assert await stage.refused("GET", "/v1/results") == (404, "problem:not-found")


async def test_the_ledger_and_the_log_are_read_from_every_entry_and_prove_what_they_show(stage: Stage) -> None:
    policy = KIT.policy.model_validate(
        {
            **KIT.policy.model_dump(),
            "accounts": {"default": {"epsilon": "10", "delta": "0.001", "window_seconds": 86400}},
        }
    )
    await stage.start(policy=policy)
    recipe = await published(stage)
    _, ledger = await stage.call("GET", "/v1/ledger", role="viewer", status=200)
    (account,) = ledger["accounts"]
    assert (account["account"], [one["hash"] for one in account["recipes"]]) == ("default", [recipe])
    assert 0 < float(account["spent"]) < float(account["epsilon"])
    (burnt,) = ledger["burn_down"]
    assert (burnt["account"], burnt["epsilon"], burnt["pace"]["recipes"]) == ("default", "10", 1)
    assert (burnt["days"][-1]["at"], burnt["days"][-1]["spent"] > "0") == (int(stage.clock.now()), True)
    assert set(burnt["used_up"]) == {"at", "earliest", "latest"}
    _, log = await stage.call("GET", "/v1/log", status=200)
    assert (log["size"], log["origin"]) == (3, KIT.log_policy.origin)
    _, page = await stage.call("GET", "/v1/log/entries?limit=2", status=200)
    _, rest = await stage.call("GET", f"/v1/log/entries?cursor={page['next']}", status=200)
    assert [one["type"] for one in page["entries"] + rest["entries"]] == ["issuer-directory"] * 2 + ["recipe"]
    assert (rest["entries"][0]["name"], rest["next"]) == ("visits", None)
    _, proof = await stage.call("GET", "/v1/log/entries/2/proof", status=200)
    path = [unb64url(one) for one in proof["path"]]
    verify_inclusion(unb64url(proof["leaf_hash"]), 2, 3, path, unb64url(log["root"]))
    for index in ("3", "-1", "x"):
        assert (await stage.call("GET", f"/v1/log/entries/{index}/proof"))[0].status == 404
    await published(stage, "later")
    await stage.clock.advance(60)
    assert (await stage.call("GET", "/v1/log"))[1]["size"] == 4
    _, ledger = await stage.call("GET", "/v1/ledger")
    assert ledger["burn_down"][0]["pace"]["recipes"] == 2
    stage.network.partition(LOG_URL)
    await stage.clock.advance(60)
    for place in ("/v1/ledger", "/v1/keys", "/v1/log", "/v1/recipes", f"/v1/recipes/{recipe}"):
        assert await stage.refused("GET", place) == (503, "problem:peer-away")


async def test_results_are_a_table_for_whoever_asks_for_one(
    stage: Stage, collector: CollectorStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = await published(stage)
    bucket = {"label": "yes", "count": 250, "estimate": 240.5, "stderr": 9.5}
    privacy = {"epsilon": 1.0, "delta": 0, "mechanism": "coin", "by_adversary": {}}
    whole = {"recipe_hash": recipe, "name": "=visits", "batch": 0, "report_count": 400, "released_at": 1}
    whole |= {"interval": {"start": 0, "duration": 60}, "privacy": privacy, "buckets": [bucket]}
    collector.released = [whole]
    path = f"/v1/results?recipe={recipe}"
    for place, sent in ((f"{path}&format=csv", "*/*"), (path, "application/json;q=0.5, text/csv")):
        answer, body = await stage.call("GET", place, headers={"Accept": sent}, status=200)
        assert (answer.headers["content-type"], body) == (media_types.CSV, csv_bytes([whole]))
        assert answer.headers["content-disposition"] == 'attachment; filename="results.csv"'
    answer, body = await stage.call("GET", f"{path}&format=parquet", status=200)
    assert (answer.headers["content-type"], body[:4], body[-4:]) == (media_types.PARQUET, b"PAR1", b"PAR1")
    for sent in ("", "*/*", "text/csv;q=0", "text/csv;q=0.4,*/*;q=0.5", "text/html", "text/csv;q=x"):
        assert (await stage.call("GET", path, headers={"Accept": sent}))[1] == {"results": [whole], "next": None}
    assert (await stage.call("GET", f"{path}&format=xml"))[0].status == 400
    monkeypatch.setattr("tacit.extras.importlib.util.find_spec", lambda _name: None)
    refusal, problem = await stage.call("GET", f"{path}&format=parquet", status=501)
    assert (refusal.headers["content-type"], problem["extra"]) == (media_types.PROBLEM_JSON, "operator")
    assert install_command("operator") in problem["detail"]
    del whole["privacy"]
    assert await stage.refused("GET", f"{path}&format=csv") == (502, "problem:peer-answer")


async def test_a_burn_down_is_reckoned_once_while_the_log_does_not_grow(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []

    def counted(live: LiveLog, policy: Policy, now: float) -> list[BurnDown]:
        sizes.append(len(live.recipes))
        return burn_downs(live, policy, now)

    monkeypatch.setattr(reading, "burn_downs", counted)
    await published(stage)
    for pause in (0.0, 60.0, BURN_SECONDS):
        await stage.clock.advance(pause)
        await asyncio.gather(*(stage.call("GET", "/v1/ledger", status=200) for _ in range(3)))
    assert sizes == [1, 1]
    await published(stage, "later")
    await stage.clock.advance(60)
    await stage.call("GET", "/v1/ledger", status=200)
    assert sizes == [1, 1, 2]


async def test_the_keys_that_questions_depend_on_are_told_with_their_ends(stage: Stage, tmp_path: Path) -> None:
    leaf = KIT.ohttp_leaf()
    config = leaf.body_as(OhttpConfig)
    answer = await stage.post_leaf(leaf)
    assert answer.status == 201, answer.body
    now = int(stage.clock.now())
    shown, key = Authority(tmp_path, "ca").issue("admin")
    await stage.start(listen={"tls_cert": shown, "tls_key": key})
    _, keys = await stage.call("GET", "/v1/keys", role="viewer", status=200)
    analyst = KIT.parties().analyst
    assert keys["analyst"] == [
        {
            "model": "secure-aggregation",
            "operator": analyst.operator,
            "signing_key": analyst.signing_key,
            "held": True,
        }
    ]
    assert [(one["number"], one["state"], one["end"]) for one in keys["gateway"]] == [
        (config.period, "current", config.end)
    ]
    assert [(one["number"], one["keys"], one["state"]) for one in keys["issuer"]] == [
        (EPOCH + 1, 8, "next"),
        (EPOCH, 8, "current"),
    ]
    (certificate,) = keys["certificates"]
    assert certificate["use"] == "listen"
    assert certificate["end"] > 0
    shown.write_text("none")
    await stage.clock.advance(2 * EPOCH_SECONDS)
    _, later = await stage.call("GET", "/v1/keys", status=200)
    assert (later["certificates"], {one["state"] for one in later["issuer"]}) == (
        [{"use": "listen", "end": None}],
        {"over"},
    )
    assert later["at"] == now + 2 * EPOCH_SECONDS
    await stage.start(analyst_key=None)
    _, elsewhere = await stage.call("GET", "/v1/keys", status=200)
    assert (elsewhere["analyst"][0]["held"], elsewhere["certificates"]) == (False, [])


async def test_what_another_service_does_wrong_does_not_look_like_the_callers_fault(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status, seen in ((401, 502), (403, 502), (429, 503), (500, 503), (404, 404)):

        async def fails(*_arguments: Any, status: int = status, **_options: Any) -> Any:
            raise Abort("about:blank", "no", status=status, title="no")

        with monkeypatch.context() as patch:
            patch.setattr("tacit.operations.calls.call", fails)
            assert (await stage.call("GET", "/v1/collections"))[0].status == seen


async def test_who_listens_hears_how_far_a_batch_is_filled_once_for_each_change(
    stage: Stage, collector: CollectorStub
) -> None:
    recipe = await published(stage)
    watch = next(one for one in stage.drivers() if type(one).__name__ == "YieldWatch")
    assert await watch.step() == 0
    with stage.admin.events.listening() as queue:
        assert [await watch.step() for _ in range(2)] == [1, 0]
        collector.released.append(
            {"recipe_hash": recipe, "report_count": 412, "released_at": 1, "name": "visits", "batch": 0}
        )
        assert [await watch.step() for _ in range(2)] == [1, 0]
        told = [queue.get_nowait() for _ in range(queue.qsize())]
    assert [json.loads(one.encode().decode().partition("data: ")[2])["contributions"] for one in told if one] == [
        0,
        412,
    ]


async def test_the_log_is_kept_across_starts_and_read_anew_where_the_disk_lost_some(stage: Stage) -> None:
    recipe = await published(stage)
    _, log = await stage.call("GET", "/v1/log", status=200)
    asked: list[str] = []
    inner = stage.network.request

    async def noted(method: str, url: str, **options: Any) -> Any:
        asked.append(url)
        return await inner(method, url, **options)

    stage.network.request = noted  # type: ignore[method-assign]
    for damage, reads in ((None, 0), (b"", 1), (b"x" * 10, 1), ("changed", 1)):
        await stage.inner.unmount("http://127.0.0.1:8090")
        path = stage.folder / "log" / "entries"
        if damage == "changed":
            content = bytearray(path.read_bytes())
            content[100] ^= 1
            path.write_bytes(content)
        elif isinstance(damage, bytes):
            path.write_bytes(damage)
        asked.clear()
        await stage.start()
        if damage == "changed":
            await stage.call("GET", "/v1/log", status=500)
        assert (await stage.call("GET", "/v1/log", status=200))[1] == log
        assert len([one for one in asked if "/tile/entries/" in one]) == reads
        _, ledger = await stage.call("GET", "/v1/ledger", status=200)
        assert [one["hash"] for one in ledger["accounts"][0]["recipes"]] == [recipe]
        await stage.call("GET", "/v1/log/entries/1/proof", status=200)


async def test_a_long_log_is_read_beside_requests_which_hear_how_far_it_is(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await published(stage)
    monkeypatch.setattr(reading, "WAIT_SECONDS", 0.05)
    held = asyncio.Event()
    inner = stage.network.request

    async def slow(method: str, url: str, **options: Any) -> Any:
        if "/tile/entries/" in url:
            await held.wait()
        return await inner(method, url, **options)

    stage.network.request = slow  # type: ignore[method-assign]
    assert await stage.refused("GET", "/v1/log") == (503, "problem:peer-away")
    held.set()
    monkeypatch.setattr(reading, "WAIT_SECONDS", 60)
    assert (await stage.call("GET", "/v1/log", status=200))[1]["size"] == 3
    monkeypatch.setattr(reading, "WAIT_SECONDS", 0.05)
    held.clear()
    await published(stage, "later")
    await stage.clock.advance(60)
    _, log = await stage.call("GET", "/v1/log", status=200)
    assert log["size"] == 3, "what was read before is shown until the rest is here"
    held.set()
    monkeypatch.setattr(reading, "WAIT_SECONDS", 60)
    assert (await stage.call("GET", "/v1/log", status=200))[1]["size"] == 4
