"""Pages of services that are of another shape than ours end no command that shows the state of a deployment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tacit.errors import DecodeError
from tacit.media_types import JSON
from tacit.operations.calls import recipes_of
from tacit.operations.status import Deployment, ProcessAt, deployment_status, process_status, recipe_status
from tacit.ports import HttpResponse

URLS = {name: f"http://{name}" for name in ("leader", "recipe_server")}
ROW = {"task_id": "t", "recipe_hash": "h", "state": "active", "rule": ""}


@dataclass(frozen=True)
class Pages:
    """Services that answer with these documents, by the end of the path."""

    pages: Mapping[str, Any]

    async def request(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> HttpResponse:
        page = next(page for end, page in self.pages.items() if url.partition("?")[0].endswith(end))
        return HttpResponse(200, {"content-type": JSON}, json.dumps(page).encode())


@pytest.mark.parametrize("refused", [[["attester", 1, 2]], 5, "text", {"attester": "many"}, {"attester": 1e999}, None])
async def test_a_readiness_page_of_another_shape_is_one_line_of_the_status(refused: Any) -> None:
    found = await process_status(Pages({"readyz": {"refused_certificates": refused}}), "issuer", "http://issuer")
    assert not found.up
    assert found.detail == "http://issuer: refused_certificates of the answer are not counts by name"


async def test_calls_that_a_service_refused_are_counted_by_role() -> None:
    page = {"refused_certificates": {"attester": 2}, "version": "1"}
    found = await process_status(Pages({"readyz": page}), "issuer", "http://issuer")
    assert (found.up, found.ready, found.version) == (True, True, "1")
    assert found.detail == "2 calls as attester refused because the certificate has another name"


@pytest.mark.parametrize(
    "counts", [[], "text", {"distinct_nullifiers": "many"}, {"jobs": []}, {"jobs": {"failed": "x"}}]
)
async def test_a_status_page_of_another_shape_is_one_trouble_of_the_deployment(counts: Any) -> None:
    pages = Pages({
        "readyz": {}, "leader/v1/recipes": {"recipes": [ROW], "next": None},
        "recipe_server/v1/recipes": {"recipes": [], "next": None}, "/status": counts,
    })  # fmt: skip
    deployment = Deployment([ProcessAt(*one) for one in URLS.items()], URLS, {}, lambda _: "token")
    assert await recipe_status(deployment, pages, "h") is None
    (trouble,) = (await deployment_status(deployment, pages)).problems
    assert trouble.startswith("the tasks cannot be read: http://leader/v1/tasks/t/status: ")


@pytest.mark.parametrize("page", [[], {}, {"recipes": 1}, {"recipes": [], "next": "1"}, {"recipes": [], "next": -1}])
async def test_a_list_of_recipes_of_another_shape_is_refused_and_read_without_a_circle(page: Any) -> None:
    with pytest.raises(DecodeError, match=r"not a page of recipes|go in a circle"):
        await recipes_of(Pages({"recipes": page}), "http://log")
