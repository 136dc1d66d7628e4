"""What may stand in a PostgreSQL URL, and what is said when it leads nowhere."""

import traceback
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

import turnabout
import turnabout.aio
from tests.support.each import each
from tests.support.postgres import one_migrated_url
from turnabout import Busy, Disconnected, Forbidden, TurnaboutError, Unavailable, UsageError
from turnabout.postgres.url import NETWORK, address, parse

HERE = "postgresql://u@h/db"


url = one_migrated_url


def and_also(url: str, options: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{options}"


# --- without a server ----------------------------------------------------------------------------


def test_options_have_defaults():
    options = parse(HERE)
    assert (options.prepare, options.listen, options.conninfo) == (True, True, HERE)
    assert (options.poll_seconds, options.max_connections, options.busy_seconds) == (1.0, 16, 30.0)
    assert options.call_seconds == 60.0


def test_a_silent_network_is_noticed_unless_the_url_or_the_environment_says_when(monkeypatch):
    def asked(more: str = "") -> dict[str, Any]:
        return psycopg.conninfo.conninfo_to_dict(address(f"{HERE}{more}", "turnabout"))

    assert asked() == {"user": "u", "host": "h", "dbname": "db", **NETWORK} | {
        "fallback_application_name": "turnabout",
        "client_encoding": "utf8",
    }
    assert asked("?keepalives_idle=5&connect_timeout=7")["keepalives_idle"] == "5"
    assert asked("?keepalives_idle=5&connect_timeout=7")["connect_timeout"] == "7"
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "3")
    assert "connect_timeout" not in asked()


@each(
    "url",
    # https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS
    [
        "postgresql://",
        "postgresql://localhost",
        "postgresql://localhost:5433",
        "postgresql://localhost/mydb",
        "postgresql://user@localhost",
        "postgresql://user:secret@localhost",
        "postgresql://other@localhost/otherdb?connect_timeout=10&application_name=myapp",
        "postgresql://host1:123,host2:456/somedb?target_session_attrs=any",
        "postgres://user@localhost:5433/mydb?options=-c%20synchronous_commit%3Doff",
        "postgresql:///mydb?host=localhost&port=5433",
        "postgresql://[2001:db8::1234]/database",
        "postgresql:///dbname?host=/var/lib/postgresql",
        "postgresql://%2Fvar%2Flib%2Fpostgresql/dbname",
        "postgresql://?host=/run/postgresql&dbname=a%23b",
    ],
)
def test_every_form_of_libpq_s_works(url):
    read = psycopg.conninfo.conninfo_to_dict
    assert read(parse(url).conninfo) == read(url)
    options = parse(and_also(url, "prepare=off"))
    assert (read(options.conninfo), options.prepare) == (read(url), False)


def test_ours_are_taken_out_and_libpq_s_stay():
    options = parse(
        f"{HERE}?prepare=off&application_name=x&listen=off&poll_seconds=0.5&sslmode=disable"
        "&max_connections=3&busy_seconds=2"
    )
    assert options.conninfo == f"{HERE}?application_name=x&sslmode=disable"
    assert (options.prepare, options.listen) == (False, False)
    assert (options.poll_seconds, options.max_connections, options.busy_seconds) == (0.5, 3, 2.0)


@each(
    "wrong",
    [
        "prepare=maybe",
        "prepare=",
        "listen=1",
        "listen=OFF",
        "poll_seconds=0",
        "poll_seconds=-1",
        "poll_seconds=soon",
        "poll_seconds=nan",
        "poll_seconds=inf",
        "busy_seconds=0",
        "busy_seconds=3601",
        "call_seconds=0",
        "call_seconds=never",
        "max_connections=0",
        "max_connections=1001",
        "max_connections=2.5",
    ],
)
def test_an_unknown_value_is_refused_by_name(wrong):
    name = wrong.partition("=")[0]
    for connect in (turnabout.connect, turnabout.aio.connect):
        with pytest.raises(UsageError, match=name):
            connect(f"{HERE}?{wrong}")


@each("value", ["-c lock_timeout=200", "a+b", "50%", "ä", "a&b=c", "/tmp/x y"])
def test_values_for_libpq_arrive_as_they_were(value):
    options = parse(f"postgresql://h/db?prepare=off&options={quote(value, safe='')}")
    assert psycopg.conninfo.conninfo_to_dict(options.conninfo)["options"] == value


