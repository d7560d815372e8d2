"""Staging: every organisation of a stack beside the others, and hundreds of real devices that come and go."""
