"""The schema and how it comes into a database: once, whole, and the same by every way."""

import re
import subprocess
import sys
import threading
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import psycopg
import pytest

import penstock
from penstock import Disconnected, Sent, WrongVersion
from penstock.pgserver import PostgresServer
from penstock.postgres import install
from penstock.postgres.calls import CALLS
from penstock.words.policy import QueueSettings, settings_row
from penstock.words.verbs import VOCABULARY
from tests.support.doors import migrate
from tests.support.postgres import fresh_database

needs_server = pytest.mark.slow

FOLDER = files("penstock.postgres") / "functions"
FILES = {Path(str(f)).stem: f.read_text(encoding="utf-8") for f in FOLDER.iterdir()}


@pytest.fixture
def migrated(postgres_server):
    with fresh_database(postgres_server, fill=migrate) as url:
        yield url


def ask(url: str, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql, parameters)
        return cursor.fetchall() if cursor.description else []


# --- the files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_holds_one_function_of_its_name_and_opens_with_a_comment(name):
    text = FILES[name]
    assert re.findall(r"(?im)^\s*create\b.*", text) == re.findall(
        rf"(?m)^create or replace function penstock\.{name}\(.*", text
    )
    assert len(re.findall(r"(?i)\bcreate or replace\b", text)) == 1
    assert re.match(r"-- [A-Z].{20,}\n", text), "the first line says what it is for"


def test_migrations_are_numbered_without_gaps():
    steps = install.migrations()
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert all(step.name.startswith(f"{step.number:04}_") for step in steps)


def test_what_nobody_calls_is_not_there():
    """Each function is called by another, or is a verb's."""
    texts = "\n".join([*FILES.values(), *(call.text for call in CALLS.values())])
    calls = re.findall(r"penstock\.(\w+)\(", texts)
    assert {name for name in FILES if calls.count(name) < 2} == set()


# --- verbs and functions -------------------------------------------------------------------------


def test_every_verb_has_its_call_and_nothing_else_has():
    assert set(CALLS) == set(VOCABULARY)


@pytest.mark.parametrize("verb", VOCABULARY, ids=lambda v: v.name)
def test_a_verb_s_call_names_the_function_of_that_verb(verb):
    called = re.findall(r"penstock\.(\w+)\(", CALLS[verb].text)
    assert called == [{"queue_get": "queue_list"}.get(verb.name, verb.name)]


@needs_server
def test_calls_fit_the_functions_parameters(migrated):
    """By position, each parameter has exactly the declared type: nothing is cast on the way."""
    declared = dict(
        ask(
            migrated,
            "select p.proname, array(select format_type(t.oid, null) from unnest(p.proargtypes)"
            " with ordinality a (oid, nr) join pg_type t on t.oid = a.oid order by a.nr)"
            " from pg_proc p where p.pronamespace = 'penstock'::regnamespace",
        )
    )
    names = {"int": "integer", "int[]": "integer[]"}
    with psycopg.connect(migrated) as connection:
        for verb, call in CALLS.items():
            connection.execute(f"prepare {verb.name} as {call.text}".encode())
            name, inside = re.findall(r"penstock\.(\w+)\(([^)]*)\)", call.text)[0]
            given = [word.strip() for word in inside.split(",") if word.strip()]
            types = [word.partition("::")[2] for word in given]
            types = [names.get(t, t) or declared[name][nr] for nr, t in enumerate(types)]
            assert types == declared[name][: len(types)], verb
            numbers = [int(n) for n in re.findall(r"\$(\d+)", call.text)]
            assert sorted(set(numbers)) == list(range(1, max(numbers, default=0) + 1)), verb


@needs_server
def test_settings_by_default_are_the_same_in_sql_and_python(migrated):
    ((in_sql,),) = ask(migrated, "select penstock.default_settings()")
    row = settings_row(QueueSettings())
    assert in_sql == {name: row[name] for name in in_sql}
    assert {name for name, value in row.items() if value is not None} <= set(in_sql)
    columns = ask(migrated, "select to_jsonb(q) from penstock.queue_create('a-dead') q")
    assert {name: columns[0][0][name] for name in row} == row