SECRET = "s3cr3t"
NOWHERE = [
    f"postgresql://bob:{SECRET}@127.0.0.1:1/db",
    f"postgresql://bob@127.0.0.1:1/db?password={SECRET}",
    f"postgresql://bob@127.0.0.1:1/db?listen=off&password={SECRET}&connect_timeout=2",
    f"postgresql://bob:{SECRET}%40x@127.0.0.1:1/db",
    f"postgresql://bob:{SECRET}@127.0.0.1:1,127.0.0.1:2/db",
    f"postgresql://bob:{SECRET}@/db?host=/nowhere/at/all",
    f"postgresql://127.0.0.1:1/db?sslpassword={SECRET}",
    f"postgresql://127.0.0.1:1/db?p%61ssword={SECRET}",
]


@each("nowhere", NOWHERE)
def test_an_unreachable_server_is_disconnected_and_no_password_is_shown(nowhere):
    with turnabout.connect(nowhere) as mq:
        for call in (lambda: mq.queue("q").send("x"), lambda: mq.queue("q").receive()):
            with pytest.raises(Disconnected) as refused:
                call()
            assert SECRET not in "".join(traceback.format_exception(refused.value))
            assert "127.0.0.1" in str(refused.value) or "nowhere" in str(refused.value)


@each(
    "wrong",
    [
        f"postgresql://bob:{SECRET}@127.0.0.1:port/db",
        "postgresql://u@127.0.0.1:1/db?prepaer=off",
        f"postgresql://bob:{SECRET}@127.0.0.1:1/db?sslmode=perhaps",
        f"postgresql://bob:{SECRET}%zz@127.0.0.1:1/db",
        f"postgresql://bob@127.0.0.1:1/db?password={SECRET}%zz",
        f"postgresql://bob:{SECRET}/x@127.0.0.1:1/db",
        f"postgresql://127.0.0.1:{SECRET}/x@127.0.0.1:1/db",
    ],
)
def test_what_libpq_cannot_read_is_no_outage(wrong):
    """To repeat the call would not help: it must not look as if it did."""
    with pytest.raises(TurnaboutError) as refused, turnabout.connect(wrong) as mq:
        mq.queue("q").send("x")
    assert not refused.value.retryable, repr(refused.value)
    assert not isinstance(refused.value, Unavailable)
    assert SECRET not in "".join(traceback.format_exception(refused.value))


# --- with one ------------------------------------------------------------------------------------

with_server = pytest.mark.slow


@with_server
@pytest.mark.parametrize(("prepare", "prepared"), [("on", True), ("off", False)])
def test_prepare_off_prepares_nothing(url, prepare, prepared):
    with turnabout.connect(and_also(url, f"prepare={prepare}&max_connections=1")) as mq:
        queue = mq.queue("prepare")
        for _ in range(10):
            queue.send("x")
            (m,) = queue.receive()
            assert m.ack() == turnabout.Acked()
        connection = mq.store._pool.take()
        rows = connection.raw.execute("select count(*) from pg_prepared_statements").fetchone()
        mq.store._pool.put(connection)
        assert (rows[0] > 0) is prepared


@with_server
def test_a_lock_timeout_of_the_session_is_busy(url):
    with (
        turnabout.connect(and_also(url, "options=-clock_timeout%3D200")) as mq,
        psycopg.connect(url) as other,
    ):
        queue = mq.queue("locked")
        queue.create()
        other.execute("lock table turnabout.message in access exclusive mode")
        with pytest.raises(Busy, match="nothing happened"):
            queue.send("x")
        other.rollback()
        assert queue.stats().sent == 0


@with_server
def test_a_read_only_session_may_look_and_not_touch(url):
    with turnabout.connect(url) as mq:
        mq.queue("readonly").send("x")
    with turnabout.connect(and_also(url, "options=-cdefault_transaction_read_only%3Don")) as mq:
        queue = mq.queue("readonly")
        assert queue.stats().ready == 1
        assert len(queue.peek()) == 1
        for call in (lambda: queue.send("x"), queue.receive, queue.purge):
            with pytest.raises(Forbidden, match="read-only"):
                call()
        assert queue.stats().ready == 1
