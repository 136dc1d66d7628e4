"""What the server says is told as what it is: after an answer nobody has to guess."""

from typing import Any

import psycopg
import pytest
from psycopg import errors

import turnabout
from tests.postgres.asking import ask
from turnabout.postgres.errors import NoAnswer, translate
from turnabout.words.errors import (
    BrokenInvariant,
    Busy,
    Disconnected,
    TurnaboutError,
    Uncertain,
    UsageError,
)

URL = "postgresql://app@localhost/app"
CODES = sorted(
    {
        code
        for one in vars(errors).values()
        if isinstance(code := getattr(one, "sqlstate", None), str)
    }
)


def told(code: str, *, sent: bool = True) -> TurnaboutError:
    return translate(errors.lookup(code)("in the server's words"), URL, sent=sent)


def test_only_a_lost_connection_leaves_it_open_what_happened() -> None:
    """Every code that psycopg knows."""
    assert len(CODES) > 200
    for code in CODES:
        error = told(code)
        is_lost = (code[:2] in ("08", "57") and code != "57014") or code in ("53300", "40003")
        assert isinstance(error, Uncertain) is is_lost, code
        assert isinstance(told(code, sent=False), Disconnected) is is_lost or code == "25006", code
        passes = code.startswith(("25006", "25P0", "40", "53", "55P0", "57014", "58"))
        assert error.retryable is (passes and not is_lost), code


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("55000", UsageError),  # as of a publication's table without an identity
        ("54000", UsageError),  # as of a character that LATIN1 does not have
        ("F0000", UsageError),
        ("HV000", UsageError),
        ("53200", Busy),
        ("58030", Busy),
        ("XX000", BrokenInvariant),
    ],
)
def test_what_the_server_refuses_has_not_happened(code: str, kind: type[Any]) -> None:
    assert type(told(code)) is kind


def test_without_a_code_it_is_the_client_s() -> None:
    lost = psycopg.OperationalError("server closed the connection unexpectedly")
    assert isinstance(translate(lost, URL, sent=True), Uncertain)
    assert isinstance(translate(NoAnswer("nothing"), URL), Disconnected)
    assert isinstance(translate(psycopg.DataError("cannot contain NUL"), URL), BrokenInvariant)


@pytest.mark.slow
def test_a_setting_that_refuses_our_calls_is_told(migrated_url: str) -> None:
    name = "turnabout_narrow"
    ask(migrated_url, f"drop role if exists {name}".encode())
    ask(migrated_url, f"create role {name} login superuser".encode())
    try:
        setting = f"alter role {name} set restrict_nonsystem_relation_kind = 'view'"
        ask(migrated_url, setting.encode())
        with turnabout.connect(migrated_url.replace("postgres@", f"{name}@")) as mq:
            queue = mq.queue("q")
            queue.create()
            with pytest.raises(UsageError, match="administrator has set") as refused:
                queue.stats()
            assert not refused.value.retryable
    finally:
        ask(migrated_url, f"drop role {name}".encode())


@pytest.mark.slow
def test_every_bound_of_a_value_is_told_in_words(migrated_url: str) -> None:
    """A domain's constraint is named by its sentence; a column's is found by its name."""
    domains = ask(
        migrated_url,
        "select c.conname, c.contypid::regtype::text from pg_constraint c"
        " where c.connamespace = 'turnabout'::regnamespace and c.contypid <> 0",
    )
    assert len(domains) > 15
    assert [name for name, _ in domains if name.endswith("_check")] == []
    with psycopg.connect(migrated_url, autocommit=True) as connection:
        for wrong, said in (
            ("select '-1'::turnabout.delay", "the rule is: a delay is 0 to 366 days"),
            ("select turnabout.queue_create('q', '{\"lease_ms\": 0}')", "lease_ms is out of range"),
            ("select turnabout.queue_create('q', '{\"lease_ms\": null}')", "lease_ms is missing"),
        ):
            with pytest.raises(psycopg.Error) as raised:
                connection.execute(wrong.encode())
            assert str(translate(raised.value, URL)) == f"PostgreSQL refused a value: {said}"
