"""The oldest revision whose databases are opened. New databases get their tables from ``recipe_server.schema``."""

revision = "0012"
down_revision = None
