"""What the measurements of running services need on this machine."""

from __future__ import annotations

from infra.views.terminal import notes
from tacit.extras import install_command, require_extra


def needs_services(*packages: str) -> None:
    """Raise ``UsageError`` where psutil or one of ``packages`` is missing; say where PostgreSQL is left out because its
    driver is."""
    require_extra("this measurement", "bench", "psutil", *packages)
    from infra.lab.bench.loading.storage import lacks_driver

    if lacks_driver():
        notes().print(f"SQLite alone is measured: PostgreSQL is here, but not asyncpg ({install_command('postgres')})")
