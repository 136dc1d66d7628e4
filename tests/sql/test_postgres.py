"""Sending to PostgreSQL without the library: `turnabout.send(…)` and the view `turnabout_inbox`."""

import json
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.types.json import Jsonb

import turnabout
from tests.sql.wrong import AT_THE_LIMIT, WRONG
from tests.support.postgres import fresh_database, migrated_url, psql
from turnabout.postgres import install

pytestmark = pytest.mark.slow  # a database for each


url = migrated_url


@pytest.fixture
def connection(url):
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def mq(url):
    with turnabout.connect(url) as mq:
        yield mq


def call(connection: psycopg.Connection, **arguments: Any) -> int:
    """`turnabout.send` with these arguments by name; the id."""
    given = {"queue": "work", "payload": "x"} | arguments
    named = sql.SQL(", ").join(
        sql.SQL("{} => {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in given
    )
    statement = sql.SQL("select turnabout.send({})").format(named)
    ((id_,),) = connection.execute(statement, adapted(given))
    return id_


def insert(connection: psycopg.Connection, **arguments: Any) -> int:
    """The same through the view."""
    given = {"queue": "work", "payload": "x"} | arguments
    statement = sql.SQL("insert into turnabout_inbox ({}) values ({}) returning id").format(
        sql.SQL(", ").join(map(sql.Identifier, given)),
        sql.SQL(", ").join(map(sql.Placeholder, given)),
    )
    ((id_,),) = connection.execute(statement, adapted(given))
    return id_


def adapted(given: dict[str, Any]) -> dict[str, Any]:
    headers = given.get("headers")
    return given if headers is None else given | {"headers": Jsonb(headers)}


def with_option(url: str, option: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}{option}"


both = pytest.mark.parametrize("send", [call, insert])


def test_from_psql(postgres_server, url, mq):
    said = psql(
        postgres_server,
        url,
        "select turnabout.send(queue => 'emails', payload => '{\"a\":1}');\n"
        "select turnabout.send('emails', 'hello', channel => 'ada',"
        ' headers => \'{"trace":"7"}\');\n'
        "select turnabout.send('emails', jsonb_build_object('n', 1));\n"
        "select turnabout.send('emails', '\\xff00'::bytea);\n"
        "insert into turnabout_inbox (queue, payload)"
        " values ('emails', 'by the view'), ('emails', '[]');\n"
        # Names that the form for many messages has, too.
        "begin; select turnabout.send('emails', 'x', headers => '{\"trace\":\"7\"}');\n"
        "select turnabout.send('emails', 'x', headers => null, content_type => 'a/b'); rollback;\n",
    )
    assert (said.returncode, said.stdout.split()) == (0, [*"1234", *"78"]), said.stderr
    queue = mq.queue("emails")
    seen = {m.id: m for m in queue.receive(10)}
    assert {m.id: m.content_type for m in seen.values()} == {
        1: "application/json",
        2: "text/plain; charset=utf-8",
        3: "application/json",
        4: "application/octet-stream",
        5: "text/plain; charset=utf-8",
        6: "application/json",
    }
    assert (seen[1].json(), seen[3].json(), seen[4].payload) == ({"a": 1}, {"n": 1}, b"\xff\x00")
    assert (seen[2].channel, seen[2].headers) == ("ada", {"trace": "7"})

    psql(postgres_server, url, "select turnabout.send('deep', repeat('[', 100000));")
    (deep,) = mq.queue("deep").receive()
    assert deep.content_type == "text/plain; charset=utf-8"
    said = psql(postgres_server, url, "select turnabout.send('no name', 'x');")
    assert (said.returncode, said.stdout) == (3, "")
    assert "is not a valid queue name" in said.stderr


@both
def test_it_is_a_send_like_any_other(url, connection, mq, send):
    """Each option arrives as when the library sends it."""
    options: dict[str, Any] = {
        "channel": "ada",
        "priority": -3,
        "delay_seconds": 60,
        "headers": {"trace": "7", "é": "\n"},
        "content_type": "text/csv",
        "ttl_seconds": 3600.5,
    }
    mq.queue("work").send("x", **options)
    send(connection, **options)
    rows = connection.execute(
        "select m.queue_id, m.channel, m.priority, s.limited, s.at = m.at, m.at - m.sent_at,"
        " m.headers::jsonb, m.content_type, m.expires_at - m.sent_at, m.payload"
        " from turnabout.message m join turnabout.scheduled s on s.id = m.id order by m.id"
    ).fetchall()
    assert rows[0] == rows[1]
    assert rows[0][5:7] == (60_000, options["headers"])
    assert mq.queue("work").stats().sent == 2


@both
def test_due_at_is_an_instant(connection, mq, send):
    mq.queue("work").create(delay_seconds=5)
    ((due,),) = connection.execute("select now() + interval '1 hour'").fetchall()
    send(connection, due_at=due)
    send(connection, due_at="1999-01-01T00:00Z")
    with pytest.raises(psycopg.DatabaseError, match="a delay or a due_at, not both"):
        send(connection, due_at=due, delay_seconds=0)
    for wrong in ("infinity", "-infinity", "9999-01-01", "1969-01-01T00:00Z"):
        with pytest.raises(psycopg.DatabaseError, match=r"^due_at is "):
            send(connection, due_at=wrong)
    rows = connection.execute(
        "select at - (extract(epoch from %s::timestamptz) * 1000)::bigint from turnabout.message"
        " order by id",
        (due,),
    ).fetchall()
    assert rows in ([(0,), (None,)], [(1,), (None,)])  # rounded up


@both
def test_what_is_left_out_is_as_the_queue_says(connection, mq, send):
    mq.queue("work").create(delay_seconds=5, ttl_seconds=50)
    send(connection)
    send(connection, channel=None, priority=None, delay_seconds=None, headers=None)
    rows = connection.execute(
        "select channel, priority, at - sent_at, expires_at - sent_at, headers, content_type"
        " from turnabout.message order by id"
    ).fetchall()
    assert rows == [("", 0, 5_000, 50_000, None, "text/plain; charset=utf-8")] * 2


@both
def test_at_its_limits(connection, mq, send):
    for arguments in AT_THE_LIMIT:
        id_ = send(connection, **arguments)
        queue = mq.queue(arguments.get("queue", "work"))
        (peeked,) = queue.peek(1, after_id=id_ - 1)
        assert peeked.id == id_
        for name in ("channel", "priority", "headers", "content_type"):
            if name in arguments:
                assert getattr(peeked, name) == arguments[name]


@both
def test_what_is_refused(connection, send):
    for arguments, text in WRONG:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=text):
            send(connection, **arguments)
        assert connection.execute("select from turnabout.message").rowcount == 0, arguments


