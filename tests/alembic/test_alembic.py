"""An application whose schema is Alembic's, with our tables beside its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Column, Index, Integer, MetaData, Table

import turnabout
import turnabout.alembic
from turnabout import UsageError

# SQLAlchemy says what it doesn't know of our indexes and types before it asks whether it may look.
pytestmark = pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")


@contextmanager
def opened(url: str) -> Iterator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    if url.startswith("sqlite"):
        sqlalchemy.event.listen(engine, "connect", _no_transactions_of_its_own)
        sqlalchemy.event.listen(engine, "begin", lambda c: c.exec_driver_sql("begin"))
    yield engine
    engine.dispose()


def _no_transactions_of_its_own(connection: Any, _: Any) -> None:
    connection.isolation_level = None


def upgraded_and_compared(url: str, engine: sqlalchemy.Engine) -> None:
    models = MetaData()
    orders = Table("orders", models, Column("id", Integer, primary_key=True))
    with engine.begin() as connection:
        turnabout.alembic.upgrade(Operations(MigrationContext.configure(connection)))
    with turnabout.connect(url) as mq:
        assert mq.queue("emails").send("x").id == 1
    options = {"include_object": turnabout.alembic.include_object, "include_schemas": True}
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts=options)
        ((what, table),) = compare_metadata(context, models)
        assert (what, table.name) == ("add_table", orders.name)
        models.create_all(connection)
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, models) == []


def test_a_migration_on_sqlite_brings_our_schema_and_autogenerate_leaves_it_alone(
    tmp_path: Path,
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with opened(url) as engine:
        upgraded_and_compared(url, engine)


@pytest.mark.slow
def test_so_does_one_on_postgresql(postgres_url: str) -> None:
    with opened(postgres_url) as engine:
        upgraded_and_compared(postgres_url, engine)


def test_what_is_ours() -> None:
    own = Table("turnabouts", MetaData(), Column("id", Integer))
    ours = Table("turnabout_queue", MetaData(), Column("id", Integer))
    there = Table("queue", MetaData(), Column("id", Integer), schema="turnabout")
    set_ = Table("queue", MetaData(), Column("id", Integer), schema="turnabout_1")
    found = [turnabout.alembic.include_object(one, one.name, "table", True, None)
             for one in (own, ours, there, set_)]  # fmt: skip
    assert found == [True, False, False, False]
    index = Index("by_id", ours.c.id)
    assert not turnabout.alembic.include_object(index, index.name, "index", True, None)


def test_another_dialect_is_refused() -> None:
    operations = Operations(MigrationContext.configure(dialect_name="mysql"))
    with pytest.raises(UsageError, match="no store for 'mysql'"):
        turnabout.alembic.upgrade(operations)
