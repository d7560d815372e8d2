"""``tacit.ohttp``: key collections, encapsulation, size classes and refusals."""

from __future__ import annotations

import random
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import bhttp, hpke, ohttp
from tacit.errors import CryptoError, DecodeError, Refusal
from tacit.recipe.policy import UPLOADS, Policy
from tacit.service.http.limits import ORDINARY_BODY
from tests.kit.foreign import decode_key_configs

entropy = random.Random(9458).randbytes
ACTIVE = ohttp.generate_key_config(2, entropy)
PREVIOUS = ohttp.generate_key_config(1, entropy)
GATEWAY = ohttp.Decapsulator([ACTIVE, PREVIOUS])
GET = bhttp.Request("GET", "https", "example.com", "/")


@settings(max_examples=30, deadline=None)
@given(request=st.binary(max_size=300), response=st.binary(max_size=300), keys=st.sampled_from([0, 1]))
def test_requests_and_responses_pass_both_ways(request: bytes, response: bytes, keys: int) -> None:
    message, client = ohttp.encapsulate_request([ACTIVE, PREVIOUS][keys][0], request, entropy)
    opened, server = GATEWAY.decapsulate_request(message)
    assert opened == request
    assert client.decapsulate_response(server.encapsulate_response(response, entropy)) == response


def test_the_second_algorithm_of_a_configuration_works_too() -> None:
    config = ACTIVE[0]
    chacha = ohttp.KeyConfig(config.key_id, config.kem_id, config.public_key, config.algorithms[1:])
    message, client = ohttp.padded_request(chacha, GET, entropy)
    encoded, server = GATEWAY.decapsulate_request(message)
    assert bhttp.decode_request(encoded) == GET
    answer = ohttp.padded_response(server, bhttp.Response(204), entropy)
    assert len(answer) == ohttp.SIZE_CLASSES[0]
    assert ohttp.open_response(client, answer) == bhttp.Response(204)


@pytest.mark.parametrize(
    ("content", "expected"),
    [(0, 4096), (3900, 4096), (4096, 16384), (60000, 65536), (65536, 262144), (262000, 262144)],
)
def test_messages_have_exactly_the_length_of_a_size_class(content: int, expected: int) -> None:
    request = bhttp.Request("POST", "https", "example.com", "/", content=bytes(content))
    message, client = ohttp.padded_request(ACTIVE[0], request, entropy)
    assert len(message) == expected
    encoded, server = GATEWAY.decapsulate_request(message)
    assert bhttp.decode_request(encoded) == request
    answer = ohttp.padded_response(server, bhttp.Response(200, content=bytes(content)), entropy)
    assert len(answer) == expected
    assert ohttp.open_response(client, answer).content == bytes(content)


@pytest.mark.parametrize(("content", "expected"), [(262144, 1 << 20), (1 << 20, 4 << 20), ((4 << 20) - 200, 4 << 20)])
def test_requests_have_larger_classes_than_responses(content: int, expected: int) -> None:
    request = bhttp.Request("POST", "https", "example.com", "/", content=bytes(content))
    message, _ = ohttp.padded_request(ACTIVE[0], request, entropy)
    assert len(message) == expected
    encoded, server = GATEWAY.decapsulate_request(message)
    assert bhttp.decode_request(encoded) == request
    with pytest.raises(Refusal, match="at most 262144 bytes"):
        ohttp.padded_response(server, bhttp.Response(200, content=bytes(content)), entropy)


def test_the_classes_that_limits_name_are_those_of_messages() -> None:
    assert ohttp.SIZE_CLASSES[-1] == ORDINARY_BODY == UPLOADS[0]
    assert UPLOADS[1:] == ohttp.LARGE_CLASSES
    allowed = get_args(Policy.model_fields["max_upload"].annotation)
    assert allowed == UPLOADS


def test_messages_above_the_largest_class_are_refused() -> None:
    request = bhttp.Request("POST", "https", "example.com", "/", content=bytes(ohttp.REQUEST_CLASSES[-1]))
    with pytest.raises(Refusal, match="size-class"):
        ohttp.padded_request(ACTIVE[0], request, entropy)
    assert ohttp.size_class(4096) == 4096
    assert ohttp.size_class(4097) == 16384


def test_collections_of_keys_survive_and_skip_other_kems() -> None:
    configs = [ACTIVE[0], PREVIOUS[0]]
    encoded = ohttp.encode_key_configs(configs)
    assert decode_key_configs(encoded) == configs
    other = bytes.fromhex("0007" + "09001000000000")
    assert decode_key_configs(other + encoded) == configs


def test_a_configuration_without_algorithms_or_of_another_kem_is_refused() -> None:
    head = b"\x01\x00\x20" + ACTIVE[0].public_key
    for data in (head + b"\x00\x00", head + b"\x00\x03\x00\x01\x00", b"\x01\x00\x10" + bytes(69)):
        with pytest.raises(DecodeError):
            ohttp.KeyConfig.decode(data)


def test_a_configuration_with_unknown_algorithms_only_cannot_be_used() -> None:
    config = ohttp.KeyConfig(1, hpke.KEM_X25519, ACTIVE[0].public_key, ((1, 2), (3, 1)))
    with pytest.raises(CryptoError):
        ohttp.encapsulate_request(config, b"", entropy)


def _request() -> bytes:
    return ohttp.encapsulate_request(ACTIVE[0], bhttp.encode_request(GET), entropy)[0]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 77), (2, 0x10), (4, 2), (6, 2), (6, 3), (10, 1), (-1, 1)],
    ids=["key id", "kem", "kdf", "aead", "other aead", "enc", "tag"],
)
def test_requests_for_another_key_or_suite_or_changed_are_not_opened(at: int, value: int) -> None:
    message = bytearray(_request())
    message[at] = value if at in range(7) else message[at] ^ value
    with pytest.raises(CryptoError):
        GATEWAY.decapsulate_request(bytes(message))


@pytest.mark.parametrize("length", [0, 1, 6, 7, 38, 39, 54])
def test_truncated_requests_are_malformed(length: int) -> None:
    with pytest.raises(DecodeError):
        GATEWAY.decapsulate_request(_request()[:length])


def test_responses_open_only_for_their_own_request() -> None:
    _, other = ohttp.encapsulate_request(ACTIVE[0], b"", entropy)
    _, server = GATEWAY.decapsulate_request(_request())
    answer = server.encapsulate_response(b"\x01\x40\xc8", entropy)
    for message, error in ((answer, CryptoError), (answer[:15], DecodeError), (answer[:20], CryptoError)):
        with pytest.raises(error):
            other.decapsulate_response(message)


def test_two_keys_cannot_share_an_identifier() -> None:
    with pytest.raises(ValueError, match="same identifier"):
        ohttp.Decapsulator([ACTIVE, ACTIVE])


def test_every_encapsulation_has_its_own_enc() -> None:
    contexts: list[Any] = [GATEWAY.decapsulate_request(_request())[1] for _ in range(3)]
    assert len({context.enc for context in contexts}) == 3
