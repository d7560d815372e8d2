"""Every key of every configuration stands in its page with a description, and in the example that can be printed."""

from __future__ import annotations

import json
import re
import tomllib
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from infra.stacks.new_layout import create_layout
from infra.stacks.options import StackOptions
from infra.tools.documents.configuration import SHARED, configuration_page, configurations
from infra.tools.documents.example import Example
from infra.tools.documents.schemas import schema_of_model
from tacit.adapters.system import OsEntropy, SystemClock
from tacit.service.base.config import Listen
from tacit.service.base.config_files import load_config

TEXT = configuration_page()
ROLES = (Path(__file__).resolve().parents[2] / "docs" / "configuration.md").read_text()
FILLED: dict[str, Any] = {"epoch_seconds": 60, "rotation_seconds": 3600, "period": 0}
"""What is put where the example says that something is required, unless it is a URL or a text."""


def parts_of(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models in a field's type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from parts_of(argument)


def models(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The model and all that it holds, by name."""
    found = {model.__name__: model}
    for field in model.model_fields.values():
        for part in parts_of(field.annotation):
            found |= models(part)
    return found


def section(title: str) -> dict[str, list[str]]:
    """The rows of a section of the page by key: type, default, description."""
    body = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    rows = [re.split(r" (?<!\\)\| ", line.removeprefix("| ").removesuffix(" |")) for line in body.splitlines()]
    return {cells[0].strip("`"): cells[1:] for cells in rows if len(cells) == 4 and cells[0].startswith("`")}


def filled(value: Any, key: str = "") -> Any:
    """A printed configuration as somebody fills it in."""
    if isinstance(value, dict):
        return {name: filled(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [filled(one, key) for one in value]
    if value != f"<{key}>":
        return value
    return FILLED.get(key, "https://host.example" if key.endswith("url") else "text")


def required(model: type[BaseModel], document: dict[str, Any]) -> dict[str, Any]:
    """Of a configuration what must be there."""
    return {name: document[name] for name, field in model.model_fields.items() if field.is_required()}


def test_no_key_of_any_configuration_lacks_a_description_a_type_or_a_default() -> None:
    seen = 0
    for served, model in configurations().items():
        own = {served: model, **{SHARED[base]: base for base in model.__mro__ if base in SHARED}}
        found = {key: row for title in reversed(list(own)) for key, row in section(title).items()}
        assert set(found) == set(model.model_fields), served
        nested = {name: part for name, part in models(model).items() if part is not model}
        for key, cells in [*found.items(), *(pair for name in nested for pair in section(name).items())]:
            assert all(cell.strip() for cell in cells), (served, key)
            assert len(cells[-1]) > 3, (served, key)
        for name, part in nested.items():
            assert set(section(name)) == set(part.model_fields), name
        seen += len(found)
    assert seen > 150


@pytest.mark.parametrize("name", configurations())
def test_a_printed_configuration_is_accepted_once_it_is_filled_in_and_means_no_more_than_what_is_required(
    name: str, tmp_path: Path
) -> None:
    model = configurations()[name]
    example = Example(schema_of_model(model))
    as_json, as_toml = tmp_path / "a.json", tmp_path / "a.toml"
    document = filled(example.json())
    as_json.write_text(json.dumps(document))
    as_toml.write_text(
        re.sub(r"\"<(\w+)>\"", lambda found: json.dumps(filled(found[0][1:-1], found[1])), example.toml())
    )
    least = tmp_path / "least.json"
    least.write_text(json.dumps(required(model, document)))
    assert load_config(as_json, model) == load_config(as_toml, model) == load_config(least, model)


@pytest.mark.parametrize("name", configurations())
def test_what_is_off_in_a_printed_configuration_is_one_sign_away(name: str) -> None:
    model = configurations()[name]
    on = tomllib.loads(re.sub(r"(?m)^#(?! )", "", Example(schema_of_model(model)).toml()))
    assert set(on) == set(model.model_fields)
    if "listen" in on:
        assert set(on["listen"]) == set(Listen.model_fields)


def test_the_page_names_the_roles_for_which_a_stack_lists_names(tmp_path: Path) -> None:
    layout = create_layout(tmp_path / "stack", StackOptions(tls=True), OsEntropy(), SystemClock().now())
    rows = dict(
        re.findall(r"(?m)^\| ([a-z_]+) \| (`.*) \|$", ROLES.partition("| service | roles |")[2].partition("\n\n")[0])
    )
    for service, path in layout.configs.items():
        names = json.loads(path.read_text())["listen"].get("client_names", {})
        assert set(names) <= set(re.findall(r"`([a-z]+)`", rows.get(service, ""))), service
    assert set(rows) < set(layout.configs)
