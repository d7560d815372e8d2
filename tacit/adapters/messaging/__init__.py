"""Queues, announcements and replay windows, within the process or on Redis and MQTT."""
