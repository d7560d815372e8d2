"""Staging: all organisations of a stack on one machine, and hundreds of real devices that come and go."""
