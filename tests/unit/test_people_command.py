"""What ``tacit admin people`` says of a change: done, or waiting for another administrator."""

from __future__ import annotations

import pytest

from infra.commands.admin.people import tell_person
from tacit.client import Change, Person
from tacit.time_format import format_utc

EXPIRES = 2_000_000_000
BODY = {
    "id": "5f0e3c2b1a09f8e7d6c5b4a3", "kind": "add", "state": "waiting", "person": "p", "name": "carol",
    "role": "approver", "words": "added as approver", "asked_by": "a", "asked_by_name": "dave", "asked": 1,
    "expires": EXPIRES, "consented_by": "", "consented_by_name": "", "counts_from": None, "digest": "00",
}  # fmt: skip


def test_an_approver_who_waits_for_consent_is_not_said_to_be_added(capsys: pytest.CaptureFixture[str]) -> None:
    tell_person(Change.model_validate(BODY), as_json=False)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "carol: nothing has changed yet. Asked for: added as approver"
    assert second == f"it waits until {format_utc(EXPIRES)} for another administrator, who consents with:"
    assert third == f"tacit admin people consent {BODY['id']}"


def test_a_person_who_was_added_is_shown_with_their_role(capsys: pytest.CaptureFixture[str]) -> None:
    body = {"id": "p", "name": "carol", "role": "analyst", "disabled": False, "created": 1, "has_password": False}
    tell_person(Person.model_validate(body), as_json=False)
    assert capsys.readouterr().out.splitlines()[0] == "carol: analyst"
