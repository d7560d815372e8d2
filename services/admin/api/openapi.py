"""The title, the authentication schemes and the examples of the admin API. ``tacit.service.documents.openapi`` makes
the OpenAPI document from these and from the table of routes."""

from __future__ import annotations

from typing import Any, Final

from services.admin.people.people import PERMISSIONS, Permission
from services.admin.people.sign_in import CSRF_HEADER
from services.admin.storage.records import QuestionState
from tacit.extension_points import ADMIN_EXAMPLES
from tacit.service.documents.examples import HASH, MOMENT
from tacit.service.documents.openapi import About

SURVEY: Final[dict[str, Any]] = {
    "name": "doctor-visits",
    "text": "How many doctor visits in the last year?",
    "metric": "mdvis",
    "encoder": {"kind": "buckets", "edges": [0, 1, 3, 10]},
    "population": 10000,
    "rate": "0.5",
    "epsilon": "1",
}
_RULES: Final = [
    {"rule": "batch-floor", "passed": True, "detail": ""},
    {"rule": "claim", "passed": True, "detail": ""},
]
_RECIPE: Final[dict[str, Any]] = {"version": 1, "name": "doctor-visits", "model": "secure-aggregation"}
_WAY: Final[dict[str, Any]] = {
    "model": "samplable aggregation", "form": "secure-aggregation", "trust": "two servers apart",
    "randomizer": "rappor", "rate": 0.5, "batch_size": 4000, "contributions": 5000,
    "stderr": 61.2, "relative_error": 0.00612, "epsilon0": 7.05, "noise_share": None,
    "influence": {"numbers": 1, "each": 1.01, "length": None}, "epsilon_of_batch": 1.0,
    "chunk_length": 3, "upload_bytes": 352, "messages": 1, "allowed": True, "available": True,
}  # fmt: skip
_RELEASE: Final[dict[str, Any]] = {
    "name": "doctor-visits", "recipe_hash": HASH, "batch": 0, "statistic": "histogram", "report_count": 4987,
    "released_at": MOMENT, "interval": {"start": MOMENT - 3600, "duration": 3600},
    "buckets": [{"label": "0", "count": 2130, "estimate": 4312.0, "stderr": 61.2}],
    "privacy": {"epsilon": 1.0, "delta": 1e-6, "mechanism": "shuffle-fmt22", "by_adversary": {"aggregator": 0.62}},
}  # fmt: skip
_ACCOUNT: Final[dict[str, Any]] = {
    "account": "default", "epsilon": "10", "spent": "1", "remaining": "9", "recipes": [],
}  # fmt: skip
_CHANGE: Final[dict[str, Any]] = {
    "id": "5f0e3c2b1a09f8e7d6c5b4a3", "kind": "add", "state": "waiting", "person": "5f3c9a7e21d04b68",
    "name": "carol", "role": "approver", "words": "add carol as an approver", "asked_by": "3be0a2c47d91f586",
    "asked_by_name": "admin-1", "asked": MOMENT, "expires": MOMENT + 604_800, "consented_by": "",
    "consented_by_name": "", "counts_from": None, "digest": HASH,
}  # fmt: skip
EXAMPLES: Final[dict[str, Any]] = {
    **{name: one for examples in ADMIN_EXAMPLES.values() for name, one in examples.items()},
    "Survey": SURVEY,
    "survey": SURVEY,
    "CheckDocument": {
        "hash": HASH, "stage": "draft", "accepted": True, "rules": _RULES, "refusals": [], "recipe": _RECIPE,
    },
    "DesignDocument": {"proposal": _WAY, "refusals": [], "alternatives": [_WAY]},
    "SignatureBody": {
        "leaf": {"type": "recipe", "version": 1, "body": _RECIPE, "signer": "analyst", "signature": HASH * 2},
    },
    "recipe": _RECIPE,
    "CollectionBody": {"recipe": HASH},
    "results": [_RELEASE],
    "accounts": [_ACCOUNT],
    "burn_down": [{"account": "default", "days": [{"at": MOMENT, "spent": "1", "left": "9"}], "has_forecast": False}],
    "role": "approver",
    "PersonDocument": {
        "id": "5f3c9a7e21d04b68", "name": "approver-1", "role": "approver", "disabled": False, "has_password": False,
        "has_identity": False, "created": MOMENT,
    },
    "ChangeDocument": _CHANGE,
    "WaitingInvitation": {**_CHANGE, "kind": "invitation", "invitation": "the-text-of-an-invitation"},
    "authors": ["analyst-1"],
    "approver": "approver-1",
    "state": "published",
    "name": "approver-1",
    "person": "5f3c9a7e21d04b68",
    "who": "approver-1",
    "what": "question.approve",
    "SignInBody": {"key": "the-text-of-an-api-key"},
    "text/event-stream": 'event: question\ndata: {"id": "5f3c9a7e21d04b68", "state": "approved", "revision": 3}\n\n',
}  # fmt: skip


def about(cookie: str) -> About:
    """What the OpenAPI document says beside the routes. ``cookie``: the name of the session cookie."""
    return About(
        title="Tacit admin API",
        description="The analyst's organisation: its questions, their approvals and their results.",
        schemes={
            "key": {"type": "http", "scheme": "bearer", "description": "A personal API key."},
            "session": {"type": "apiKey", "in": "cookie", "name": cookie},
            "csrf": {
                "type": "apiKey",
                "in": "header",
                "name": CSRF_HEADER,
                "description": "For requests that change anything.",
            },
        },
        opening=({"key": ()}, {"session": (), "csrf": ()}),
        query={
            "state": {"type": "string", "enum": list(QuestionState)},
            "recipe": {"type": "string", "pattern": "^[A-Za-z0-9_-]{43}$"},
        },
        roles={
            role.value: ", ".join(one.value for one in Permission if one in granted)
            for role, granted in PERMISSIONS.items()
        },
        examples=EXAMPLES,
    )
