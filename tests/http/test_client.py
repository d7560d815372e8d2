"""The Python client at a real admin service: the whole way of a question, what is sent again, and what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.lab.kit.clock import SimClock
from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import LOSE_RESPONSE, FaultyTransport, matching, no_faults
from services.admin.app import create_app
from services.admin.storage.audit import record
from services.admin.storage.records import Act
from tacit.client import (
    AsyncOperator,
    AwayError,
    ChangedError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NewKey,
    NotFoundError,
    Operator,
    OwnDraftError,
    Person,
    RuleError,
    UnauthorizedError,
    documents,
)
from tacit.codec import b64url
from tacit.errors import FieldError, UsageError
from tacit.ports import HttpResponse, Transport
from tacit.recipe.writing.survey import Survey
from tacit.service.app import ServiceEnv
from tacit.service.base.config import Listen
from tacit.service.base.secret_files import write_secret
from tacit.service.run import started
from tacit.tlog.leaves import LeafType, sign_leaf
from tests.conftest import ROOT
from tests.http.admin_stage import ADMIN_URL, KIT, LOG_URL, SURVEY, Stage, key_of, serving

OTHER = {**SURVEY, "name": "other", "population": 900}


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with serving(tmp_path) as running:
        yield running


def operator_of(stage: Stage, role: str = "analyst", transport: Transport | None = None) -> AsyncOperator:
    return AsyncOperator(
        ADMIN_URL, key=key_of(role), transport=transport or stage.inner, clock=stage.clock, entropy=SeededEntropy(7),
        patience=0.0,
    )  # fmt: skip


async def test_a_question_goes_from_draft_to_the_log_by_two_persons(stage: Stage) -> None:
    analyst, approver = operator_of(stage), operator_of(stage, "approver")
    draft = await analyst.questions.create(Survey.from_body(SURVEY))
    assert (draft.state, draft.authors, draft.survey["population"]) == ("draft", ("analyst-1",), 1000)
    edited = await analyst.questions.edit(draft, OTHER)
    assert edited.survey["name"] == "other"
    with pytest.raises(ChangedError):
        await analyst.questions.submit(draft)
    checked = await analyst.questions.check(edited)
    assert checked.accepted
    assert (await analyst.questions.check_text(OTHER)).rules == checked.rules
    design = await analyst.questions.design(OTHER)
    assert design.proposal in design.alternatives
    assert {one["rule"] for one in checked.rules} > {"batch-floor", "claim-cap"}
    submitted = await analyst.questions.submit(edited)
    with pytest.raises(OwnDraftError):
        await analyst.questions.approve(submitted)
    approved = await approver.questions.approve(submitted)
    published = await analyst.questions.publish(approved)
    assert (published.state, await stage.recipes()) == ("published", [published.hash])
    assert [one.id async for one in analyst.questions.all("published")] == [draft.id]
    ended = await analyst.questions.end(published.id)
    assert (await analyst.questions.get(ended)).state == "ended"


async def test_a_recipe_is_signed_elsewhere_and_published_with_its_leaf(stage: Stage) -> None:
    await stage.start(analyst_key=None)
    analyst = operator_of(stage)
    waiting = await analyst.questions.publish(await stage.approved())
    assert (waiting.state, waiting.signed) == ("approved", False)
    assert waiting.recipe is not None
    leaf = sign_leaf(LeafType.RECIPE, waiting.recipe, "analyst.example", KIT.keys["analyst"])
    assert (await analyst.questions.sign(waiting, leaf)).state == "published"


async def test_what_is_refused_is_an_error_of_its_own_type(stage: Stage) -> None:
    analyst, viewer = operator_of(stage), operator_of(stage, "viewer")
    with pytest.raises(FieldError, match="population"):
        await analyst.questions.create({**SURVEY, "population": 0})
    with pytest.raises(NotFoundError):
        await analyst.questions.get("../people")
    with pytest.raises(ForbiddenError):
        await viewer.questions.create(SURVEY)
    with pytest.raises(InvalidError) as invalid:
        await analyst.questions.submit(await stage.draft(population=None))
    assert invalid.value.field == "population"
    with pytest.raises(ConflictError) as conflict:
        await analyst.questions.publish(await stage.draft())
    assert conflict.value.extensions["state"] == "draft"
    low = await stage.approved(min_batch_size=20, population=100)
    with pytest.raises(RuleError) as refused:
        await analyst.questions.publish(low)
    assert refused.value.rule == "batch-floor"
    assert refused.value.extensions["refusals"]
    question = await stage.approved()
    await stage.inner.unmount(LOG_URL)
    with pytest.raises(AwayError) as away:
        await analyst.questions.publish(question)
    assert away.value.extensions["peer"] == "log"
    with pytest.raises(UnauthorizedError):
        await AsyncOperator(ADMIN_URL, key="tacit-none", transport=stage.inner).session()


async def test_a_request_whose_answer_was_lost_is_done_once(stage: Stage) -> None:
    network = FaultyTransport(stage.inner)
    clock = SimClock(autojump=0.001)
    analyst = AsyncOperator(ADMIN_URL, key=key_of("analyst"), transport=network, clock=clock, entropy=SeededEntropy(7))

    def lost_once(method: str, path: str) -> None:
        network.plan = matching(path, LOSE_RESPONSE, times=1, method=method)

    lost_once("POST", "/v1/questions")
    draft = await analyst.questions.create(SURVEY)
    assert len([one async for one in analyst.questions.all()]) == 1
    lost_once("PUT", "/v1/questions")
    edited = await analyst.questions.edit(draft, OTHER)
    assert (edited.survey["name"], edited.revision) == ("other", 2)
    with pytest.raises(ChangedError):
        await analyst.questions.edit(draft, SURVEY)
    network.plan = no_faults
    await analyst.questions.delete(edited)
    await analyst.questions.delete(edited)
    assert [one async for one in analyst.questions.all()] == []
    created = [one for one in network.exchanges if one.url.endswith("/v1/questions") and one.method == "POST"]
    assert len(created) == 2


async def test_lists_are_read_page_by_page_and_only_as_far_as_wanted(stage: Stage) -> None:
    network = FaultyTransport(stage.inner)
    administrator = operator_of(stage, "administrator", network)
    async with stage.admin.store.transaction() as tx:
        for number in range(250):
            await record(tx, Act("", f"act.{number}", "", number, "loopback", "done"))
    acts = [one async for one in administrator.audit.all()]
    assert [one.number for one in acts] == list(range(1, 251))
    assert len(network.exchanges) == 3
    async for one in administrator.audit.all():
        if one.number == 5:
            break
    assert len(network.exchanges) == 4
    assert await administrator.audit.newest(3) == acts[-3:]
    assert len(network.exchanges) == 6
    assert [await administrator.audit.newest(count) for count in (1, 999)] == [acts[-1:], acts]


class Tampering:
    """A transport that shows another audit log than the service's."""

    def __init__(self, inner: Transport) -> None:
        self.inner = inner
        self.change: tuple[bytes, bytes] = (b"", b"")

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        answer = await self.inner.request(method, url, headers=headers, body=body)
        return HttpResponse(answer.status, answer.headers, answer.body.replace(*self.change))


