"""Every key of every configuration, from the models that read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from infra.tools.documents.example import Example
from infra.tools.documents.schemas import SCHEMAS, schema_of_model
from infra.tools.documents.words import FROM_FOLDER, MADE, page, prose, table, type_in_words, value
from infra.views.terminal import print_json
from tacit.aggregator.config import AggregatorConfig, FollowingConfig
from tacit.aggregator.one_server.config import OneServerConfig
from tacit.errors import UsageError
from tacit.service.base.config import ServiceConfig

PREFIX = "config-"
SHARED: Mapping[type[BaseModel], str] = {
    ServiceConfig: "Every service",
    FollowingConfig: "Leader, helper, analyzer and shuffler",
    OneServerConfig: "Analyzer and shuffler",
    AggregatorConfig: "Leader and helper",
}
"""The models whose keys several services have -> the title under which those keys are listed."""


def configurations() -> dict[str, type[BaseModel]]:
    """The model of each configuration, by the name under which it is served; ``agent`` is that of a device."""
    found = {name.removeprefix(PREFIX): entry.model for name, entry in SCHEMAS.items() if name.startswith(PREFIX)}
    return {name.replace("-", "_"): model for name, model in found.items()}


def configuration_page() -> str:
    """The page of all keys: those that services share first, then each configuration, then the parts of these."""
    return page(
        "# Keys of configurations",
        f"{MADE} What the files are and how TLS is set up: [configuration](../configuration.md). Keys may be left out "
        "unless they are **required**. Paths are relative to the file's own folder.",
        *_sections(),
    )


def _sections() -> Iterator[str]:
    parts: dict[str, dict[str, Any]] = {}
    for model, title in SHARED.items():
        yield from _section(title, model, parts)
    for name, model in configurations().items():
        yield from _section(name, model, parts)
    for name, part in sorted(parts.items()):
        yield f"## {name}"
        yield prose(part)
        yield _keys(part, parts, part["properties"])


def _section(title: str, model: type[BaseModel], parts: dict[str, dict[str, Any]]) -> Iterator[str]:
    """The keys that ``model`` has in addition to the models that it builds on. The types that it refers to are added to
    ``parts``."""
    schema = schema_of_model(model)
    for name, part in schema.get("$defs", {}).items():
        if "properties" in part and parts.setdefault(name, part) != part:
            raise UsageError(f"two parts of configurations are called {name}")
    bases = [f'"{SHARED[base]}"' for base in model.__mro__[1:] if base in SHARED]
    yield f"## {title}"
    yield prose(schema) + (f" Also the keys of {' and '.join(bases)}." if bases else "")
    yield _keys(schema, parts, model.__annotations__)


def _keys(schema: Mapping[str, Any], parts: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (f"`{key}`", _type(content, parts), _default(content, key in required), prose(content))
        for key, content in schema["properties"].items()
        if key in names
    ]
    return table(("key", "type and range", "default", "what it says"), rows)


def _type(content: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    words = type_in_words(content).removesuffix(" or null").replace(FROM_FOLDER, "")
    for name in sorted(parts, key=len, reverse=True):
        if name in words and f"[{name}]" not in words:
            words = words.replace(name, f"[{name}](#{name.lower()})")
    return words


def _default(content: Mapping[str, Any], required: bool) -> str:
    if required:
        return "**required**"
    default = content.get("default")
    if isinstance(default, list):
        return ", ".join(value(one) for one in default) or "none"
    return "none" if default in (None, {}, "") else value(default)


def print_configuration(name: str, *, as_json: bool) -> None:
    """Print the configuration of the service ``name``, or of a device, with every key and its default, as TOML or
    JSON."""
    example = Example(schema_of_model(configurations()[name]))
    if as_json:
        print_json(example.json())
    else:
        print(example.toml())
