"""What is wrong with a document is told in words of the document, not of the library that checks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from client_agent.config import AgentConfig
from tacit.errors import DecodeError, UsageError
from tacit.models.parties import Part
from tacit.service.base.config_files import parse_config
from tacit.tlog.canonical import validate

INTERNAL = ("nput", "Field", "pydantic", "valid ", "dictionary", "instance", "characters at", "Extra", "1 characters")


class Small(Part):
    text: Annotated[str, Field(min_length=1, max_length=3)] = "a"
    few: Annotated[tuple[int, ...], Field(max_length=1, strict=False)] = ()
    word: Literal["one", "two"] = "one"
    amount: Annotated[int, Field(gt=0)] = 1
    inner: Any = None


@pytest.mark.parametrize(
    ("member", "value", "reason"),
    [
        ("text", "", "needs at least 1 character"),
        ("text", "abcd", "takes at most 3 characters"),
        ("text", 5, "must be text"),
        ("few", [1, 2], "takes at most 1 value"),
        ("few", "x", "must be a list"),
        ("word", "three", "must be `one` or `two`"),
        ("amount", "x", "must be a whole number"),
        ("amount", 0, "must be more than 0"),
        ("strange", 0, "is not known"),
    ],
)
def test_a_wrong_member_is_told_in_words(member: str, value: object, reason: str) -> None:
    with pytest.raises(DecodeError) as caught:
        validate(Small, {member: value}, "small")
    told = str(caught.value)
    assert told.startswith(f"small: {member}")
    assert reason in told
    assert not any(word in told for word in INTERNAL), told


@pytest.mark.parametrize("data", ["text", 5, [], None, {}, {"state_dir": 5}, {"log": 5}])
def test_a_wrong_configuration_is_told_in_words(data: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_config(json.loads(json.dumps(data)), AgentConfig, base=tmp_path, where="agent.json")
    assert not any(word in str(caught.value) for word in INTERNAL), str(caught.value)
