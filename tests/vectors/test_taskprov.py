"""The example header of draft-ietf-ppm-dap-taskprov and the derivations over it."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import pytest

from tacit.messages import BatchMode, Interval, TaskConfiguration, TaskExtension
from tacit.task import task_id_of, verify_key_of

pytestmark = pytest.mark.vectors


@pytest.fixture(scope="module")
def example(load_vector: Callable[[str], Any]) -> dict[str, Any]:
    found: dict[str, Any] = load_vector("taskprov/taskprov_04_header_example.json")
    return found


def expected(example: dict[str, Any]) -> TaskConfiguration:
    decoded = example["decoded"]
    (extension,) = decoded["extensions"]
    return TaskConfiguration(
        task_info=decoded["task_info"].encode(),
        leader_aggregator_endpoint=decoded["leader_aggregator_endpoint"],
        helper_aggregator_endpoint=decoded["helper_aggregator_endpoint"],
        time_precision=decoded["time_precision"],
        min_batch_size=decoded["min_batch_size"],
        batch_mode=BatchMode(decoded["batch_mode"]),
        batch_config=bytes.fromhex(decoded["batch_config"]),
        vdaf_type=decoded["vdaf_type"],
        vdaf_configuration=bytes.fromhex(decoded["vdaf_configuration"]),
        extensions=(TaskExtension(extension["extension_type"], bytes.fromhex(extension["extension_data"])),),
    )


def test_configuration_in_the_header_decodes_to_the_values_of_the_example(example: dict[str, Any]) -> None:
    encoded = base64.b64decode(example["header_value"].strip(":"), validate=True)
    assert encoded.hex() == example["task_configuration_hex"]
    configuration = TaskConfiguration.decode(encoded)
    assert configuration == expected(example)
    assert configuration.encode() == encoded
    assert configuration.extensions == (TaskExtension.task_interval(Interval(60, 100)),)


def test_task_id_of_the_example(example: dict[str, Any]) -> None:
    derived = task_id_of(expected(example)).hex()
    assert derived == example["derived_by_us_not_in_source"]["task_id_sha256_rule"]


def test_verify_key_is_hkdf_over_the_task_id(example: dict[str, Any]) -> None:
    task_id, seed = task_id_of(expected(example)), bytes(range(32))
    extracted = hmac.digest(hashlib.sha256(b"dap-taskprov").digest(), seed, "sha256")
    assert verify_key_of(seed, task_id) == hmac.digest(extracted, task_id + b"\x01", "sha256")
    assert verify_key_of(seed, task_id) != verify_key_of(seed, bytes(32))
    with pytest.raises(ValueError, match="32 bytes"):
        verify_key_of(b"short", task_id)
