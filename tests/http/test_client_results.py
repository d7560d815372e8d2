"""The Python client waits for a release, reads it as tables, and listens to what happens."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from services.admin.app import create_app
from services.admin.handlers.routes import ROUTES
from services.admin.questions.followed_log import BESIDE_SECONDS
from tacit.adapters.network.http import HttpTransport
from tacit.client import (
    AsyncOperator,
    Event,
    NotFoundError,
    NotYetError,
    Operator,
    RuleError,
    UnauthorizedError,
    documents,
)
from tacit.errors import UsageError
from tacit.ports import TransportError
from tacit.recipe.model import Recipe
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.run import started
from tests.http.admin_collector import CollectorStub, access, beside
from tests.http.admin_stage import ADMIN_URL, KIT, Stage, key_of, prepared
from tests.unit.test_result_view import DOCUMENT as RESULT


class Collector(CollectorStub):
    """Releases a batch once it was looked at ``looks`` times; or refuses it by ``rule``."""

    def __init__(self) -> None:
        super().__init__()
        self.looks = 2
        self.rule = ""
        self.opt_ins_missing = 2

    def _document(self, number: int) -> dict[str, Any]:
        found = super()._document(number)
        self.looks -= 1
        if self.looks >= 0:
            return found
        if self.rule:
            return {**found, "state": "refused", "rule": self.rule, "detail": "there are 7"}
        self.released = [{**RESULT, "recipe_hash": self.asked[number], "batch": 0}]
        return {**found, "state": "released"}

    async def _ask(self, request: web.Request) -> web.Response:
        self.opt_ins_missing -= 1
        if self.opt_ins_missing >= 0:
            body = {"type": "urn:tacit:refusal:opt-in-missing", "title": "No.", "status": 409}
            return web.json_response(body, status=409, content_type="application/problem+json")
        return await super()._ask(request)


@pytest.fixture
def collector() -> Collector:
    return Collector()


@pytest.fixture
async def stage(tmp_path: Path, collector: Collector) -> AsyncIterator[Stage]:
    async with prepared(tmp_path) as running:
        await running.start(**await beside(running, collector))
        yield running


def operator_of(stage: Stage) -> AsyncOperator:
    return AsyncOperator(
        ADMIN_URL, key=key_of("analyst"), transport=stage.inner, clock=SimClock(autojump=0.001),
        entropy=SeededEntropy(7), patience=0.0,
    )  # fmt: skip


async def published(stage: Stage, analyst: AsyncOperator) -> documents.Question:
    return await analyst.questions.publish(await stage.approved())


async def opt_in(stage: Stage, question: documents.Question) -> None:
    """Let both servers opt in to the question's recipe."""
    assert question.recipe is not None
    recipe = Recipe.from_body(question.recipe)
    for role in ("leader", "helper"):
        assert (await stage.post_leaf(KIT.opt_in_leaf(recipe, role))).status == 201


async def test_a_release_is_waited_for_from_before_the_opt_ins_and_is_a_table(
    stage: Stage, collector: Collector
) -> None:
    analyst = operator_of(stage)
    question = await published(stage, analyst)
    waiting = asyncio.create_task(analyst.recipes.wait_for_release(question, 300))
    assert (await analyst.recipes.get(question)).state == "pending"
    assert collector.asked == []
    await opt_in(stage, question)
    found = await waiting
    assert (collector.asked, found[0]["recipe_hash"]) == ([question.hash], question.hash)
    assert len(found.rows()) == len(RESULT["buckets"]) == len(found.pandas()) == found.arrow().num_rows
    assert found.csv().count(b"\r\n") == 1 + len(RESULT["buckets"])
    assert found.parquet().startswith(b"PAR1")
    assert await analyst.recipes.results() == found
    (collection,) = await analyst.recipes.collections()
    assert collection.state == "released"
    shown = await analyst.recipes.get(question)
    assert (shown.filled or {})["exact"]
    assert shown.document()["yield"] == shown.filled
    assert [one.hash async for one in analyst.recipes.all()] == [question.hash]
    assert [one.type async for one in analyst.log.entries()] == ["issuer-directory"] * 2 + [
        "recipe",
        "opt-in",
        "opt-in",
    ]
    assert ((await analyst.log.checkpoint()).size, (await analyst.log.proof(2)).size) == (5, 5)
    assert isinstance(await analyst.log.ledger(), documents.Ledger)


async def test_a_release_that_does_not_come_or_is_refused_ends_the_waiting(stage: Stage, collector: Collector) -> None:
    analyst = operator_of(stage)
    question = await published(stage, analyst)
    with pytest.raises(NotYetError, match="within 20 seconds; its collection is pending"):
        await analyst.recipes.wait_for_release(question, 20)
    await opt_in(stage, question)
    collector.looks = 10**6
    with pytest.raises(NotYetError, match="is requested"):
        await analyst.recipes.wait_for_release(question, 20)
    collector.looks, collector.rule = 1, "urn:ietf:params:ppm:dap:error:invalidBatchSize"
    with pytest.raises(RuleError, match="there are 7") as refused:
        await analyst.recipes.wait_for_release(question, 20)
    assert refused.value.rule == "invalidBatchSize"
    with pytest.raises(UsageError, match="publish it"):
        await analyst.recipes.collect(await analyst.questions.create(KIT.survey()))


