"""Looks into a database by a connection of their own, beside the library."""

from typing import Any

import psycopg

from tests.support.until import until


def ask(url: str, sql: Any, *parameters: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement, if it has any."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


def eventually(url: str, sql: str, *parameters: Any) -> Any:
    """The first row of a query, once there is one."""
    return until(lambda: ask(url, sql, *parameters), lambda: sql)[0]
