"""What measurements of running services leave out on this machine."""

from __future__ import annotations

from infra.views.terminal import notes
from tacit.extras import install_command


def tell_of_driver(servers: list[str] | None = None) -> None:
    """Say where PostgreSQL would be measured, as ``servers`` names none, but its driver is missing."""
    if servers is not None:
        return
    from infra.lab.bench.loading.storage import lacks_driver

    if lacks_driver():
        notes().print(f"SQLite alone is measured: PostgreSQL is here, but not asyncpg ({install_command('postgres')})")
