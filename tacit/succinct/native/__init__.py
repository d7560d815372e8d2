"""Counting supports in C, beside the pure-Python implementation that is its oracle and fallback."""