def test_a_text_is_json_if_it_is_an_object_or_a_list(connection):
    texts = ['{"a": 1}', " [1]", "{", "[oops", "1", '"x"', "null", "", "{}", "[]"]
    for text in texts:
        call(connection, payload=text)
    kinds = connection.execute(
        "select content_type like '%json' from turnabout.message order by id"
    )
    assert [text for text, (is_json,) in zip(texts, kinds, strict=True) if is_json] == [
        '{"a": 1}',
        " [1]",
        "{}",
        "[]",
    ]


@both
def test_a_full_channel_or_queue_says_so_and_takes_nothing(connection, mq, send):
    queue = mq.queue("work")
    queue.create(max_messages=3)
    queue.channel("small").change_policy(max_size=1)
    send(connection, channel="small")
    with pytest.raises(psycopg.Error, match="channel 'small' of the queue 'work' holds 1 of 1"):
        send(connection, channel="small")
    send(connection)
    send(connection)
    with pytest.raises(psycopg.Error, match="queue 'work' holds 3 of 3") as refused:
        send(connection)
    assert refused.value.sqlstate == "PQ429"
    assert (queue.stats().ready, queue.stats().sent) == (3, 3)


@both
def test_the_same_key_sends_once_and_answers_with_the_message_that_stays(connection, mq, send):
    first = send(connection, payload="1", dedup_key="k")
    assert send(connection, payload="2", dedup_key="k") == first
    assert mq.queue("work").send("3", dedup_key="k").ids == (first,)
    assert send(connection, payload="4", dedup_key="k", dedup_mode="latest") == first
    (peeked,) = mq.queue("work").peek()
    assert peeked.payload == b"4"


