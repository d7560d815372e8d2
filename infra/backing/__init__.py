"""A stack's databases, queue and broker, and the backups of services."""