async def test_who_listens_is_told_what_happens_and_when_something_may_have_been_missed(stage: Stage) -> None:
    await stage.inner.unmount(ADMIN_URL)
    clock = SimClock(autojump=0.02)

    def app(number: int) -> web.Application:
        deps = ServiceEnv(stage.clock, SeededEntropy(5 + number), stage.network, background=False)
        return create_app(stage.config(**access(stage)), deps)

    heard: list[Event] = []
    port, draft = 0, None
    async with HttpTransport() as transport:
        for round_number in range(2):
            async with started(app(round_number), Listen(port=port), grace_seconds=2) as ready:
                port = int(ready.url.rsplit(":", 1)[1])
                if round_number == 0:
                    options: dict[str, Any] = {"transport": transport, "clock": clock, "entropy": SeededEntropy(3)}
                    analyst = AsyncOperator(ready.url, key=key_of("analyst"), **options)
                    events = analyst.events()
                assert await anext(events) == Event("listening")
                draft = await analyst.questions.create({"name": "visits"})
                heard.append(await anext(events))
                assert heard[-1].document == {"id": draft.id, "state": "draft", "revision": 1}
        with pytest.raises(TransportError, match="does not answer"):
            await anext(events)
        async with started(app(2), Listen(port=port), grace_seconds=2):
            stranger = AsyncOperator(analyst.url, key="tacit-nobody", **options)
            with pytest.raises(UnauthorizedError):
                await anext(stranger.events())
    assert [one.kind for one in heard] == ["question"] * 2


async def test_jobs_are_listed_and_tried_again_and_series_are_read(stage: Stage, collector: Collector) -> None:
    collector.looks, collector.opt_ins_missing = 100, 0
    analyst = operator_of(stage)
    question = await published(stage, analyst)
    collection = await analyst.recipes.collect(question)
    (job,) = [one async for one in analyst.jobs.all() if one.kind == "collection"]
    assert (job.id, job.about, job.stuck) == (collection.id, question.hash, False)
    assert (await analyst.jobs.retry(job)).id == job.id
    with pytest.raises(NotFoundError):
        await analyst.jobs.retry("other")
    series = KIT.series()
    await stage.post_leaf(KIT.series_leaf(series))
    assert (await stage.post_leaf(KIT.recipe_leaf(KIT.round(series, 0)))).status == 201
    await stage.clock.advance(BESIDE_SECONDS)
    (found,) = [one async for one in analyst.series.all()]
    assert (found.hash, [one.index for one in found.published]) == (series.hash_text, [0])
    assert await analyst.series.get(found) == found
    assert [one async for one in analyst.series.censuses()] == []
    with pytest.raises(NotFoundError):
        await analyst.series.get("none")


METHODS = {
    "question.create": "questions.create",
    "question.list": "questions.all",
    "question.show": "questions.get",
    "question.edit": "questions.edit",
    "question.delete": "questions.delete",
    "question.check": "questions.check",
    "text.check": "questions.check_text",
    "text.design": "questions.design",
    "question.submit": "questions.submit",
    "question.approve": "questions.approve",
    "question.publish": "questions.publish",
    "question.sign": "questions.sign",
    "question.end": "questions.end",
    "recipe.list": "recipes.all",
    "recipe.show": "recipes.get",
    "result.list": "recipes.results",
    "collection.ask": "recipes.collect",
    "collection.list": "recipes.collections",
    "collection.show": "recipes.collection",
    "job.list": "jobs.all",
    "job.retry": "jobs.retry",
    "series.list": "series.all",
    "series.show": "series.get",
    "series.end": "series.end",
    "round.create": "series.draft_next",
    "plan.create": "runs.create",
    "plan.edit": "runs.edit",
    "plan.forecast": "runs.forecast",
    "run.show": "runs.get",
    "run.model": "runs.model",
    "census.list": "series.censuses",
    "ledger.show": "log.ledger",
    "keys.show": "log.keys",
    "event.stream": "events",
    "log.show": "log.checkpoint",
    "log.entries": "log.entries",
    "log.proof": "log.proof",
    "person.list": "people.all",
    "person.add": "people.add",
    "person.change": "people.change",
    "person.invite": "people.invite",
    "person.unbind": "people.unbind",
    "change.list": "people.changes",
    "change.consent": "people.consent",
    "change.refuse": "people.refuse",
    "key.list": "people.keys",
    "key.give": "people.give_key",
    "key.take": "people.take_key",
    "session.show": "session",
    "fleet.show": "fleet",
    "audit.list": "audit.all",
}
"""Operation of the API -> method of the client."""
OF_BROWSERS = {
    "session.begin", "session.end", "session.openid", "session.return", "question.assertion", "passkey.list",
    "passkey.options", "passkey.add", "passkey.take", "person.passkeys",
}  # fmt: skip
"""Signing in and out, and passkeys, of which a browser alone makes use."""


def test_every_operation_has_a_method_that_awaits_and_one_that_waits() -> None:
    assert set(METHODS) == {route.name for route in ROUTES} - OF_BROWSERS
    awaiting, waiting = AsyncOperator("http://127.0.0.1:1", key="k"), Operator("http://127.0.0.1:1", key="k")
    try:
        for path in (*METHODS.values(), "recipes.wait_for_release", "audit.verify"):
            one, other = attrgetter(path)(awaiting), attrgetter(path)(waiting)
            assert other.__doc__ == one.__doc__
            assert inspect.signature(other).parameters.keys() == inspect.signature(one).parameters.keys()
    finally:
        waiting.close()
