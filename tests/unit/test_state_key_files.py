"""Key files of servers to which devices encrypt their state."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from infra.lab.kit.entropy import SeededEntropy
from tacit.aggregator.keys import find_state_key, state_key_text
from tacit.aggregator.state_keys import generate_state_key, read_state_key, read_state_keys, write_state_key
from tacit.errors import UsageError


def test_a_key_goes_into_a_file_of_its_owner_and_back(tmp_path: Path) -> None:
    first, second = (generate_state_key(SeededEntropy(number)) for number in (1, 2))
    paths = (tmp_path / "one.key", tmp_path / "two.key")
    for path, key in zip(paths, (first, second), strict=True):
        write_state_key(path, key)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = read_state_keys(paths)
    assert find_state_key(keys, state_key_text(second)) == second
    assert find_state_key(keys, "A" * 43) is None
    assert first.scalar.hex() not in repr(first)


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("private_key", "AA", "bytes"),
        ("private_key", "A" * 43, "zero is not a valid private key"),
        ("private_key", "_" * 42 + "8", "must be below the order"),
        ("state_key", "A" * 43, "does not belong"),
        ("other", "A", "must have exactly the members"),
        ("state_key", 7, "both strings"),
    ],
)
def test_a_file_that_is_no_key_is_refused_in_one_line(tmp_path: Path, member: str, value: object, words: str) -> None:
    path = tmp_path / "state.key"
    write_state_key(path, generate_state_key(SeededEntropy(3)))
    path.write_text(json.dumps({**json.loads(path.read_text()), member: value}))
    with pytest.raises(UsageError, match=words) as raised:
        read_state_key(path)
    assert "\n" not in str(raised.value)
    path.write_text("{")
    with pytest.raises(UsageError, match="not a JSON file"):
        read_state_key(path)


def test_one_key_in_two_files_is_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "one.key", tmp_path / "two.key"]
    for path in paths:
        write_state_key(path, generate_state_key(SeededEntropy(4)))
    with pytest.raises(UsageError, match="two files hold the same key"):
        read_state_keys(paths)