@needs_server
def test_a_queue_is_the_same_whether_created_or_sent_to(migrated):
    with penstock.connect(migrated) as ps:
        ps.queue("a").create()
        assert isinstance(ps.queue("b").send("x"), Sent)
        created, sent_to = ps.queue("a").settings(), ps.queue("b").settings()
    dead = {"dead_letter": None}
    assert created.changed(dead) == sent_to.changed(dead) == QueueSettings()
    assert (created.dead_letter, sent_to.dead_letter) == ("a-dead", "b-dead")


# --- up and status -------------------------------------------------------------------------------


@needs_server
def test_up_once_and_again(postgres_url):
    wanted = install.migrations()[-1].number
    names = tuple(step.name for step in install.migrations())
    before = install.status(postgres_url)
    assert (before.current, before.wanted, before.pending) == (0, wanted, names)
    assert ask(postgres_url, "select to_regnamespace('penstock')") == [(None,)], "status only looks"

    assert install.up(postgres_url) == (*names, f"functions {install.digest()}")
    after = install.status(postgres_url)
    assert (after.current, after.wanted, after.pending) == (wanted, wanted, ())
    applied = ask(postgres_url, "select number, name, functions, applied_at from penstock.version")
    assert install.up(postgres_url) == ()
    assert applied == ask(
        postgres_url, "select number, name, functions, applied_at from penstock.version"
    )


UP = "import sys; from penstock.postgres import install; print(*install.up(sys.argv[1]))"


@needs_server
def test_ten_processes_at_once_all_succeed_and_one_applies(postgres_url):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", UP, postgres_url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(10)
    ]
    ended = [(process.communicate(timeout=50), process.returncode) for process in started]
    assert [code for _, code in ended] == [0] * 10, [errors for (_, errors), _ in ended]
    assert sum(bool(out.strip()) for (out, _), _ in ended) == 1
    assert install.status(postgres_url).pending == ()


@needs_server
def test_killed_in_the_middle_leaves_nothing_and_runs_again(postgres_url):
    raised: list[BaseException] = []

    def up() -> None:
        try:
            install.up(postgres_url)
        except BaseException as error:  # noqa: BLE001 (looked at below)
            raised.append(error)

    ask(postgres_url, "create schema penstock")
    with psycopg.connect(postgres_url) as other:
        # A name that is taken but not committed stops the migration between its tables.
        other.execute("create table penstock.history (id int)")
        thread = threading.Thread(target=up)
        thread.start()
        (pid,) = wait_for(
            postgres_url,
            "select pid from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock'",
        )
        ask(postgres_url, "select pg_terminate_backend(%s)", pid)
        thread.join(20)
        other.rollback()
    assert len(raised) == 1
    assert isinstance(raised[0], Disconnected)
    assert (
        ask(
            postgres_url,
            "select relname from pg_class where relnamespace = %s::regnamespace",
            "penstock",
        )
        == []
    )
    assert install.status(postgres_url).current == 0
    assert len(install.up(postgres_url)) == len(install.migrations()) + 1
    with penstock.connect(postgres_url) as ps:
        assert isinstance(ps.queue("q").send("x"), Sent)


def wait_for(url: str, sql: str) -> tuple[Any, ...]:
    give_up = time.monotonic() + 20
    while not (rows := ask(url, sql)):
        assert time.monotonic() < give_up, sql
        time.sleep(0.02)
    return rows[0]


# --- other versions ------------------------------------------------------------------------------


@needs_server
def test_a_newer_schema_is_refused_by_all_who_meet_it(migrated):
    ask(migrated, "insert into penstock.version (number, name, functions) values (9000, 'x', 'y')")
    with pytest.raises(WrongVersion, match=r"step 9000.*upgrade penstock"):
        install.up(migrated)
    with penstock.connect(migrated) as ps, pytest.raises(WrongVersion, match="upgrade penstock"):
        ps.queue("q").send("x")
    status = install.status(migrated)
    assert (status.current, status.pending) == (9000, ())
    assert ask(migrated, "select count(*) from penstock.message") == [(0,)]
    functions = ask(migrated, "select functions from penstock.version where number < 9000")
    assert functions == [(install.digest(),)], "a newer library's functions were written over"


