"""Databases as the first version left them."""

from pathlib import Path

import psycopg

from turnabout.postgres import install

HERE = Path(__file__).parent


def first_postgres(url: str) -> None:
    """A database of the first version."""
    with psycopg.connect(url) as connection:
        connection.execute("create schema turnabout")
        connection.execute(install.migrations()[0].sql.encode())
        connection.execute((HERE / "first_postgres.sql").read_bytes())
        # It was made by a clock of 2027. History from the future gets a partition that reaches
        # there, which a new database does not have.
        connection.execute(
            "update turnabout.history set finished_at = extract(epoch from now())::bigint * 1000"
        )