async def test_the_audit_log_is_checked_by_whoever_reads_it(stage: Stage) -> None:
    shown = Tampering(stage.inner)
    auditor = operator_of(stage, "analyst", shown)
    await stage.approved()
    found = await auditor.audit.verify()
    assert (found.rows, found.broken, found.whole) == (3, None, True)
    await stage.draft()
    assert (await auditor.audit.verify(holds=found.newest)).holds
    shown.change = (b'"approver-1"', b'"analyst-1"')  # a name is not in the chain, the id is
    assert (await auditor.audit.verify()).whole
    shown.change = (b'"what":"question.approve"', b'"what":"question.submit"')
    assert (await auditor.audit.verify()).broken == 3
    shown.change = (b'"number":2', b'"number":3')
    assert (await auditor.audit.verify()).broken == 2
    shown.change = (b"", b"")
    changed = await auditor.audit.verify(holds=b64url(b"\x01" * 32))
    assert (changed.broken, changed.whole) == (None, False)


async def test_an_administrator_adds_people_and_gives_keys(stage: Stage) -> None:
    administrator = operator_of(stage, "administrator")
    person = await administrator.people.add("carol@example.com", "analyst")
    key = await administrator.people.give_key(person, "laptop")
    assert isinstance(person, Person)
    assert isinstance(key, NewKey)
    assert key.key is not None
    assert key.key not in repr(key)
    carol = AsyncOperator(ADMIN_URL, key=key.key, transport=stage.inner)
    assert (await carol.session()).person == person
    assert [one.label for one in await administrator.people.keys(person)] == ["laptop"]
    await administrator.people.take_key(person, key)
    await administrator.people.take_key(person, key)
    changed = await administrator.people.change(person, disabled=True)
    assert isinstance(changed, Person)
    assert changed.disabled
    assert [one.role async for one in administrator.people.all()].count("analyst") == 2
    with pytest.raises(ConflictError):
        await administrator.people.add("carol@example.com", "viewer")


