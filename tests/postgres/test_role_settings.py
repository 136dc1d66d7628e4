"""What an administrator has set for a role (`alter role … set`): connections of ours set what they
need, and doctor says where they can't.
"""

from typing import Any

import psycopg
import pytest

import turnabout
from tests.sql.roles import owner, role, set_for
from turnabout.cli._check import check_of
from turnabout.postgres import doctor
from turnabout.words.verbs import Send

__all__ = ["owner", "role"]

pytestmark = pytest.mark.slow  # a database for each

SET = {
    "default_transaction_isolation": "serializable",
    "statement_timeout": "9s",
    "lock_timeout": "8s",
}
SHOWN = b"select " + b", ".join(b"current_setting('%s')" % name.encode() for name in SET)


@pytest.fixture
def strict(owner, role) -> str:
    """The URL of a role whose sessions begin so."""
    url = role("produce", "consume")
    set_for(owner, url, SET)
    return url


@pytest.mark.parametrize("option", ["", "prepare=off"])
def test_connections_set_what_they_need(strict, option):
    with turnabout.connect(f"{strict}{'&' if '?' in strict else '?'}{option}") as mq:
        mq.queue("q").send("x")
        pool: Any = mq.store._pool  # type: ignore[attr-defined]
        (connection,) = pool._idle
        assert connection.run(SHOWN, ()) == [("read committed", "0", "0")]


def test_behind_a_pooler_nobody_else_s_session_is_changed(strict, monkeypatch):
    """It names another process than the server itself does."""
    from turnabout.postgres._sync import libpq

    own = libpq.OWN_SETTINGS.replace(b"pg_backend_pid()", b"pg_backend_pid() + 1")
    monkeypatch.setattr(libpq, "OWN_SETTINGS", own)
    with turnabout.connect(strict) as mq:
        mq.store.run_transaction([Send("q", (turnabout.message("x"),))])
        pool: Any = mq.store._pool  # type: ignore[attr-defined]
        (connection,) = pool._idle
        assert connection.run(SHOWN, ()) == [tuple(SET.values())]
        connection.run(b"begin isolation level read committed", ())
        assert connection.run(b"show transaction_isolation", ()) == [("read committed",)]


def test_doctor_says_what_is_in_the_way(strict, owner):
    def told(url: str) -> dict[str, str]:
        with psycopg.connect(url, autocommit=True) as db:
            return {c.name: c.text for c in map(check_of, doctor.of_role(db))}

    assert told(owner) == {"role settings": "leave our calls alone"}
    said = told(strict)["role settings"]
    for name, value in SET.items():
        assert f"{name} = {value}" in said
