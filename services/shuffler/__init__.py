"""The shuffler: keeps the bundles of devices, and forwards their messages in one random order (P25)."""
