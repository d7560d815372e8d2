"""Announcements over MQTT, and replay windows in Redis."""
