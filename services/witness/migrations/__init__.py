"""Migrations of the witness's database."""
