"""Alembic support: leave our tables alone in autogenerate, and make them in a migration.

In `env.py`:

    context.configure(..., include_object=turnabout.alembic.include_object)

In a migration:

    def upgrade():
        turnabout.alembic.upgrade(op)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def include_object(object_: Any, name: str | None, *_: Any) -> bool:
    """Whether Alembic may compare this with your models: false for what is Turnabout's, which no
    model has, and which `--autogenerate` would remove.
    """
    table = getattr(object_, "table", object_)  # of an index, a column or a constraint
    schema = getattr(table, "schema", None) or ""
    names = (name or "", getattr(table, "name", None) or "")
    is_ours = schema.split("_")[0] == "turnabout" or any(n.startswith("turnabout_") for n in names)
    return not is_ours


def upgrade(op: Any, *, since: Mapping[str, int] | None = None) -> None:
    """Bring the database to this version's schema, in the transaction of the migration.

    op:    Alembic's `op`. On SQLite its engine has to leave transactions to SQLAlchemy, as the
           pages of SQLAlchemy about SQLite say.
    since: the last step that the database has, of the core and of each slice, as
           `turnabout migrate status` says: `{"": 2, "pipeline": 1}`. None: it has nothing yet.
    Raises: UsageError for another dialect.
    """
    from turnabout._connect import installer

    dialect = op.get_context().dialect.name
    for statement in installer(f"{dialect}://").steps(since or {}):
        op.execute(statement)