def test_every_answer_keeps_members_that_the_client_does_not_know() -> None:
    answers = [one for one in vars(documents).values() if isinstance(one, type) and issubclass(one, documents.Answer)]
    assert len(answers) > 20
    for one in answers:
        assert one.model_config["extra"] == "allow", one
    key = documents.NewKey.model_validate(
        {"id": "i", "person": "p", "label": "", "created": 1, "expires": None, "key": "secret", "later": [1]}
    )
    assert "secret" not in repr(key)
    assert key.document()["later"] == [1]


class Elsewhere:
    """The stage's network for a caller in another event loop."""

    def __init__(self, inner: Transport, loop: asyncio.AbstractEventLoop) -> None:
        self.inner, self.loop = inner, loop

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        work = self.inner.request(method, url, headers=headers, body=body)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))


async def test_the_client_that_waits_does_the_same_in_a_thread_and_in_a_notebook(stage: Stage, tmp_path: Path) -> None:
    write_secret(tmp_path / "analyst.key.txt", f"{key_of('analyst')}\n".encode())
    transport = Elsewhere(stage.inner, asyncio.get_running_loop())

    def work() -> list[str]:
        key_file, entropy = tmp_path / "analyst.key.txt", SeededEntropy(8)
        with Operator(ADMIN_URL, key_file=key_file, transport=transport, entropy=entropy) as operator:
            draft = operator.questions.create(SURVEY)
            assert key_of("analyst") not in f"{operator!r} {vars(operator)} {operator._awaited._caller!r}"
            assert [one.id for one in operator.questions.all()] == [draft.id]
            with pytest.raises(OwnDraftError):
                operator.questions.approve(operator.questions.submit(draft))
            assert operator.audit.verify().whole
        with pytest.raises(UsageError, match="closed"):
            operator.session()
        operator.close()
        return [draft.state]

    assert await asyncio.to_thread(work) == ["draft"]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://admin.example", {"key": "k"}),
        ("ftp://127.0.0.1", {"key": "k"}),
        ("https://user:pass@admin.example", {"key": "k"}),
        ("https://admin.example?x=1", {"key": "k"}),
        ("https://admin.example", {}),
        ("https://admin.example", {"key": "k", "key_file": "k.txt"}),
        ("https://admin.example", {"key": "two\r\nlines"}),
        ("https://admin.example", {"key_file": "nowhere.key"}),
    ],
)
def test_what_cannot_be_used_is_said_at_once(url: str, options: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        Operator(url, **options)  # type: ignore[arg-type]


async def test_the_example_of_the_document_runs_as_printed(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "client.md").read_text(), re.DOTALL)
    await stage.inner.unmount(ADMIN_URL)
    app = create_app(stage.config(), ServiceEnv(stage.clock, SeededEntropy(5), stage.network, background=False))
    for name, role in (("analyst", "analyst"), ("approver", "approver"), ("admin", "administrator")):
        write_secret(stage.folder / f"{name}.key", key_of(role).encode())
    monkeypatch.chdir(stage.folder)
    monkeypatch.setattr("tacit.client.operator.OsEntropy", lambda: SeededEntropy(6))
    async with started(app, Listen(), grace_seconds=2) as ready:
        found: dict[str, Any] = {}
        program = "\n".join(blocks).replace("https://admin.example", ready.url)
        await asyncio.to_thread(exec, program, found)
    assert found["question"].state == "published"
    assert await stage.recipes() == [found["question"].hash]
