"""The life of a question over the admin API: two persons, entity tags, repeated requests, publishing with crashes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.network import Fault, FaultKind, matching
from infra.lab.kit.recipes import EPOCH, EPOCH_SECONDS
from services.admin.questions import publishing as steps_of
from services.admin.storage.audit import verify
from tacit.operations.publishing import send_leaf
from tacit.ports import TransportError
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.http.admin_stage import KIT, LOG_URL, ROLES, SURVEY, Stage, key_of, serving


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path) as running:
        yield running


async def test_a_question_goes_from_draft_to_an_entry_of_the_log_by_two_persons(stage: Stage) -> None:
    answer, draft = await stage.call("POST", "/v1/questions", SURVEY, status=201)
    path = f"/v1/questions/{draft['id']}"
    assert (answer.headers["location"], draft["state"], draft["authors"]) == (path, "draft", ["analyst-1"])
    assert draft["survey"]["encoder"] == {"kind": "boolean"}
    _, found = await stage.call("POST", f"{path}/check", status=200)
    assert found["accepted"]
    assert {one["rule"] for one in found["rules"]} > {"batch-floor", "claim-cap"}
    assert await stage.refused("POST", f"{path}/publish") == (409, "problem:question-state")
    await stage.call("POST", f"{path}/submit", status=200)
    assert await stage.refused("POST", f"{path}/approve") == (403, "problem:own-draft")
    assert await stage.refused("POST", f"{path}/approve", role="viewer") == (403, "problem:forbidden")
    _, approved = await stage.call("POST", f"{path}/approve", role="approver", status=200)
    assert (approved["state"], approved["approver"]) == ("approved", "approver-1")
    _, published = await stage.call("POST", f"{path}/publish", status=200)
    assert (published["state"], await stage.recipes()) == ("published", [published["hash"]])
    assert published["recipe"]["name"] == "visits"
    _, again = await stage.call("POST", f"{path}/publish", status=200)
    assert again == published
    assert (await stage.call("POST", f"{path}/end", {}, status=200))[1]["state"] == "ended"
    assert await stage.refused("PUT", path, SURVEY, headers={"If-Match": "*"}) == (409, "problem:question-state")


async def test_whoever_wrote_any_of_a_text_is_an_author_and_an_edit_takes_the_approval_back(stage: Stage) -> None:
    question = await stage.draft()
    path = f"/v1/questions/{question}"
    await stage.call("PUT", path, {**SURVEY, "population": 900}, role="approver", headers={"If-Match": '"1"'})
    await stage.call("POST", f"{path}/submit", status=200)
    for role in ("analyst", "approver"):
        assert await stage.refused("POST", f"{path}/approve", role=role) == (403, "problem:own-draft")
    other = await stage.approved(name="other")
    edited = {**SURVEY, "name": "other", "population": 1200}
    tag = (await stage.call("GET", f"/v1/questions/{other}"))[0].headers["etag"]
    _, document = await stage.call("PUT", f"/v1/questions/{other}", edited, headers={"If-Match": tag}, status=200)
    assert (document["state"], document["approver"]) == ("draft", None)
    assert await stage.refused("POST", f"/v1/questions/{other}/publish") == (409, "problem:question-state")


async def test_an_approval_holds_for_the_parties_and_the_policy_that_were_approved(stage: Stage) -> None:
    question = await stage.approved()
    await stage.start(policy=KIT.policy.model_copy(update={"min_batch_size": 150}))
    path = f"/v1/questions/{question}"
    assert await stage.refused("POST", f"{path}/publish") == (409, "problem:approval-void")
    await stage.call("POST", f"{path}/submit", status=200)
    await stage.call("POST", f"{path}/approve", role="approver", status=200)
    await stage.call("POST", f"{path}/publish", status=200)


async def test_a_text_is_changed_only_by_who_has_read_it(stage: Stage) -> None:
    question = await stage.draft()
    path = f"/v1/questions/{question}"
    assert await stage.refused("PUT", path, SURVEY) == (428, "problem:precondition")
    answer, _ = await stage.call("PUT", path, SURVEY, headers={"If-Match": '"1"'}, status=200)
    assert answer.headers["etag"] == '"2"'
    assert await stage.refused("PUT", path, SURVEY, headers={"If-Match": '"1"'}) == (412, "problem:changed")
    assert await stage.refused("POST", f"{path}/submit", headers={"If-Match": '"1"'}) == (412, "problem:changed")
    assert await stage.refused("DELETE", path) == (428, "problem:precondition")
    await stage.call("DELETE", path, headers={"If-Match": '"2"'}, status=204)
    assert await stage.refused("GET", path) == (404, "problem:not-found")


async def test_a_repeated_request_is_done_once_and_its_key_belongs_to_it(stage: Stage) -> None:
    key = {"Idempotency-Key": "one"}
    first, made = await stage.call("POST", "/v1/questions", SURVEY, headers=key, status=201)
    await stage.start()
    second, again = await stage.call("POST", "/v1/questions", SURVEY, headers=key, status=201)
    assert (made, first.headers["location"], first.headers["etag"]) == (
        again,
        second.headers["location"],
        second.headers["etag"],
    )
    other = {**SURVEY, "name": "other"}
    assert await stage.refused("POST", "/v1/questions", other, headers=key) == (422, "problem:idempotency-key")
    await stage.call("POST", "/v1/questions", SURVEY, headers=key, role="approver", status=201)
    assert len((await stage.call("GET", "/v1/questions"))[1]["questions"]) == 2
    await stage.clock.advance(8 * 86400)
    stage.admin.deps.vouched.hear("the log", stage.clock.now())
    await stage.call("POST", "/v1/questions", other, headers={"Idempotency-Key": "two"}, status=201)
    await stage.call("POST", "/v1/questions", other, headers=key, status=201)


async def test_lists_go_in_pages(stage: Stage) -> None:
    made = [await stage.draft(name=f"question-{number}") for number in range(5)]
    await stage.call("POST", f"/v1/questions/{made[2]}/submit", status=200)
    found, cursor = [], ""
    while cursor is not None:
        _, page = await stage.call("GET", f"/v1/questions?limit=2{cursor and f'&cursor={cursor}'}", role="viewer")
        found += [one["id"] for one in page["questions"]]
        cursor = page["next"]
    assert found == made
    _, page = await stage.call("GET", "/v1/questions?state=submitted")
    assert [one["id"] for one in page["questions"]] == [made[2]]
    for query in ("limit=0", "limit=201", "cursor=x", "state=none", "cursor=-1", "stat=draft", "limit=2&limit=3", "=1"):
        assert (await stage.call("GET", f"/v1/questions?{query}", status=400))[0].headers["content-type"]


async def test_a_document_that_is_no_survey_says_which_member_is_wrong(stage: Stage) -> None:
    for body, field in (
        ({**SURVEY, "population": 0}, "population"),
        ({**SURVEY, "encoder": {"kind": "none"}}, "encoder.kind"),
        ({**SURVEY, "unknown": 1}, "unknown"),
    ):
        _, problem = await stage.call("POST", "/v1/questions", body, status=422)
        assert (problem["type"], problem["field"]) == ("urn:tacit:problem:field", field)
    incomplete = await stage.draft(population=None)
    _, problem = await stage.call("POST", f"/v1/questions/{incomplete}/submit", status=422)
    assert problem["field"] == "population"
    raw = {"Authorization": f"Bearer {key_of('analyst')}", "Content-Type": "application/json"}
    url = "http://127.0.0.1:8090/v1/questions"
    for data, status in ((b"{", 400), (b"[]", 400), (b'{"a":1,"a":1}', 400), (b" " * 70000, 413), (b"", 400)):
        assert (await stage.inner.request("POST", url, headers=raw, body=data)).status == status
    assert (await stage.inner.request("POST", url, headers=raw | {"Content-Type": "text/csv"})).status == 415


async def test_who_writes_sees_what_each_way_of_asking_costs_and_nothing_is_kept(stage: Stage) -> None:
    text = {"population": 2000, "encoder": {"kind": "cells", "cells": 4}}
    _, found = await stage.call("POST", "/v1/design", text, role="viewer", status=200)
    assert found["proposal"] in found["alternatives"]
    assert found["proposal"]["available"]
    _, nothing = await stage.call("POST", "/v1/design", {**text, "population": 20}, status=200)
    assert (nothing["proposal"], nothing["refusals"][0]["rule"]) == (None, "population-too-small")
    assert await stage.refused("POST", "/v1/design", {}) == (422, "problem:field")
    _, checked = await stage.call("POST", "/v1/check", SURVEY, role="viewer", status=200)
    assert checked["accepted"]
    assert await stage.refused("POST", "/v1/check", {**SURVEY, "name": None}) == (422, "problem:field")
    assert (await stage.call("GET", "/v1/questions"))[1]["questions"] == []
    assert (await stage.call("GET", "/v1/audit"))[1]["acts"] == []


async def test_what_a_rule_refuses_is_not_published_and_says_so(stage: Stage) -> None:
    question = await stage.approved(min_batch_size=20, population=100)
    _, check = await stage.call("POST", f"/v1/questions/{question}/check", status=200)
    assert not check["accepted"]
    assert await stage.refused("POST", f"/v1/questions/{question}/publish") == (422, "refusal:batch-floor")
    assert (await stage.shown(question))["hash"] is None


@pytest.mark.parametrize("fault", [FaultKind.LOSE_REQUEST, FaultKind.LOSE_RESPONSE])
async def test_a_log_that_is_away_gets_the_same_bytes_later_and_nothing_is_half_done(
    stage: Stage, fault: FaultKind
) -> None:
    question = await stage.approved()
    path = f"/v1/questions/{question}"
    stage.network.plan = matching("/v1/leaves", Fault(fault), times=1)
    assert await stage.refused("POST", f"{path}/publish") == (503, "problem:peer-away")
    waiting = await stage.shown(question)
    assert (waiting["state"], waiting["signed"]) == ("approved", True)
    tag = (await stage.call("GET", path))[0].headers["etag"]
    assert await stage.refused("PUT", path, SURVEY, headers={"If-Match": tag}) == (409, "problem:question-state")
    admin = await stage.start()
    assert await admin.publishing.step() == 1
    done = await stage.shown(question)
    assert (done["state"], done["hash"], await stage.recipes()) == ("published", waiting["hash"], [waiting["hash"]])
    assert await admin.publishing.step() == 0
    _, acts = await stage.call("GET", "/v1/audit", status=200)
    told = [(one["who"], one["what"], one["target"], one["source"], one["outcome"]) for one in acts["acts"]]
    assert told[-1] == ("", "question.publish", question, "service", "done")


@pytest.mark.parametrize("fault", [FaultKind.LOSE_REQUEST, FaultKind.LOSE_RESPONSE])
async def test_nothing_is_sent_once_its_interval_has_begun_and_what_the_log_has_is_found_there(
    stage: Stage, fault: FaultKind
) -> None:
    question = await stage.approved()
    path = f"/v1/questions/{question}"
    stage.network.plan = matching("/v1/leaves", Fault(fault), times=1)
    assert await stage.refused("POST", f"{path}/publish") == (503, "problem:peer-away")
    waiting = await stage.shown(question)
    span = waiting["recipe"]["interval"]
    await stage.clock.advance(span["start"] - stage.clock.now())
    stage.network.partition(LOG_URL)
    with pytest.raises(TransportError):
        await stage.admin.publishing.step()
    assert await stage.shown(question) == waiting
    stage.network.heal()
    if fault is FaultKind.LOSE_REQUEST:  # one that was sent in time may still be on its way
        assert (await stage.admin.publishing.step(), await stage.shown(question)) == (0, waiting)
        await stage.clock.advance(steps_of.LANDING_SECONDS)
    with stage.admin.events.listening("somebody") as heard:
        assert await stage.admin.publishing.step() == 1
    found = await stage.shown(question)
    told = heard.get_nowait()
    assert told is not None
    assert told.document == {"id": question, "state": found["state"], "revision": found["revision"]}
    assert heard.empty()
    if fault is FaultKind.LOSE_RESPONSE:
        assert (found["state"], await stage.recipes()) == ("published", [waiting["hash"]])
        assert isinstance(found["position"], int)
        return
    assert (found["state"], found["hash"], found["signed"], await stage.recipes()) == ("missed", None, False, [])
    assert await stage.admin.publishing.step() == 0
    assert (await stage.post_leaf(KIT.directory_leaf(EPOCH + 2))).status == 201
    _, done = await stage.call("POST", f"{path}/publish", status=200)
    assert (done["state"], await stage.recipes()) == ("published", [done["hash"]])
    assert done["recipe"]["interval"]["start"] > span["start"]


async def test_whoever_publishes_too_late_hears_why_and_may_edit_offer_again_or_end(stage: Stage) -> None:
    for act, state in (("edit", "draft"), ("submit", "submitted"), ("end", "ended")):
        question = await stage.approved(name=f"late-{act}")
        path = f"/v1/questions/{question}"
        stage.network.plan = matching("/v1/leaves", Fault(FaultKind.LOSE_REQUEST), times=1)
        assert await stage.refused("POST", f"{path}/publish") == (503, "problem:peer-away")
        await stage.clock.advance((await stage.shown(question))["recipe"]["interval"]["start"] - stage.clock.now())
        assert await stage.refused("POST", f"{path}/publish") == (503, "problem:peer-away")
        await stage.clock.advance(steps_of.LANDING_SECONDS)
        assert await stage.refused("POST", f"{path}/publish") == (409, "problem:interval-began")
        tag = (await stage.call("GET", path))[0].headers["etag"]
        asked = ("PUT", path, SURVEY) if act == "edit" else ("POST", f"{path}/{act}", {})
        _, after = await stage.call(*asked, headers={"If-Match": tag}, status=200)
        assert after["state"] == state
        epoch = int(stage.clock.now() // EPOCH_SECONDS)
        assert (await stage.post_leaf(KIT.directory_leaf(epoch + 1))).status == 201


async def test_a_log_that_cannot_be_read_keeps_a_question_approved(stage: Stage) -> None:
    question = await stage.approved()
    stage.network.partition(LOG_URL)
    assert await stage.refused("POST", f"/v1/questions/{question}/publish") == (503, "problem:peer-away")
    assert (await stage.shown(question))["hash"] is None
    stage.network.heal()
    await stage.call("POST", f"/v1/questions/{question}/publish", status=200)


async def test_a_process_that_ends_at_any_step_of_publishing_goes_on_from_there(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before and after each of two writes and of the message between them; and once (0) it does not."""
    for cut in range(7):
        question = await stage.approved(name=f"cut-{cut}")
        publishing = stage.admin.publishing
        ending = Ending(cut)
        with monkeypatch.context() as patch:
            patch.setattr(publishing, "_store_state", ending.at(publishing._store_state))
            patch.setattr(steps_of, "send_leaf", ending.at(send_leaf))
            await stage.call("POST", f"/v1/questions/{question}/publish", status=500 if cut else 200)
        assert ending.passed == (cut or 6)
        await stage.start()
        _, done = await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
        assert done["state"] == "published"
        recipes = await stage.recipes()
        assert (len(recipes), recipes[-1]) == (cut + 1, done["hash"])


