"""The oldest revision whose databases are opened. New databases
get their tables from ``services.admin.storage.schema``."""

revision = "0008"
down_revision = None
