"""The oldest revision whose databases are opened. New databases get their tables from ``attester.schema``."""

revision = "0003"
down_revision = None
