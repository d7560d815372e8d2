"""The oldest revision whose databases are opened. New databases get their tables from ``services.leader.schema``."""

revision = "0007"
down_revision = None
