"""Problem documents are read in one place, and nothing that a peer writes into one breaks its reader."""

from __future__ import annotations

import json

import pytest

from recipe_server.witnessing import answer_in_words
from tacit.ports import HttpResponse
from tacit.problem import Problem, problem_type, read_problem

DEEP = b"[" * 100_000


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'"urn:x"', b"{", b"\xff", DEEP, b'{"type": {"type": 3}}'])
def test_what_is_no_problem_document_says_nothing(body: bytes) -> None:
    assert read_problem(body) == Problem()
    assert problem_type(body) == ""


def test_members_of_another_type_are_passed_over_and_the_others_are_read() -> None:
    body = json.dumps({"type": "urn:x", "title": ["X"], "detail": "why", "status": "no"}).encode()
    assert read_problem(body) == Problem("urn:x", "", "why")
    assert problem_type(body) == "urn:x"


@pytest.mark.parametrize("body", [b"", DEEP, b'{"detail": ["x"]}'])
def test_a_witness_that_answers_with_anything_is_told_of_by_its_status(body: bytes) -> None:
    assert answer_in_words(HttpResponse(400, {}, body)) == "status 400"


def test_what_a_witness_says_is_cut_to_a_printable_line() -> None:
    body = json.dumps({"detail": "no\n\x1b[2J" + "x" * 500}).encode()
    assert answer_in_words(HttpResponse(403, {}, body)) == "status 403, no[2J" + "x" * 195
