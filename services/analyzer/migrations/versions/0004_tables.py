"""The oldest revision whose databases are opened. New databases get their tables from ``services.analyzer.schema``."""

revision = "0004"
down_revision = None
