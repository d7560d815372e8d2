"""Operators' APIs answer whatever is sent to them as their own OpenAPI documents say."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from schemathesis.checks import CHECKS

from infra.lab.kit.entropy import SeededEntropy
from infra.lab.kit.network import InProcessTransport
from tacit.adapters.system import SystemClock
from tacit.service import metric_names
from tacit.service.app import METRICS, ServiceEnv, add_driver, make_app
from tacit.service.base.config import Listen
from tacit.service.metrics import number_of
from tacit.service.operated import OPERATED
from tacit.service.operator_api import ROUTES, TOKENS
from tacit.service.run import started
from tests.http.test_admin_schema import FEW, MANY, NAMES, PATIENCE
from tests.kit.tokens import GivenTokens

START_SECONDS, STOP_SECONDS = 60, 30
TOKEN = "tacit-of-this-operator"


class _Work:
    async def step(self) -> int:
        return 0


@contextmanager
def serving() -> Iterator[str]:
    """A service that has every route, in a thread of its own; where its operators' API is."""
    ready, ended, found = threading.Event(), threading.Event(), list[str]()

    async def live() -> None:
        app = make_app("probe", ServiceEnv(SystemClock(), SeededEntropy(1), InProcessTransport()))
        add_driver(app, _Work(), 1.0, "working")
        app[METRICS].declare(metric_names.TOKENS)
        app[METRICS].add(TOKENS, number_of(lambda: 0))
        app[OPERATED].tokens = GivenTokens(TOKEN)
        async with started(app, Listen(), metrics=Listen(), grace_seconds=1) as told:
            found.append(str(told.metrics).removesuffix("/metrics"))
            ready.set()
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=lambda: asyncio.run(live()))
    thread.start()
    try:
        assert ready.wait(START_SECONDS)
        yield found[0]
    finally:
        ended.set()
        thread.join(STOP_SECONDS)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving() as found:
        yield found


@pytest.fixture(scope="module")
def schema(url: str) -> Any:
    return schemathesis.openapi.from_url(f"{url}/openapi.json")


def assert_conforms(url: str, schema: Any, name: str, examples: int) -> None:
    operation = next(one.ok() for one in schema.get_all_operations() if one.ok().definition.raw["operationId"] == name)
    wanted: Any = [CHECKS.get_one(one) for one in NAMES]
    known = {one.name for one in operation.query}
    for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):

        @seed(1)
        @settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(operation.as_strategy(generation_mode=mode))
        def send(case: schemathesis.Case[Any]) -> None:
            response = case.call(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE)
            sent = parse_qs(urlsplit(str(response.request.url)).query, keep_blank_values=True)
            assume(set(case.query or {}) <= known or not set(sent) <= known)  # an empty list of values is not sent
            case.validate_response(response, checks=wanted)

        if mode is schemathesis.GenerationMode.POSITIVE or operation.query or operation.path_parameters:
            send()


@pytest.mark.parametrize("name", [one.name for one in ROUTES])
def test_every_answer_is_one_of_the_document(url: str, schema: Any, name: str) -> None:
    assert_conforms(url, schema, name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", [one.name for one in ROUTES])
def test_every_answer_to_many_requests_is_one_of_the_document(url: str, schema: Any, name: str) -> None:
    assert_conforms(url, schema, name, MANY)
