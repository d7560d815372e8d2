"""Every type of problem document with its status, who answers with it, and what it means."""

from __future__ import annotations

from attester.service import ATTESTATION_PROBLEM, ISSUER_PROBLEM, QUOTA_PROBLEM, TOKEN_REQUEST_PROBLEM
from infra.tools.documents.words import MADE, page, table
from recipe_server.model_files import MODEL_UNKNOWN, MODELS_FULL
from relay.service import GATEWAY_UNREACHABLE
from services.admin.base.problems import Problem
from services.gateway.service import KEY_PROBLEM, REPLAYED, TARGET_UNREACHABLE, WINDOW_AWAY, WINDOW_RESTORED
from services.gateway.targets import DATE_PROBLEM, TARGET_REFUSED
from services.leader.senders import NOT_ALLOWED
from tacit.aggregator.one_server.handlers import UNKNOWN
from tacit.errors import REFUSAL_PREFIX
from tacit.roles.batches import INTERVAL_OPEN_PROBLEM, RATE_BOUND_PROBLEM
from tacit.service.app import CLOCK, INTERNAL, UNAVAILABLE
from tacit.service.http.auth import UNAUTHORIZED
from tacit.service.http.limits import BUSY

OF_SERVICES = (
    (
        f"{REFUSAL_PREFIX}<rule>",
        "422",
        "recipe server",
        "a named rule refused a leaf ([rules](rules.md), and the log's), or a model file (`model-length`, "
        "`model-hash`)",
    ),
    (MODEL_UNKNOWN, "404", "recipe server", "no live round in the log names this model file"),
    (MODELS_FULL, "507", "recipe server", "the analyst's model files take all of its share of `model_bytes`"),
    (
        f"{REFUSAL_PREFIX}<rule>",
        "422",
        "analyzer, shuffler",
        "a report (`report-invalid`, `report-replayed`, `recipe-over`, `report-too-early`), or a release "
        "(`batch-too-small`, `rate-bound`, `recipe-void`, `bundles-incomplete`)",
    ),
    (
        RATE_BOUND_PROBLEM,
        "403",
        "leader, helper",
        "more contributions than the recipe allows for; nothing is released",
    ),
    (
        INTERVAL_OPEN_PROBLEM,
        "503",
        "leader, helper, analyzer",
        "the batch's interval is not over by this party's clock; `Retry-After`",
    ),
    (
        NOT_ALLOWED,
        "403",
        "leader",
        "the task's reports come from the recipe's shuffler alone, or the recipe names none",
    ),
    (UNKNOWN, "404", "analyzer, shuffler", "it does not serve a recipe with this hash, or not yet"),
    (ATTESTATION_PROBLEM, "403", "attester", "the attestation failed, for whatever reason"),
    (QUOTA_PROBLEM, "429", "attester", "the device already got its token for this slot"),
    (TOKEN_REQUEST_PROBLEM, "422", "attester, issuer", "no key with this id is open, or the request is malformed"),
    (ISSUER_PROBLEM, "502", "attester", "the issuer did not sign"),
    (KEY_PROBLEM, "422", "gateway, in clear", "the request is sealed to another key"),
    (
        DATE_PROBLEM,
        "400",
        "gateway, inside",
        "the date is missing, not rounded, or too far off; the answer has the gateway's date",
    ),
    (REPLAYED, "409", "gateway, inside", "this encapsulation was sent before"),
    (WINDOW_AWAY, "503", "gateway, inside", "the replay window cannot be read now; nothing was passed on"),
    (
        WINDOW_RESTORED,
        "503",
        "gateway, inside",
        "the date lies before the loss of a replay window: restored, or on a Redis with another time; `Retry-After`",
    ),
    (TARGET_REFUSED, "403", "gateway, inside", "the target is not on the allow list"),
    (TARGET_UNREACHABLE, "502, 504", "gateway, inside", "the target did not answer"),
    (GATEWAY_UNREACHABLE, "502, 504", "relay", "the gateway did not answer as a gateway does"),
    (UNAUTHORIZED, "401", "all but the relay", "a credential is missing or wrong"),
    (BUSY, "503", "all", "too much in flight, or too long a wait for a turn; `Retry-After` has a random part"),
    (
        UNAVAILABLE,
        "503",
        "all",
        "a store cannot be reached or a disk is full; the request may have had an effect; `Retry-After`, `error_id`",
    ),
    (
        CLOCK,
        "503",
        "gateway, issuer, attester, aggregators",
        "this service's clock and the time that others vouch for differ, so it gives no answer that might be final; "
        "`Retry-After`",
    ),
    (INTERNAL, "500", "all", "an internal error; an `error_id`, details only in the service's log"),
)
"""Type, statuses, who answers, meaning."""
MORE = {
    Problem.OWN_DRAFT: "Nobody who wrote any part of a question can approve it.",
    Problem.COUNTS_LATER: "They count from `counts_from` on.",
    Problem.CSRF: "`X-CSRF-Token` is missing or another session's.",
    Problem.STRAY: "This browser did not begin it, or it was completed.",
    Problem.UNBOUND: "Or to a disabled person.",
    Problem.INVITATION: "It was used or revoked, or is over.",
    Problem.PROVIDER_REFUSED: "It answered with an error.",
    Problem.PASSKEY: "It is late, for something else, or not valid.",
    Problem.PASSKEY_COUNTER: "Its counter went back.",
    Problem.APPROVAL_VOID: "Parties or policy have changed since.",
    Problem.INTERVAL_BEGAN: "The question is `missed`, and can be published again.",
    Problem.ROUND_WAITS: "The detail says why.",
    Problem.ROUND_DRAFTED: "`question` is its id.",
    Problem.CHANGE_STALE: "The person, or who asked, has changed since.",
    Problem.CHANGE_WAITS: "Of the same person, or too many.",
    Problem.CHANGED: "`If-Match` names an older text.",
    Problem.FIELD: "`field` names it.",
    Problem.USAGE: "No recipe can be made from it.",
    Problem.LOCKED_OUT: "Too many sign-ins failed; `Retry-After`.",
    Problem.EXTRA_MISSING: "`extra` names it.",
    Problem.PEER_AWAY: "`peer`: log or collector.",
}
"""What the title of a problem of the admin service leaves out."""


def problems_page() -> str:
    """The page ``problems.md``: every problem type that is not DAP's own."""
    admin = [
        (f"`{one.uri}`", str(one.value[1]), "admin", " ".join(filter(None, [one.value[2], MORE.get(one)])))
        for one in Problem
    ]
    rows = [(f"`{one[0]}`", *one[1:]) for one in OF_SERVICES]
    return page(
        "# Problem documents",
        f"{MADE} Every refusal over HTTP is an `application/problem+json` document (RFC 9457). DAP's own types "
        "(`urn:ietf:params:ppm:dap:error:*`) refuse a whole request; these are the others. The type is `about:blank` "
        "if the status alone is enough: 400 for malformed requests, 404, 405, 413, 415, 417. A request that was "
        "answered with 503 or 502 may be sent again unchanged, after `Retry-After`. A document has `taskid` only where "
        "the URL holds a well-formed task id.",
        table(("type", "status", "from", "meaning"), [*rows, *admin]),
    )
