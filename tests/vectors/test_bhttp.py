"""The examples of RFC 9292 section 5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tacit import bhttp

pytestmark = pytest.mark.vectors


@pytest.fixture
def examples(load_vector: Callable[[str], Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = load_vector("bhttp/rfc9292_examples.json")["examples"]
    return found


def _fields(pairs: list[list[str]]) -> bhttp.Fields:
    return tuple((name, value) for name, value in pairs)


def test_known_length_request_decodes_and_encodes_to_the_same_bytes(examples: list[dict[str, Any]]) -> None:
    example = examples[0]
    data = bytes.fromhex(example["hex"])
    request = bhttp.decode_request(data)
    assert request == bhttp.Request(
        example["method"], example["scheme"], "", example["path"], _fields(example["headers"])
    )
    assert bhttp.encode_request(request) == data


def test_indeterminate_request_is_the_same_message_with_padding(examples: list[dict[str, Any]]) -> None:
    known, data = (bytes.fromhex(example["hex"]) for example in examples[:2])
    request = bhttp.decode_request(data)
    assert request == bhttp.decode_request(known)
    assert bhttp.pad_to(bhttp.encode_request(request, indeterminate=True), len(data)) == data


def test_indeterminate_response_keeps_its_informational_responses(examples: list[dict[str, Any]]) -> None:
    example = examples[2]
    data = bytes.fromhex(example["hex"])
    response = bhttp.decode_response(data)
    assert response.status == example["status"]
    assert response.informational == tuple((status, _fields(fields)) for status, fields in example["informational"])
    assert bhttp.field_value(response.fields, "content-type") == "text/plain"
    assert response.content.endswith(b"trailing CRLF.\r\n")
    assert bhttp.encode_response(response, indeterminate=True) == data


def test_known_length_response_keeps_its_trailer(examples: list[dict[str, Any]]) -> None:
    example = examples[3]
    data = bytes.fromhex(example["hex"])
    response = bhttp.decode_response(data)
    assert response == bhttp.Response(200, (), bytes.fromhex(example["content"]), _fields(example["trailers"]))
    assert bhttp.encode_response(response) == data
