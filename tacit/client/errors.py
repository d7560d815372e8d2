"""Refusals of the admin API, as error types that a program can tell apart.

Each is an ``Abort`` with the problem's ``type``, ``title``, ``detail``, ``status`` and ``extensions``. If nothing
answers, the error is a ``tacit.ports.TransportError``; if an answer cannot be read, it is a ``DecodeError``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tacit.answers import REDIRECTED
from tacit.errors import REFUSAL_PREFIX, Abort, TacitError
from tacit.media_types import PROBLEM_JSON
from tacit.ports import HttpResponse
from tacit.problem import Problem, read_problem

PROBLEM_PREFIX: Final = "urn:tacit:problem:"
_OWN_MEMBERS: Final = frozenset({"type", "title", "detail", "status", "instance"})


class ApiError(Abort):
    """The request was refused. This class itself is raised for refusals that have no subclass."""


class RedirectError(ApiError):
    """The address answers with a redirect, which is never followed, because the key is only for the given origin."""


class UnauthorizedError(ApiError):
    """401: the key is not valid, or is no longer valid."""


class ForbiddenError(ApiError):
    """403: the person's role may not do this."""


class OwnDraftError(ForbiddenError):
    """403: a person who wrote any part of a question cannot approve it."""


class NotFoundError(ApiError):
    """404: no question, person, job or entry has this id."""


class ConflictError(ApiError):
    """409: the present state does not allow it. For a question, ``extensions["state"]`` holds the state."""


class ChangedError(ApiError):
    """412, 428: somebody has changed it since it was read; read it again."""


class InvalidError(ApiError):
    """400, 413, 415, 422: the request cannot be used. ``field``: the wrong member, if a single one is wrong."""

    @property
    def field(self) -> str:
        """The path of the wrong member, or an empty text."""
        return str(self.extensions.get("field", ""))


class RuleError(ApiError):
    """A rule refuses the recipe. ``rule``: its name; ``extensions["refusals"]`` holds all rules that refuse."""

    @property
    def rule(self) -> str:
        """The stable name of the rule that refused, without its prefix."""
        return self.type.removeprefix(REFUSAL_PREFIX)


class BusyError(ApiError):
    """429: too many requests, even after the pauses that the service asked for."""


class AwayError(ApiError):
    """5xx: the service, its store or another service cannot be reached, even after several attempts."""


class NotYetError(TacitError):
    """The awaited result was not there in time; it may come later."""


_BY_STATUS: Final[Mapping[int, type[ApiError]]] = {
    400: InvalidError,
    401: UnauthorizedError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    412: ChangedError,
    413: InvalidError,
    415: InvalidError,
    422: InvalidError,
    428: ChangedError,
    429: BusyError,
}


def error_of(answer: HttpResponse) -> ApiError:
    """The error for an answer whose status is not a success: ``RedirectError`` below 400, else by the type of its
    problem document (RFC 9457), or by its status."""
    if answer.status < 400:
        return RedirectError("about:blank", status=answer.status, title=REDIRECTED)
    declared = answer.is_a(PROBLEM_JSON)
    problem = read_problem(answer.body) if declared else Problem()
    kind = _BY_STATUS.get(answer.status, AwayError if answer.status >= 500 else ApiError)
    if problem.type == f"{PROBLEM_PREFIX}own-draft":
        kind = OwnDraftError
    elif problem.type.startswith(REFUSAL_PREFIX):
        kind = RuleError
    title = problem.title or f"the service answered {answer.status}"
    return kind(
        problem.type or "about:blank",
        problem.detail,
        status=answer.status,
        title=title,
        extensions=_extensions(answer.body) if declared else None,
    )


def _extensions(body: bytes) -> dict[str, Any]:
    """The further members of a problem document."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return {name: one for name, one in found.items() if name not in _OWN_MEMBERS} if isinstance(found, dict) else {}
