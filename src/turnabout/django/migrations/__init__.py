"""Migrations of the app: they bring the schema of the store."""
