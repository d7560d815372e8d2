"""Prints a configuration to start from."""

from __future__ import annotations

from infra.tools.documents.configuration import configurations
from infra.tools.documents.example import Example
from infra.tools.documents.schemas import schema_of_model
from infra.views.terminal import print_json


def print_configuration(name: str, *, as_json: bool) -> None:
    """Print the configuration of the service ``name``, or of a device, with every key and its default, as TOML or
    JSON."""
    example = Example(schema_of_model(configurations()[name]))
    if as_json:
        print_json(example.json())
    else:
        print(example.toml())