class Ending:
    """Ends what it wraps at the ``cut``-th of the moments before and after its calls."""

    def __init__(self, cut: int) -> None:
        self.cut = cut
        self.passed = 0

    def at(self, inner: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def step(*arguments: Any) -> Any:
            self._pass()
            found = await inner(*arguments)
            self._pass()
            return found

        return step

    def _pass(self) -> None:
        self.passed += 1
        if self.passed == self.cut:
            raise OSError("the process ends")


async def test_a_signature_may_come_from_elsewhere(stage: Stage) -> None:
    await stage.start(analyst_key=None)
    question = await stage.approved()
    path = f"/v1/questions/{question}"
    _, waiting = await stage.call("POST", f"{path}/publish", status=202)
    assert (waiting["state"], waiting["signed"], await stage.recipes()) == ("approved", False, [])
    assert (await stage.call("POST", f"{path}/publish", status=202))[1]["hash"] == waiting["hash"]
    good = sign_leaf(LeafType.RECIPE, waiting["recipe"], "analyst.example", KIT.keys["analyst"])
    forged = sign_leaf(LeafType.RECIPE, waiting["recipe"], "analyst.example", KIT.keys["leader"])
    other = sign_leaf(LeafType.RECIPE, KIT.recipe().body(), "analyst.example", KIT.keys["analyst"])
    for leaf, refusal in ((forged, (422, "problem:signature")), (other, (409, "problem:other-recipe"))):
        assert await stage.refused("POST", f"{path}/signature", {"leaf": json.loads(leaf.encode())}) == refusal
    body = {"leaf": json.loads(good.encode())}
    for _ in range(2):
        _, done = await stage.call("POST", f"{path}/signature", body, status=200)
        assert (done["state"], await stage.recipes()) == ("published", [waiting["hash"]])


async def test_a_recipe_that_waits_too_long_for_its_signature_is_placed_anew(stage: Stage) -> None:
    await stage.start(analyst_key=None)
    question = await stage.approved()
    path = f"/v1/questions/{question}/publish"
    _, first = await stage.call("POST", path, status=202)
    await stage.clock.advance(first["recipe"]["interval"]["start"] - stage.clock.now() + 1)
    assert (await stage.post_leaf(KIT.directory_leaf(first["recipe"]["token"]["epoch"] + 1))).status == 201
    _, second = await stage.call("POST", path, status=202)
    assert second["recipe"]["token"]["epoch"] == first["recipe"]["token"]["epoch"] + 1


async def test_every_act_and_refusal_stands_in_a_chain(stage: Stage) -> None:
    question = await stage.approved()
    await stage.refused("POST", f"/v1/questions/{question}/approve")
    await stage.call("POST", f"/v1/questions/{question}/publish", status=200)
    _, page = await stage.call("GET", "/v1/audit", role="administrator", status=200)
    acts = [(one["who"], one["what"], one["target"], one["outcome"]) for one in page["acts"]]
    assert acts == [
        ("analyst-1", "question.create", question, "done"),
        ("analyst-1", "question.submit", question, "done"),
        ("approver-1", "question.approve", question, "done"),
        ("analyst-1", "question.approve", question, "own-draft"),
        ("analyst-1", "question.publish", question, "done"),
    ]
    assert {one["source"] for one in page["acts"]} == {"loopback"}
    admin = await stage.start()
    chain = await verify(admin.store)
    assert (chain.rows, chain.broken) == (5, None)
    assert await stage.refused("GET", "/v1/audit", role="viewer") == (403, "problem:forbidden")


async def test_nobody_does_what_the_role_may_not(stage: Stage) -> None:
    question = await stage.draft()
    may = {
        ("POST", "/v1/questions"): {"analyst", "approver"},
        ("GET", f"/v1/questions/{question}"): set(ROLES),
        ("GET", "/v1/people"): {"administrator"},
        ("GET", "/v1/audit"): {"administrator", "analyst", "approver"},
    }
    for (method, path), allowed in may.items():
        for role in ROLES:
            answer, _ = await stage.call(method, path, SURVEY if method == "POST" else None, role=role)
            assert (answer.status < 300) == (role in allowed), (path, role, answer.status)
        assert (await stage.call(method, path, role=None))[0].status == 401
        assert (await stage.call(method, path, role="stranger"))[0].status == 401
