"""The oldest revision whose databases are opened. New databases get their tables from ``services.issuer.schema``."""

revision = "0001"
down_revision = None
