"""Batched Prio3 in C, beside the pure-Python implementation that is its oracle, slow path and fallback."""

from __future__ import annotations

from tacit.native_level import LEVELS, OFF
from tacit.vdaf.native.library import level, usable_levels

__all__ = ["LEVELS", "OFF", "level", "usable_levels"]
