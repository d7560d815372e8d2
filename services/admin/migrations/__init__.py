"""Migrations of the admin service's database."""
