"""The title and the authentication schemes of the admin API. ``tacit.service.documents.openapi`` makes the OpenAPI
document from these and from the table of routes."""

from __future__ import annotations

from services.admin.api.api_examples import EXAMPLES
from services.admin.people.people import PERMISSIONS, Permission
from services.admin.people.sign_in import CSRF_HEADER
from services.admin.storage.records import QuestionState
from tacit.service.documents.openapi import About


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
