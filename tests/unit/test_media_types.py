"""What a Content-Type says: read as RFC 9110 section 8.3.1 has it, written as we write it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.media_types import JSON, OHTTP_REQ, OHTTP_RES, dap, is_a, parse_media_type
from tacit.ports import HttpResponse

UPLOAD = dap("upload-req")
ROOT = Path(__file__).parents[2]
PACKAGES = ("tacit", "services", "relay", "attester", "recipe_server", "client_agent", "infra")
COMPARED_AS_TEXT = re.compile(r"get\(\"content-type\"[^)]*\)+( *[!=]=|\.startswith|\.lower| in )", re.IGNORECASE)
TOKENS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-.", min_size=1, max_size=8)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (UPLOAD, UPLOAD),
        ("application/ppm-dap;message=upload-req;version=18", UPLOAD),
        ("application/ppm-dap; version=18 ;message=upload-req", UPLOAD),
        ('application/ppm-dap;message="upload-req"', UPLOAD),
        ('application/ppm-dap;message="upload\\-req"', UPLOAD),
        ("Application/PPM-DAP;Message=upload-req", UPLOAD),
        ("application/ppm-dap;message=upload-req;", UPLOAD),
        ("application/json; charset=utf-8", JSON),
        ('application/json;charset="UTF-8";x="a;b"', JSON),
        ("message/ohttp-req; x=1", OHTTP_REQ),
    ],
)
def test_every_form_that_the_standards_allow_is_read(value: str, expected: str) -> None:
    assert is_a(value, expected)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "application",
        "application/ppm-dap",
        "application/ppm-dap;message=upload-errors",
        "application/ppm-dap;message=Upload-Req",
        "application/ppm-dap;message=upload-req;version=17",
        "application/ppm-dap;message=upload-req;message=upload-req",
        "application/ppm-dap;message=upload-req;message=upload-errors",
        "application/ppm-dap;message=upload-req x",
        'application/ppm-dap;message="upload-req',
        "application/ppm-dap;message = upload-req",
        "application/ppm-dap, application/ppm-dap;message=upload-req",
        "application/ppm-dapx;message=upload-req",
        "application/ppm-dap;message=upload-req;x=" + "y" * 300,
    ],
)
def test_what_says_something_else_or_nothing_is_told_apart(value: str) -> None:
    assert not is_a(value, UPLOAD)


@pytest.mark.parametrize("value", [OHTTP_RES, f"{OHTTP_RES}; charset=utf-8", 'MESSAGE/Ohttp-Res ;Charset="UTF-8"'])
def test_an_answer_is_read_as_a_request_is(value: str) -> None:
    answer = HttpResponse(200, {"content-type": value}, b"")
    assert answer.is_a(OHTTP_RES)
    assert not answer.is_a(OHTTP_REQ)
    assert not HttpResponse(200, {}, b"").is_a(OHTTP_RES)


def test_no_module_compares_a_media_type_as_text() -> None:
    lines = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for line in path.read_text().splitlines()
        if COMPARED_AS_TEXT.search(line)
    ]
    assert lines == []


@given(TOKENS, TOKENS, st.dictionaries(TOKENS, st.text("abc;=,\\\" '", max_size=8), max_size=4))
def test_quoted_parameters_are_read_as_they_were_meant(kind: str, sub: str, parameters: dict[str, str]) -> None:
    quoted = "".join(
        f'; {name}="{text.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
        for name, text in parameters.items()
    )
    value = f"{kind}/{sub}{quoted}"
    assert parse_media_type(value) == ((f"{kind}/{sub}", parameters) if len(value) <= 256 else None)
