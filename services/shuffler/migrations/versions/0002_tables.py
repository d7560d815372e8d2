"""The oldest revision whose databases are opened. New databases get their tables from ``services.shuffler.schema``."""

revision = "0002"
down_revision = None
