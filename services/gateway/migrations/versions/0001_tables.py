"""The oldest revision whose databases are opened. New databases get their tables from ``services.gateway.store``."""

revision = "0001"
down_revision = None
