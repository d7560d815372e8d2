"""What a device loads before it can judge a recipe: nothing that only operators, servers and terminals need."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import tacit.dp

HEAVY = {
    "numpy", "scipy", "dp_accounting", "prv_accountant", "matplotlib", "pandas", "statsmodels", "typer", "click",
    "rich", "aiohttp", "sqlalchemy", "alembic", "ray",
}  # fmt: skip
NOT_ARITHMETIC = {"pydantic", "cryptography", "gmpy2", "Crypto", "cffi", "asyncio"}
ACCOUNTING = [f"tacit.dp.{module.name}" for module in pkgutil.iter_modules(tacit.dp.__path__)]


def loaded_by(modules: list[str]) -> set[str]:
    """Top-level names in ``sys.modules`` of a fresh interpreter that has imported ``modules``."""
    code = f"import sys, {', '.join(modules)}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize(
    "modules",
    [ACCOUNTING, ["tacit.rules.table"], ["client_agent.agent", "client_agent.device_rules"]],
    ids=["tacit.dp", "tacit.rules.table", "client_agent"],
)
def test_a_device_loads_nothing_that_only_operators_and_servers_need(modules: list[str]) -> None:
    loaded = loaded_by(modules)
    assert {"math", modules[0].partition(".")[0]} <= loaded
    assert not loaded & HEAVY


def test_a_claim_is_arithmetic_alone() -> None:
    assert not loaded_by(ACCOUNTING) & (HEAVY | NOT_ARITHMETIC)