@needs_server
def test_other_functions_are_refused_until_up_has_run(migrated):
    ask(migrated, "update penstock.version set functions = 'old'")
    ask(migrated, "drop function penstock.tell")
    ask(migrated, "create function penstock.long_gone() returns int language sql as 'select 1'")
    assert install.status(migrated).pending == (f"functions {install.digest()}",)
    for _ in range(2):  # a refusal is not remembered as a success
        with penstock.connect(migrated) as ps, pytest.raises(WrongVersion) as refused:
            ps.queue("q").send("x")
    assert "penstock migrate up --url 'postgresql://" in str(refused.value)
    assert install.up(migrated) == (f"functions {install.digest()}",)
    names = {
        name
        for (name,) in ask(
            migrated, "select proname from pg_proc where pronamespace = 'penstock'::regnamespace"
        )
    }
    assert names == set(FILES)
    with penstock.connect(migrated) as ps:
        assert isinstance(ps.queue("q").send("x"), Sent)


@needs_server
def test_one_store_is_refused_and_then_served_when_up_has_run(migrated):
    ask(migrated, "update penstock.version set functions = 'old'")
    with penstock.connect(migrated) as ps:
        with pytest.raises(WrongVersion):
            ps.queue("q").send("x")
        install.up(migrated)
        assert isinstance(ps.queue("q").send("x"), Sent)


@needs_server
def test_functions_may_be_replaced_while_stores_are_connected(migrated):
    """The set is dropped and made anew in one transaction: a running program sees no gap."""
    with penstock.connect(migrated) as ps:
        queue = ps.queue("q")
        for n in range(8):
            queue.send(f"{n}")
        (m,) = queue.receive()
        ask(migrated, "update penstock.version set functions = 'old'")
        install.up(migrated)
        assert isinstance(m.ack(), penstock.Acked)
        assert len(queue.receive(10)) == 7
        assert isinstance(queue.send("x"), Sent)


@needs_server
def test_a_database_that_was_never_migrated_says_so(postgres_url):
    with penstock.connect(postgres_url) as ps, pytest.raises(WrongVersion) as refused:
        ps.queue("q").receive()
    assert "penstock migrate up --url 'postgresql://" in str(refused.value)


# --- the script ----------------------------------------------------------------------------------

DUMP = [
    (
        "select table_name, column_name, ordinal_position, data_type, collation_name, is_nullable,"
        " column_default, is_identity, identity_generation, generation_expression"
        " from information_schema.columns where table_schema = 'penstock' order by 1, 3"
    ),
    (
        "select relname, relkind::text, reloptions from pg_class"
        " where relnamespace = 'penstock'::regnamespace order by 1"
    ),
    (
        "select c.relname, t.reloptions from pg_class c join pg_class t on t.oid = c.reltoastrelid"
        " where c.relnamespace = 'penstock'::regnamespace order by 1"
    ),
    "select indexname, indexdef from pg_indexes where schemaname = 'penstock' order by 1",
    (
        "select conname, pg_get_constraintdef(oid) from pg_constraint"
        " where connamespace = 'penstock'::regnamespace order by 1, 2"
    ),
    (
        "select proname, pg_get_functiondef(oid) from pg_proc"
        " where pronamespace = 'penstock'::regnamespace order by 1"
    ),
    "select number, name, functions from penstock.version order by 1",
]


@needs_server
def test_the_script_by_psql_makes_the_same_schema(postgres_server, postgres_url, migrated):
    if not isinstance(postgres_server, PostgresServer):
        pytest.skip("psql comes with our own servers")
    said = subprocess.run(
        [postgres_server.binaries / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", postgres_url],
        input=install.script(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (said.returncode, said.stdout) == (0, ""), said.stderr
    for dump in DUMP:
        by_script = ask(postgres_url, dump)
        assert by_script
        assert by_script == ask(migrated, dump)
    assert install.status(postgres_url).pending == ()
    assert install.up(postgres_url) == ()
    with penstock.connect(postgres_url) as ps:
        assert isinstance(ps.queue("q").send("x"), Sent)


@needs_server
def test_the_script_changes_nothing_where_it_ran_before(migrated):
    with psycopg.connect(migrated) as connection, pytest.raises(psycopg.errors.DuplicateTable):
        connection.execute(install.script().encode())
    assert install.status(migrated).pending == ()
