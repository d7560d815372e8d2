"""Every resource of every service but the admin service (which describes its own): who asks for it, and what passes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from infra.base.service_calls import PUBLIC, SERVICE_CALLS
from infra.tools.documents.words import MADE, page, table

PEOPLE = frozenset({"anyone", "operator", "DAP client"})
"""Callers that are no service; devices are ``devices``."""
_JSON = "`application/json`: "
_REPORT = "`application/tacit-one-server-report`"
_LOOK = '`application/json`: `{"number": 1 to 5, "at": POSIX seconds, "tenths": 0 to 10}`'
_YIELD = f"{_JSON}`min_batch_size`; up to five `looks` (`number`, `at`, `tenths` of B with noise); `next_at`"
_RECIPES = f"{_JSON}state, and the rule that refused a recipe"
_LOCATION = "with `Location`"


@dataclass(frozen=True)
class Resource:
    """``callers`` are services, or of ``PEOPLE``; ``request`` and ``answer`` are in words."""

    service: str
    method: str
    path: str
    callers: tuple[str, ...]
    request: str
    answer: str


_ROWS: tuple[tuple[str, str, tuple[str, ...], str, str], ...] = (
    ("recipe_server", "GET /checkpoint", ("anyone", "witness", "admin"), "", "signed note: origin, size, root"),
    (
        "recipe_server",
        "GET /tile/{path}",
        ("anyone", "witness", "admin"),
        "",
        "C2SP tiles: `/tile/<L>/<N>[.p/<W>]`, `/tile/entries/<N>[.p/<W>]`",
    ),
    (
        "recipe_server",
        "GET /v1/bundle",
        ("gateway", "leader", "helper", "analyzer", "shuffler", "collector"),
        "",
        "head: checkpoint, and the SHA-256 digests of the pages (at most 96)",
    ),
    (
        "recipe_server",
        "GET /v1/bundle/{digest}",
        ("gateway", "leader", "helper", "analyzer", "shuffler", "collector"),
        "",
        "page, at most 240 KiB: live entries with their inclusion proofs, in the order of the log; immutable, kept for "
        "four trees",
    ),
    (
        "recipe_server",
        "GET /v1/hashes/{size}/{block}",
        ("gateway", "relay", "leader", "helper", "analyzer", "shuffler", "collector"),
        "",
        "leaf hashes of two blocks of 256 from `block` on, and the further hashes that a consistency proof to `size` "
        "takes from any size in there; immutable",
    ),
    (
        "recipe_server",
        "GET /v1/key-sets",
        ("relay",),
        "",
        "checkpoint, and the gateways' live key sets with their inclusion proofs",
    ),
    (
        "recipe_server",
        "POST /v1/leaves",
        ("anyone", "admin", "issuer", "gateway", "leader", "helper", "analyzer", "shuffler"),
        "a signed leaf",
        '201 `{"index"}`; 200 with the same index for bytes that the log holds already',
    ),
    ("recipe_server", "GET /v1/recipes", ("anyone", "admin"), "", f"{_JSON}recipes with state, slot and end"),
    ("recipe_server", "GET /v1/recipes/{hash}", ("anyone", "admin"), "", f"{_JSON}a recipe, its signature, its state"),
    (
        "recipe_server",
        "PUT /v1/models/{hash}",
        ("anyone", "admin"),
        "`application/octet-stream`: the model file with this SHA-256 that a live round names, with `Content-Length`",
        "201, or 200 if it is stored already",
    ),
    (
        "recipe_server",
        "GET /v1/models/{hash}/{number}",
        ("gateway",),
        "",
        "`application/octet-stream`: piece `number` of the file, from 0: 240 KiB, the last one what is left; "
        "immutable, until the rounds that name the file have been over for `ended_seconds`",
    ),
    ("recipe_server", "GET /v1/results", ("anyone",), "`?after=NUMBER&limit=N`", f"{_JSON}a page of released results"),
    ("recipe_server", "GET /v1/results/{hash}", ("anyone",), "", f"{_JSON}a page of the results of a recipe"),
    ("recipe_server", "POST /v1/results", ("collector",), "a result", "201, or 200 for the same bytes"),
    (
        "witness",
        "POST /add-checkpoint",
        ("recipe_server",),
        "`old SIZE`, consistency proof (one base64 hash per line), a blank line, the checkpoint",
        "200: the cosignature line. 400 malformed, 403 not signed by the log, 404 no log of this witness, 409 with its "
        "size (`text/x.tlog.size`) where the request begins elsewhere or has another root for that size, 422 refused",
    ),
    ("witness", "GET /key", ("anyone",), "", "its verifier key"),
    (
        "attester",
        "POST /v1/challenge",
        ("devices",),
        "empty",
        f"{_JSON}challenge, 32 opaque bytes, good once and for some minutes",
    ),
    (
        "attester",
        "POST /v1/token-requests",
        ("devices",),
        f"{_JSON}evidence, challenge, token request (259 bytes)",
        "`application/private-token-response` (256 bytes)",
    ),
    ("attester", "GET /v1/issuance", ("operator",), "", f"{_JSON}counts by epoch and slot (P15)"),
    (
        "issuer",
        "POST /token-request",
        ("attester",),
        "`application/private-token-request`",
        "`application/private-token-response`",
    ),
    (
        "issuer",
        "GET /.well-known/private-token-issuer-directory",
        ("anyone",),
        "",
        "`application/private-token-issuer-directory`",
    ),
    ("issuer", "GET /v1/issuance", ("operator",), "", f"{_JSON}counts by epoch and slot (P15)"),
    ("relay", "POST /", ("devices",), "`message/ohttp-req`", "`message/ohttp-res`"),
    ("relay", "GET /key-sets", ("devices",), "", f"{_JSON}checkpoint, key sets with their proofs"),
    (
        "gateway",
        "POST /gateway",
        ("relay",),
        "`message/ohttp-req`, byte for byte",
        "`message/ohttp-res`, byte for byte",
    ),
    (
        "gateway",
        "POST /gateway/frames",
        ("relay",),
        "`application/vnd.tacit.ohttp-req-frame`",
        "`application/vnd.tacit.ohttp-res-frame`",
    ),
    (
        "gateway",
        "GET /ohttp-keys",
        ("anyone",),
        "",
        "`application/ohttp-keys`: the active key configuration and the previous one, each behind its length in two "
        "bytes. Devices do not ask: they go by the log",
    ),
    (
        "leader",
        "POST /tasks/{task_id}/reports",
        ("gateway", "shuffler", "DAP client"),
        "`upload-req`",
        "empty, or `upload-errors`",
    ),
    (
        "leader",
        "POST /uploads",
        ("gateway",),
        "`application/vnd.tacit.upload-req-frame`: uploads for any tasks",
        "`application/vnd.tacit.upload-res-frame`",
    ),
    (
        "leader",
        "POST /tasks/{task_id}/collection_jobs",
        ("collector",),
        "`collection-job-req`",
        f"empty, or `collection-job-resp`, {_LOCATION}",
    ),
    (
        "leader",
        "GET /tasks/{task_id}/collection_jobs/{resource_id}",
        ("collector",),
        "`Prefer: wait=SECONDS`, at most 30, waits for the end",
        "empty with `Retry-After`, `collection-job-resp`, or the problem",
    ),
    ("leader", "DELETE /tasks/{task_id}/collection_jobs/{resource_id}", ("collector",), "", "empty"),
    ("leader", "GET /tasks/{task_id}/yield", ("collector",), "", _YIELD),
    ("leader", "POST /tasks/{task_id}/looks", ("shuffler",), _LOOK, "201: recorded, now or before"),
    ("leader", "GET /v1/recipes", ("operator", "collector"), "", _RECIPES),
    ("leader", "GET /v1/tasks/{task_id}/status", ("operator",), "", f"{_JSON}exact counts"),
    ("leader", "GET /hpke_config", ("DAP client",), "", "`hpke-config-list`"),
    (
        "helper",
        "POST /tasks/{task_id}/aggregation_jobs",
        ("leader",),
        "`aggregation-job-init-req`",
        f"`aggregation-job-resp`, {_LOCATION}",
    ),
    (
        "helper",
        "POST /tasks/{task_id}/aggregation_jobs/{resource_id}",
        ("leader",),
        "",
        "refused: Prio3 never continues",
    ),
    (
        "helper",
        "GET /tasks/{task_id}/aggregation_jobs/{resource_id}",
        ("leader",),
        "`?step=0`",
        "the same response again",
    ),
    ("helper", "DELETE /tasks/{task_id}/aggregation_jobs/{resource_id}", ("leader",), "", "empty"),
    (
        "helper",
        "POST /tasks/{task_id}/aggregate_shares",
        ("leader",),
        "`aggregate-share-req`",
        f"`aggregate-share`, {_LOCATION}",
    ),
    (
        "helper",
        "GET /tasks/{task_id}/aggregate_shares/{resource_id}",
        ("leader",),
        "",
        "the same response again",
    ),
    ("helper", "DELETE /tasks/{task_id}/aggregate_shares/{resource_id}", ("leader",), "", "empty"),
    ("helper", "GET /v1/recipes", ("operator",), "", f"{_RECIPES}; also with the collector's token"),
    ("helper", "GET /v1/tasks/{task_id}/status", ("operator",), "", f"{_JSON}exact counts"),
    ("helper", "GET /hpke_config", ("DAP client",), "", "`hpke-config-list`"),
    ("analyzer", "POST /recipes/{recipe_hash}/reports", ("gateway",), _REPORT, "201, empty"),
    (
        "analyzer",
        "POST /recipes/{recipe_hash}/chunks",
        ("shuffler",),
        "`application/tacit-message-chunk`",
        "201, empty",
    ),
    ("analyzer", "POST /recipes/{recipe_hash}/looks", ("shuffler",), _LOOK, "201: recorded, now or before"),
    (
        "analyzer",
        "GET /recipes/{recipe_hash}/aggregate",
        ("collector",),
        "",
        f"{_JSON}`report_count`, `values`; 503 with `Retry-After` while reports count",
    ),
    ("analyzer", "GET /recipes/{recipe_hash}/yield", ("collector",), "", _YIELD),
    ("analyzer", "GET /v1/recipes", ("operator", "collector"), "", _RECIPES),
    ("analyzer", "GET /v1/tasks/{recipe_hash}/status", ("operator",), "", f"{_JSON}exact counts"),
    ("shuffler", "POST /recipes/{recipe_hash}/reports", ("gateway",), _REPORT, "201, empty"),
    ("shuffler", "GET /v1/recipes", ("operator",), "", _RECIPES),
    ("shuffler", "GET /v1/tasks/{recipe_hash}/status", ("operator",), "", f"{_JSON}exact counts"),
    (
        "collector",
        "POST /v1/collections",
        ("operator", "admin"),
        f'{_JSON}`{{"recipe_hash": HASH}}`',
        f"{_JSON}the collection",
    ),
    ("collector", "GET /v1/collections", ("operator", "admin"), "", f"{_JSON}collections and their states"),
    ("collector", "GET /v1/collections/{id}", ("operator", "admin"), "", f"{_JSON}a collection"),
    ("collector", "POST /v1/collections/{id}/retry", ("operator", "admin"), "empty", f"{_JSON}the collection"),
    ("collector", "GET /v1/results", ("operator", "admin"), "", f"{_JSON}results, in the order of their release"),
    ("collector", "GET /v1/results/{recipe_hash}", ("operator", "admin"), "", f"{_JSON}the results of a recipe"),
    ("collector", "GET /v1/recipes", ("operator", "admin"), "", f"{_JSON}the recipes that it may collect"),
    ("collector", "GET /v1/recipes/{recipe_hash}/yield", ("operator", "admin"), "", _YIELD),
)
RESOURCES = tuple(
    Resource(service, resource.partition(" ")[0], resource.partition(" ")[2], callers, request, answer)
    for service, resource, callers, request, answer in _ROWS
)
"""Beside these every service has ``/healthz`` and ``/readyz``."""


def resources_page() -> str:
    """The page ``resources.md``: every HTTP resource by service, and who calls whom."""
    return page(
        "# Resources",
        f"{MADE} DAP messages have the media type `application/ppm-dap;message=NAME` with the names below. Whatever "
        "`GET` answers, `HEAD` answers without a body. Paths of leader, helper, analyzer and shuffler are below the "
        "URL in the recipe. Every service also has `GET /healthz` and `GET /readyz`; the admin service describes its "
        "own resources (`GET /openapi.json`), and so does the operators' API of each service.",
        "## Who calls whom",
        _legs(),
        *_sections(),
    )


def _legs() -> str:
    called: dict[str, list[str]] = {}
    for caller, service in SERVICE_CALLS:
        called.setdefault(caller, []).append(service)
    rows = [(caller, ", ".join(services)) for caller, services in called.items()]
    return table(("caller", "calls"), [*rows, ("anybody", ", ".join(PUBLIC))])


def _sections() -> Iterator[str]:
    for service in dict.fromkeys(one.service for one in RESOURCES):
        yield f"## {service}"
        yield table(
            ("resource", "for", "request", "answer"),
            [
                (f"`{one.method} {one.path}`", ", ".join(one.callers), one.request or "-", one.answer)
                for one in RESOURCES
                if one.service == service
            ],
        )
