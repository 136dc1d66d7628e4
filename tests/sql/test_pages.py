"""The SQL that the pages show runs on PostgreSQL, block by block."""

import contextlib
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

import turnabout
from tests.docs.pages import ROOT, blocks, name
from tests.support.doors import migrate
from tests.support.postgres import fresh_database

PAGES = [
    page
    for page in sorted(ROOT.joinpath("docs").rglob("*.md"))
    if any(block.language == "sql" for block in blocks(page.read_text()))
]
ROLES = ("web", "worker", "admin")


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_the_sql_of_a_page_runs(page: Path, postgres_server) -> None:
    with fresh_database(postgres_server, fill=migrate) as url:
        try:
            with psycopg.connect(url, autocommit=True) as connection:
                for block in blocks(page.read_text()):
                    if block.language == "sql":
                        connection.execute(block.text.encode())
            with turnabout.connect(url) as mq:
                assert "grants" in page.name or sum(one.ready for one in mq.stats()) > 10
        finally:
            forget_roles(url)


def forget_roles(url: str) -> None:
    """Roles belong to the server: they must not meet another test."""
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ROLES:
            for what in ("drop owned by {}", "drop role {}"):
                with contextlib.suppress(psycopg.errors.UndefinedObject):
                    connection.execute(sql.SQL(what).format(sql.Identifier(role)))


def test_there_are_such_pages() -> None:
    assert {page.name for page in PAGES} >= {"grants.md", "sql-producers.md"}
