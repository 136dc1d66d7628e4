"""Databases and roles as administrators have made them: what works, and what is said at once."""

from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg import sql

import turnabout
from tests.conformance.steps import maintained
from tests.postgres.asking import ask
from tests.sql.roles import owner, role, set_for
from tests.support.postgres import fresh_database
from turnabout import Forbidden, UsageError
from turnabout.postgres import install

__all__ = ["owner", "role"]

pytestmark = pytest.mark.slow  # a database for each

MEANINGS = {
    "standard_conforming_strings": "off",
    "array_nulls": "off",
    "bytea_output": "escape",
    "DateStyle": "German",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-15",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "search_path": "pg_catalog",
    "client_encoding": "LATIN1",
    "row_security": "off",
}
"""Settings by which literals and values mean something else, or look otherwise."""


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused_at_once(
    postgres_server: Any, encoding: str
) -> None:
    with fresh_database(postgres_server) as url:
        name = f"db_{encoding.lower()}"
        ask(url, f"drop database if exists {name}".encode())
        ask(url, f"create database {name} encoding '{encoding}' template template0"
            " lc_collate 'C' lc_ctype 'C'".encode())  # fmt: skip
        given = psycopg.conninfo.conninfo_to_dict(url) | {"dbname": name}
        there = f"postgresql://?{urlencode(given)}"
        try:
            with pytest.raises(UsageError, match=f"encoding {encoding}, and Turnabout needs UTF8"):
                install.up(there)
            with turnabout.connect(there) as mq, pytest.raises(UsageError, match="needs UTF8"):
                mq.queue("q").send("x")
        finally:
            ask(url, f"drop database {name}".encode())


@pytest.mark.parametrize("option", ["", "prepare=off"])
def test_settings_that_change_meanings_change_nothing(owner: str, role: Any, option: str) -> None:
    url = role("operate")
    set_for(owner, url, MEANINGS)
    with turnabout.connect(f"{url}{'&' if '?' in url else '?'}{option}") as mq:
        queue = mq.queue("a_queue.x-1")
        queue.create(events="all")
        queue.channel("\\'ü").set_policy(turnabout.Policy(max_concurrency=1))
        queue.send("ü\\n", channel="\\'ü", headers={"a": "\\"}, delay_seconds=0)
        queue.send_many([turnabout.message("y", priority=n) for n in range(3)])
        for message in queue.receive(10):
            message.ack(result="\\x00")
        assert {m.channel for m in queue.history().entries} == {"", "\\'ü"}
        results = {entry.result.text() for entry in queue.history().entries if entry.result}
        assert results == {"\\x00"}
        maintained(queue)
    with psycopg.connect(url) as connection:
        connection.execute("set standard_conforming_strings = off")
        connection.execute("select turnabout.send('by_hand', '{}')")


def test_a_role_that_only_reads_is_named(owner: str, role: Any) -> None:
    url = role("operate")
    with turnabout.connect(owner) as mq:
        mq.queue("q").send("x")
    set_for(owner, url, {"default_transaction_read_only": "on"})
    with turnabout.connect(url) as mq:
        assert mq.queue("q").stats().ready == 1
        with pytest.raises(
            Forbidden, match=r"this role are read-only \(cannot execute nextval.*alter role"
        ):
            mq.queue("q").send("y")
        assert len(mq.queue("q").peek()) == 1


def test_what_a_restore_has_not_brought_is_made(owner: str) -> None:
    """`pg_dump -n turnabout` leaves out the schema of this library's own functions."""
    for (place,) in ask(owner, "select place from turnabout.revision"):
        ask(owner, sql.SQL("drop schema {} cascade").format(sql.Identifier(place)))
    assert install.status(owner).pending
    assert install.up(owner)
    with turnabout.connect(owner) as mq:
        mq.queue("q").send("x")
