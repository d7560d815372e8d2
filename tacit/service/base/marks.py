"""Where the mark of a service's database lies, for services that record what was spent."""

from __future__ import annotations

from tacit.adapters.databases.recovery import Recovery
from tacit.adapters.databases.watermark import Watermark
from tacit.ports import Clock
from tacit.service.base.config import ServiceConfig


def watermark_of(config: ServiceConfig, name: str, clock: Clock, recovery: Recovery) -> Watermark | None:
    """The mark beside the database ``name``, also for PostgreSQL: ``mark_file``, or ``{state_dir}/{name}.mark``;
    ``None`` in memory."""
    if config.storage == "memory":
        return None
    return Watermark(config.mark_file or config.state_dir.absolute() / f"{name}.mark", clock, recovery)
