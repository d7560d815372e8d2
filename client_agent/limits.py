"""Bounds of a device's settings that its commands state too."""

from __future__ import annotations

MAX_CLOCK_ERROR = 366 * 86400.0
"""Most seconds by which a device's clock may be set wrong."""
