"""The admin service's database: its tables, its records and the audit log."""
