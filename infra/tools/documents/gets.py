"""Every resource that is read with GET: what bounds its answer, and what the answer costs, however long the history."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from infra.tools.documents.resources import RESOURCES
from infra.tools.documents.words import MADE, page, table
from services.admin.api.calls import Route
from services.admin.handlers.routes import ROUTES
from tacit.service.http.paging import MOST_LIMIT

PAGES_OF = f"`cursor`, `limit` up to {MOST_LIMIT}"
"""How lists of operators and of the admin service are read."""
_ROW, _ROWS, _MEMORY = "one row", "the rows of a page", "memory"
_HISTORY = "all rows are read, a page of them is told"
_LIST = ("a page", PAGES_OF, _ROWS)
_YIELD = ("five looks", "", "a few rows")
_COUNTS = ("counts of one task", "", "counters of one task")
_HPKE = ("one key", "", _MEMORY)
_JOB = ("one job's answer, as large as its request allows", "", _ROW)

_BOUNDS: dict[tuple[str, str], tuple[str, str, str]] = {
    ("recipe_server", "/checkpoint"): ("one note", "", _ROW),
    ("recipe_server", "/tile/{path}"): ("256 hashes or entries, immutable", "", _ROWS),
    ("recipe_server", "/v1/bundle"): ("digests of the live entries, kept for each tree", "", _MEMORY),
    ("recipe_server", "/v1/bundle/{digest}"): ("one piece of the live entries, immutable", "", _MEMORY),
    ("recipe_server", "/v1/hashes/{size}/{block}"): ("one block of hashes, immutable", "", _ROWS),
    ("recipe_server", "/v1/key-sets"): ("the live key sets, kept for each tree", "", _MEMORY),
    ("recipe_server", "/v1/recipes"): ("1,000 summaries", "`after`, `limit` up to 1,000", _ROWS),
    ("recipe_server", "/v1/recipes/{hash}"): ("one recipe with its opt-ins", "", "a few rows"),
    ("recipe_server", "/v1/models/{hash}/{number}"): ("240 KiB, immutable", "", _ROW),
    ("recipe_server", "/v1/results"): (
        "1 MiB of results, or one; immutable if another page follows",
        "`after`, `limit` up to 1,000",
        "the rows of a page, or memory",
    ),
    ("recipe_server", "/v1/results/{hash}"): (
        "1 MiB of results, or one; immutable if another page follows",
        "`after`, `limit` up to 1,000",
        "the rows of a page, or memory",
    ),
    ("witness", "/key"): ("one line", "", _MEMORY),
    ("attester", "/v1/issuance"): ("a page", PAGES_OF, _HISTORY),
    ("issuer", "/.well-known/private-token-issuer-directory"): ("the keys of the open epochs", "", _MEMORY),
    ("issuer", "/v1/issuance"): ("a page", PAGES_OF, _HISTORY),
    ("relay", "/key-sets"): ("the gateways' live key sets", "", _MEMORY),
    ("gateway", "/ohttp-keys"): ("two keys", "", _MEMORY),
    ("leader", "/tasks/{task_id}/collection_jobs/{resource_id}"): ("two aggregate shares", "", _ROW),
    ("leader", "/tasks/{task_id}/yield"): _YIELD,
    ("leader", "/v1/recipes"): _LIST,
    ("leader", "/v1/tasks/{task_id}/status"): _COUNTS,
    ("leader", "/hpke_config"): _HPKE,
    ("helper", "/tasks/{task_id}/aggregation_jobs/{resource_id}"): _JOB,
    ("helper", "/tasks/{task_id}/aggregate_shares/{resource_id}"): ("one aggregate share", "", _ROW),
    ("helper", "/v1/recipes"): _LIST,
    ("helper", "/v1/tasks/{task_id}/status"): _COUNTS,
    ("helper", "/hpke_config"): _HPKE,
    ("analyzer", "/recipes/{recipe_hash}/aggregate"): ("one aggregate", "", _ROW),
    ("analyzer", "/recipes/{recipe_hash}/yield"): _YIELD,
    ("analyzer", "/v1/recipes"): _LIST,
    ("analyzer", "/v1/tasks/{recipe_hash}/status"): _COUNTS,
    ("shuffler", "/v1/recipes"): _LIST,
    ("shuffler", "/v1/tasks/{recipe_hash}/status"): _COUNTS,
    ("collector", "/v1/collections"): _LIST,
    ("collector", "/v1/collections/{id}"): ("one collection", "", _ROW),
    ("collector", "/v1/results"): ("a page, at most 1 MiB of results, or one", PAGES_OF, _ROWS),
    ("collector", "/v1/results/{recipe_hash}"): ("a page, at most 1 MiB of results, or one", PAGES_OF, _ROWS),
    ("collector", "/v1/recipes"): ("a page", PAGES_OF, _MEMORY),
    ("collector", "/v1/recipes/{recipe_hash}/yield"): ("five looks", "", "one request to who tells them"),
}
_OF_ADMIN: dict[str, tuple[str, str]] = {
    "/v1/recipes": ("a page", "one request to the log"),
    "/v1/results": ("a page; a table that is downloaded has all", "requests to the collector, or memory"),
    "/v1/collections": ("a page", "one request to the collector"),
    "/v1/jobs": ("a page", "every collection of the collector"),
    "/v1/series": ("a page", _MEMORY),
    "/v1/censuses": ("a page", _MEMORY),
    "/v1/log/entries": ("a page", _MEMORY),
    "/v1/questions/{id}": ("one question", _ROW),
    "/v1/recipes/{hash}": ("one recipe", "one request to the log"),
    "/v1/collections/{id}": ("one collection", "one request to the collector"),
    "/v1/fleet": ("counts of the fleet", _MEMORY),
    "/v1/series/{hash}": ("one series with its rounds", _MEMORY),
    "/v1/series/{hash}/run": ("one run with its rounds", "the rows of its rounds"),
    "/v1/series/{hash}/model": ("one model file", "a file"),
    "/v1/ledger": ("the accounts of the policy", _MEMORY),
    "/v1/keys": ("the analyst's keys and the live key sets", _MEMORY),
    "/v1/events": ("a stream that keeps nothing", _MEMORY),
    "/v1/log": ("one checkpoint", _MEMORY),
    "/v1/log/entries/{index}/proof": ("64 hashes", _MEMORY),
    "/v1/people/{id}/keys": ("the keys of one person", "the rows of one person"),
    "/v1/changes": ("the changes that wait or do not count yet", "the rows of these changes"),
    "/v1/passkeys": ("one's own passkeys", "the rows of one person"),
    "/v1/people/{id}/passkeys": ("the passkeys of one person", "the rows of one person"),
    "/v1/session": ("one session", _ROW),
}


@dataclass(frozen=True)
class Get:
    """A resource, who may ask for it, what bounds its answer, how its pages are read (empty: it has none), and what
    the answer is made from."""

    service: str
    path: str
    callers: str
    bound: str
    paging: str
    cost: str


def gets() -> Iterator[Get]:
    """Every resource that is read with GET, by service. Raises ``KeyError`` for one of which nothing is stated."""
    for one in RESOURCES:
        if one.method == "GET":
            yield Get(one.service, one.path, ", ".join(one.callers), *_BOUNDS[one.service, one.path])
    for route in ROUTES:
        if route.method == "GET":
            bound, cost = _OF_ADMIN[route.path] if route.path in _OF_ADMIN else _describe_paging(route)
            who = "anyone" if route.permission is None else f"people who may {route.permission.value}"
            yield Get("admin", route.path, who, bound, PAGES_OF if route.paged else "", cost)


def _describe_paging(route: Route) -> tuple[str, str]:
    if not route.paged:
        raise KeyError(route.path)
    return "a page", _ROWS


def gets_page() -> str:
    """The page ``gets.md``: what each GET resource answers, and how its answer is bounded."""
    rows = list(gets())
    return page(
        "# What GET answers",
        f"{MADE} Lists are told page by page, so that no answer grows with history; `next` in a page says how the "
        "next one is asked for. Beside these every service has `/healthz` and `/readyz`, told from memory; the admin "
        "service has `/openapi.json` and `/docs`, made once, and the pages of its dashboard.",
        *_sections(rows),
    )


def _sections(rows: list[Get]) -> Iterator[str]:
    for service in dict.fromkeys(one.service for one in rows):
        yield f"## {service}"
        yield table(
            ("path", "for", "bound", "pages", "made from"),
            [
                (f"`{one.path}`", one.callers, one.bound, one.paging or "-", one.cost)
                for one in rows
                if one.service == service
            ],
        )
