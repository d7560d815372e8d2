"""The complete example of RFC 9458 Appendix A."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tacit import bhttp, hpke, ohttp

pytestmark = pytest.mark.vectors


@pytest.fixture
def example(load_vector: Callable[[str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = load_vector("ohttp/rfc9458_appendix_a.json")
    return found


def _gateway(example: dict[str, Any]) -> ohttp.Decapsulator:
    config = ohttp.KeyConfig.decode(bytes.fromhex(example["key_config"]))
    return ohttp.Decapsulator([(config, hpke.key_pair_from_private(bytes.fromhex(example["skR"])))])


def test_key_configuration_reads_and_writes(example: dict[str, Any]) -> None:
    config = ohttp.KeyConfig.decode(bytes.fromhex(example["key_config"]))
    assert config.key_id == 1
    assert config.algorithms == ((1, 1), (1, 3))
    assert config.encode().hex() == example["key_config"]
    assert hpke.key_pair_from_private(bytes.fromhex(example["skR"])).public == config.public_key


def test_client_reproduces_the_request_and_opens_the_response(example: dict[str, Any]) -> None:
    config = ohttp.KeyConfig.decode(bytes.fromhex(example["key_config"]))
    message, context = ohttp.encapsulate_request(
        config, bytes.fromhex(example["request_bhttp"]), lambda n: bytes.fromhex(example["skE"])
    )
    assert message.hex() == example["encapsulated_request"]
    response = context.decapsulate_response(bytes.fromhex(example["encapsulated_response"]))
    assert response.hex() == example["response_bhttp"]


def test_gateway_opens_the_request_and_reproduces_the_response(example: dict[str, Any]) -> None:
    request, context = _gateway(example).decapsulate_request(bytes.fromhex(example["encapsulated_request"]))
    assert request.hex() == example["request_bhttp"]
    assert context.enc.hex() == example["enc"]
    nonce = bytes.fromhex(example["encapsulated_response"])[:16]
    response = context.encapsulate_response(bytes.fromhex(example["response_bhttp"]), lambda n: nonce)
    assert response.hex() == example["encapsulated_response"]


def test_messages_inside_are_binary_http(example: dict[str, Any]) -> None:
    request = bhttp.decode_request(bytes.fromhex(example["request_bhttp"]))
    assert request == bhttp.Request("GET", "https", "example.com", "/")
    assert bhttp.decode_response(bytes.fromhex(example["response_bhttp"])) == bhttp.Response(200)
