"""Federated learning in memory: many devices at once, without the wire."""
