"""The pages of people and their keys, for administrators."""

from __future__ import annotations

import calendar
import json
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from aiohttp import web

from services.admin.pages.page_requests import PageRequest
from services.admin.people.people import PERMISSIONS, Permission, existing
from services.admin.storage.records import ApiKey
from tacit.codec import b64url
from tacit.errors import Abort, FieldError
from tacit.service.documents.admin_people import Role
from tacit.service.http.paging import DEFAULT_LIMIT

NEW: Final = {
    "name": "Name",
    "role": "Role",
    "password": "Password of a local account",
    "key_sha256": "SHA-256 of a key",
}
"""The labels of the fields for a new person, by the members that they fill."""
KNOWN: Final = {
    "role": "Role",
    "disabled": "May sign in",
    "password": "New password",
    "sha256": "SHA-256 of a key",
    "label": "Label",
    "expires": "Last day",
}
"""The labels of the fields for a person who is there already."""
WAITS = HTTPStatus.ACCEPTED
"""The status of an act that waits for a second administrator; the overview then shows it."""


async def list_people(page_request: PageRequest) -> web.StreamResponse:
    """The list of people, and the form with which one is added."""
    return await _list(page_request)


async def add(page_request: PageRequest) -> web.StreamResponse:
    """Add a person with the values of the form."""
    body = {
        name: page_request.form[name]
        for name in ("name", "role", "password", "key_sha256")
        if page_request.form.get(name)
    }
    try:
        answer = await page_request.act("person.add", body)
    except Abort as problem:
        return await _list(page_request, _keep_problem(problem, NEW))
    if answer.status == WAITS:
        raise web.HTTPSeeOther("/")
    raise web.HTTPSeeOther(answer.headers["Location"].removeprefix("/v1"))


async def show_person(page_request: PageRequest) -> web.StreamResponse:
    """A person with their keys, passkeys and ways to sign in. Raises ``Abort`` (404)."""
    return await _person(page_request)


async def change(page_request: PageRequest) -> web.StreamResponse:
    """Change a person's role or password, or whether they may sign in."""
    form = page_request.form
    body: dict[str, object] = {name: form[name] for name in ("role", "password") if form.get(name)}
    if form.get("disabled") in {"yes", "no"}:
        body["disabled"] = form["disabled"] == "yes"
    try:
        found = await page_request.act("person.change", body)
    except Abort as problem:
        return await _person(page_request, _keep_problem(problem, KNOWN))
    if found.status == WAITS:
        raise web.HTTPSeeOther("/")
    raise web.HTTPSeeOther(f"/people/{page_request.part('id')}")


async def give_key(page_request: PageRequest) -> web.StreamResponse:
    """Give a person a new key. Its text is shown only on the page that answers."""
    body: dict[str, object] = {"label": page_request.form.get("label", "")}
    try:
        if digest := page_request.form.get("sha256", ""):
            body["sha256"] = digest
        if until := page_request.form.get("expires", ""):
            body["expires"] = _day(until)
        answer = await page_request.act("key.give", body)
    except Abort as problem:
        return await _person(page_request, _keep_problem(problem, KNOWN))
    if answer.status == WAITS:
        raise web.HTTPSeeOther("/")
    if not isinstance(answer.body, bytes):
        raise TypeError("the answer with a new key has no body")
    return await _person(page_request, new_key=json.loads(answer.body)["key"] or "")


async def take_key(page_request: PageRequest) -> web.StreamResponse:
    """Revoke a person's API key."""
    await page_request.act("key.take")
    raise web.HTTPSeeOther(f"/people/{page_request.part('id')}")


async def invite(page_request: PageRequest) -> web.StreamResponse:
    """Make an invitation. Its text is shown only on the page that answers."""
    try:
        answer = await page_request.act("person.invite", {})
    except Abort as problem:
        return await _person(page_request, _keep_problem(problem, KNOWN))
    if not isinstance(answer.body, bytes):
        raise TypeError("the answer with an invitation has no body")
    return await _person(page_request, invitation=json.loads(answer.body))


async def unbind(page_request: PageRequest) -> web.StreamResponse:
    """Unbind a person's account at the provider, which also revokes their invitation and ends their sessions."""
    await page_request.act("person.unbind")
    raise web.HTTPSeeOther(f"/people/{page_request.part('id')}")


async def take_passkey(page_request: PageRequest) -> web.StreamResponse:
    """Revoke a person's passkey."""
    await page_request.act("passkey.take")
    raise web.HTTPSeeOther(f"/people/{page_request.part('id')}")


def _day(text: str) -> int:
    """The POSIX second at the end of a day in UTC. Raises ``FieldError``."""
    try:
        return calendar.timegm(time.strptime(text, "%Y-%m-%d")) + 86400
    except (ValueError, OverflowError) as error:
        raise FieldError("expires", "must be a day such as 2030-01-31") from error


def _keep_problem(problem: Abort, labels: Mapping[str, str]) -> Abort:
    """The refusal, if the page can show it. Raises the refusal itself if the person may not see the page."""
    if problem.status in {401, 403, 404}:
        raise problem
    told = problem.extensions.get("fields")
    if not isinstance(told, list):
        return problem
    words = "; ".join(f"“{labels.get(one['field'], one['field'])}” {one['reason']}" for one in told)
    return Abort(problem.type, words, status=problem.status, title="This cannot be used.")


async def _list(page_request: PageRequest, problem: Abort | None = None) -> web.Response:
    after = page_request.cursor()
    async with page_request.admin.store.read() as tx:
        people = await tx.people(after, DEFAULT_LIMIT + 1)
        keys = {one.id: await tx.keys(one.id) for one in people[:DEFAULT_LIMIT]}
        rule = await page_request.admin.consent.rule(tx)
    rows = [
        {"person": one, "keys": len(keys[one.id]), "ends": _next_end(keys[one.id])} for one in people[:DEFAULT_LIMIT]
    ]
    return page_request.show(
        "people.html",
        status=200 if problem is None else problem.status,
        problem=problem,
        rows=rows,
        following=people[DEFAULT_LIMIT - 1].number if len(people) > DEFAULT_LIMIT else None,
        first=not after,
        roles=_roles(),
        rule=rule,
        given=page_request.form,
        labels=NEW,
    )


def _next_end(keys: Sequence[ApiKey]) -> int | None:
    """When the first of these keys expires (POSIX seconds), or None."""
    return min((one.expires for one in keys if one.expires is not None), default=None)


def _roles() -> list[tuple[str, str]]:
    return [
        (role.value, ", ".join(one.value for one in Permission if one in granted))
        for role, granted in PERMISSIONS.items()
    ]


async def _person(
    page_request: PageRequest, problem: Abort | None = None, new_key: str = "", invitation: Any = None
) -> web.Response:
    async with page_request.admin.store.read() as tx:
        person = await existing(tx, page_request.part("id"))
        keys = await tx.keys(person.id)
        passkeys = await tx.passkeys(person.id)
        rule = await page_request.admin.consent.rule(tx)
    return page_request.show(
        "person.html",
        status=200 if problem is None else problem.status,
        problem=problem,
        whose=person,
        keys=keys,
        new_key=new_key,
        invitation=invitation,
        provider=page_request.admin.config.openid,
        passkeys=[(b64url(one.id), one) for one in passkeys],
        roles=_roles(),
        rule=rule,
        role=Role(person.role).value,
        labels=KNOWN,
    )
