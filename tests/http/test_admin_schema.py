"""The admin API answers whatever is sent to it as its own OpenAPI document says, and never with a fault of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS

from services.admin.handlers.routes import ROUTES
from tests.http.admin_served import Served, serving
from tests.http.admin_stage import key_of

NAMES = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "ignored_auth",
]
FEW, MANY, PATIENCE = 4, 100, 60.0
STREAM = "event.stream"
OF_WRITERS = {
    "question.create", "question.edit", "question.delete", "question.submit", "round.create", "plan.create",
    "plan.edit",
}  # fmt: skip
OPERATIONS = [route.name for route in ROUTES if route.name != STREAM]
"""All but the stream, which ends when its listener does."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("admin"), filled=True) as found:
        yield found


@pytest.fixture(scope="module")
def schema(served: Served) -> Any:
    # a body that is too large may be refused for that before anybody looks for its other faults
    statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429, "5xx"]
    config = schemathesis.Config.from_dict({"checks": {"negative_data_rejection": {"expected-statuses": statuses}}})
    return schemathesis.openapi.from_url(f"{served.url}/openapi.json", config=config)


def person_for(name: str) -> str:
    """Who sends it: the administrator, but for what only those may do who write and approve."""
    if name == "question.approve":
        return "approver"
    return "analyst" if name in OF_WRITERS else "administrator"


def assert_conforms(served: Served, schema: Any, name: str, examples: int, checks: Sequence[str] = NAMES) -> None:
    """Send ``examples`` requests that the document allows, and as many that it does not."""
    operation = next(one.ok() for one in schema.get_all_operations() if one.ok().definition.raw["operationId"] == name)
    wanted: Any = [CHECKS.get_one(one) for one in checks]
    kind = operation.path.split("/")[2]
    modes = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

    @seed(1)
    @settings(
        max_examples=2 * examples,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases, st.data())
    def send(case: schemathesis.Case[Any], data: st.DataObject) -> None:
        allowed = case.meta is not None and case.meta.generation.mode is schemathesis.GenerationMode.POSITIVE
        parts = (case.path_parameters or {}) if allowed else {}
        for part in parts:
            known = served.known.get("keys" if part == "key" else kind, [])
            if known and data.draw(st.sampled_from([True, True, True, False])):
                parts[part] = data.draw(st.sampled_from(known))
        headers = {"Authorization": f"Bearer {key_of(person_for(name))}"}
        response = case.call(base_url=served.url, headers=headers, timeout=PATIENCE)
        case.validate_response(response, checks=wanted)

    send()


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_is_one_of_the_document(served: Served, schema: Any, name: str) -> None:
    assert_conforms(served, schema, name, FEW)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("alone"), filled=True, away=True) as found:
        yield found


@pytest.mark.parametrize("name", [route.name for route in ROUTES if HTTPStatus.BAD_GATEWAY in route.problems])
def test_an_answer_for_which_another_service_is_away_is_one_of_the_document_too(
    alone: Served, schema: Any, name: str
) -> None:
    assert_conforms(alone, schema, name, FEW, checks=NAMES[1:])


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATIONS)
def test_every_answer_to_very_many_requests_is_one_of_the_document(served: Served, schema: Any, name: str) -> None:
    assert_conforms(served, schema, name, MANY)
