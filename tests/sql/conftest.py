"""What the tests of plain SQL can ask for."""

from tests.sql.roles import owner, role

__all__ = ["owner", "role"]