@both
def test_it_commits_and_rolls_back_with_the_rows_beside_it(url, connection, mq, send):
    connection.execute("create table mine (id int)")
    with psycopg.connect(url) as own:
        own.execute("insert into mine values (1)")
        send(own)
        own.rollback()
        own.execute("insert into mine values (2)")
        send(own)
    assert connection.execute("select * from mine").fetchall() == [(2,)]
    assert mq.queue("work").stats().sent == 1


def test_the_view_sends_what_a_query_finds_all_or_none(connection, mq):
    connection.execute(
        "insert into turnabout_inbox (queue, payload, channel)"
        " select 'work', json_build_object('n', n), 'c' || n % 3 from generate_series(1, 9) n"
    )
    assert mq.queue("work").stats().ready == 9
    with pytest.raises(psycopg.Error, match="priority is"):
        connection.execute(
            "insert into turnabout_inbox (queue, payload, priority) values ('work', 'x', 0),"
            " ('work', 'x', 99999)"
        )
    assert mq.queue("work").stats().ready == 9
    assert connection.execute("select * from turnabout_inbox").fetchall() == []
    with pytest.raises(psycopg.Error, match="the queue assigns the id of a message"):
        insert(connection, id=7)


def test_a_trigger_of_yours_sends(connection, mq):
    connection.execute(
        "create table orders (id int primary key, total int);"
        "create function order_placed() returns trigger language plpgsql as $$ begin"
        " perform turnabout.send('orders', to_jsonb(new), dedup_key => new.id::text);"
        " return null; end $$;"
        "create trigger order_placed after insert on orders for each row"
        " execute function order_placed();"
        "insert into orders values (1, 20), (2, 30)"
    )
    assert [m.json() for m in mq.queue("orders").receive(5)] == [
        {"id": 1, "total": 20},
        {"id": 2, "total": 30},
    ]


# --- where the view stands -----------------------------------------------------------------------


def place(connection: psycopg.Connection) -> list[str]:
    rows = connection.execute("select schemaname from pg_views where viewname = 'turnabout_inbox'")
    return [name for (name,) in rows]


def test_the_view_stands_where_whoever_installs_looks_first(postgres_server):
    with (
        fresh_database(postgres_server) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute("create schema app")
        install.up(with_option(url, "options=-csearch_path%3Dapp"))
        assert place(connection) == ["app"]
        connection.execute("insert into app.turnabout_inbox (queue, payload) values ('q', 'x')")
        # It stays there, and so does a right that was given on it by hand.
        connection.execute("grant select on app.turnabout_inbox to public")
        connection.execute("alter view app.turnabout_inbox set schema public")
        connection.execute("update turnabout.revision set digest = 'old'")
        install.up(url)
        assert place(connection) == ["public"]
        ((rights,),) = connection.execute(
            "select relacl::text from pg_class where relname = 'turnabout_inbox'"
        )
        assert "=r/" in rights


def test_a_relation_of_yours_is_left_alone(postgres_server):
    with (
        fresh_database(postgres_server) as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        connection.execute("create table turnabout_inbox (mine int)")
        install.up(url)
        assert place(connection) == ["turnabout"]
        connection.execute("insert into turnabout_inbox values (1)")
        connection.execute(
            "insert into turnabout.turnabout_inbox (queue, payload) values ('q', 'x')"
        )
        ((count,),) = connection.execute("select count(*) from turnabout.message")
        assert count == 1


def test_headers_that_plain_sql_sent_are_read_by_the_library(connection, mq):
    call(connection, headers={"a": json.dumps({"deep": "é"}), "b": ""})
    (message,) = mq.queue("work").receive()
    assert message.headers == {"a": '{"deep": "\\u00e9"}', "b": ""}
