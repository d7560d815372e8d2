"""Alembic environment of the admin service's database."""

from __future__ import annotations

from tacit.adapters.migrate import run_environment

run_environment()
