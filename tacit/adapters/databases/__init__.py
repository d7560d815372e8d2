"""SQL databases: SQLite and PostgreSQL behind one interface, stores on them, and the mark beside one."""
