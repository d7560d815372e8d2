"""Every service's migrations make exactly the tables that its code declares."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tacit.adapters.migrate import assert_migrations_match

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = (
    "attester.schema",
    "client_agent.store",
    "recipe_server.schema",
    "services.admin.core.schema",
    "services.analyzer.schema",
    "services.collector.schema",
    "services.gateway.store",
    "services.helper.schema",
    "services.issuer.schema",
    "services.leader.schema",
    "services.witness.schema",
)


@pytest.mark.parametrize("schema", SCHEMAS)
def test_migrations_make_the_declared_tables(schema: str) -> None:
    module = importlib.import_module(schema)
    assert_migrations_match(module.METADATA, module.MIGRATIONS)


def test_no_migrations_are_left_out() -> None:
    packages = [path.parent for path in ROOT.glob("*/__init__.py")]
    found = {path.parent.relative_to(ROOT) for package in packages for path in package.rglob("migrations/env.py")}
    assert found == {Path(*importlib.import_module(schema).MIGRATIONS.split(".")) for schema in SCHEMAS}
