"""Alembic environment of the shuffler's database."""

from __future__ import annotations

from tacit.adapters.migrate import run_environment

run_environment()
