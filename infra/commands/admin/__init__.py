"""``tacit admin``: questions, results, people and the audit log over an admin API."""
