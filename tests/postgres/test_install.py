"""The schema and how it comes into a database: once, whole, and the same by every way."""

import re
import threading

import psycopg
import pytest

import turnabout
from tests.postgres.asking import ask, eventually
from tests.support.each import each
from tests.support.postgres import migrated_url, psql
from tests.upgrade import catalog
from turnabout import Busy, Disconnected, Sent, UsageError, WrongVersion
from turnabout.postgres import install
from turnabout.postgres.calls import CALLS
from turnabout.postgres.notices import STATEMENTS, WAITING
from turnabout.postgres.parts import core, latest, parts
from turnabout.postgres.permissions import MAY_SEND
from turnabout.postgres.revision import DIGEST, REVISION, rendered, schema
from turnabout.postgres.source import ROOMS, sql_files, statements, text_of
from turnabout.words.administration import ADMINISTRATION
from turnabout.words.policy import QueueSettings, settings_row
from turnabout.words.verbs import VOCABULARY

pytestmark = pytest.mark.driving  # what each version makes of the set

FOUND = sql_files("turnabout.postgres.sql", *ROOMS)
FILES = {file.name.removesuffix(".sql"): text_of(file) for file in FOUND}
CREATED = re.compile(r"(?m)^create or replace function turnabout\.(\w+)\(")
LATEST = set(CREATED.findall(latest()))
SETS = tuple(map(install.set_name, parts()))


migrated = migrated_url


# --- the files -----------------------------------------------------------------------------------


@each("name", sorted(FILES))
def test_a_file_holds_one_function_of_its_name_and_opens_with_a_comment(name):
    text = FILES[name]
    assert re.findall(r"(?im)^\s*create\b.*", text) == re.findall(
        rf"(?m)^create or replace function turnabout\.{name}\(.*", text
    )
    assert len(re.findall(r"(?i)\bcreate or replace\b", text)) == 1
    assert re.match(r"-- [A-Z].{20,}\n", text), "the first line says what it is for"


def test_migrations_are_numbered_without_gaps():
    for part in parts():
        steps = part.migrations()
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        prefix = f"{part.name}/" if part.name else ""
        assert all(step.name.startswith(f"{prefix}{step.number:04}_") for step in steps)


def test_a_step_says_which_libraries_it_leaves_behind():
    assert all(1 <= step.oldest <= REVISION for step in install.migrations())


def test_a_changed_function_asks_for_a_new_revision():
    assert install.digest() == DIGEST, (
        "the functions have changed. Has revision "
        f"{REVISION} been released? Then raise REVISION in postgres/revision.py. In any case write "
        f"DIGEST = {install.digest()!r} there."
    )


def test_a_set_calls_itself_and_nothing_but_itself():
    """In a set's text each call is of that set, and each name called is a function of it."""
    text = rendered(install.functions(), 7)
    assert set(re.findall(r"\bturnabout\.(\w+)\(", text)) == set()
    assert set(re.findall(r"\bturnabout_r7\.(\w+)\(", text)) == set(FILES)
    assert "turnabout.message" in text


def test_what_nobody_calls_is_not_there():
    """Each function is called by another, or is a verb's, or is for those who wait."""
    called = [(call.text, (call.nowait or b"").decode()) for call in CALLS.values()]
    called += [(text.decode(), "") for text in (*STATEMENTS, *WAITING)]
    texts = "\n".join([*FILES.values(), *(text for both in called for text in both)])
    calls = re.findall(r"turnabout\w*\.(\w+)\(", texts)
    assert {name for name in FILES if calls.count(name) < 2} == set()


# --- verbs and functions -------------------------------------------------------------------------


def test_every_verb_has_its_call_and_nothing_else_has():
    assert set(CALLS) == {*VOCABULARY, *ADMINISTRATION}


@each("verb", VOCABULARY + ADMINISTRATION)
def test_a_verb_s_call_names_the_function_of_that_verb(verb):
    called = set(re.findall(r"turnabout_r\d+\.(\w+)\(", CALLS[verb].text)) - {"clock_ms"}
    also = {"queue_list"} if verb.name == "queue_create" else set[str]()
    assert called == {{"queue_get": "queue_list"}.get(verb.name, verb.name)} | also
    assert not re.search(r"\bturnabout\.\w", CALLS[verb].text), "a role has no rights on tables"


@pytest.mark.slow
def test_calls_fit_the_functions_parameters(migrated):
    """By position, each parameter has exactly the declared type, or what its domain is made of:
    nothing is cast on the way.
    """
    declared = dict(
        ask(
            migrated,
            "select p.proname, array(select coalesce(format_type(nullif(t.typbasetype, 0), null),"
            " format_type(nullif(e.typbasetype, 0), null) || '[]', format_type(t.oid, null))"
            " from unnest(p.proargtypes) with ordinality a (oid, nr)"
            " join pg_type t on t.oid = a.oid left join pg_type e on e.oid = t.typelem"
            " order by a.nr)"
            f" from pg_proc p where p.pronamespace = '{schema()}'::regnamespace",
        )
    )
    names = {"int": "integer", "int[]": "integer[]"}
    with psycopg.connect(migrated) as connection:
        for verb, call in CALLS.items():
            connection.execute(f"prepare {verb.name} as {call.text}".encode())
            name, inside = re.findall(r"turnabout_r\d+\.((?!clock_ms)\w+)\(([^)]*)\)", call.text)[0]
            given = [word.strip() for word in inside.split(",") if word.strip()]
            types = [word.partition("::")[2] for word in given]
            types = [names.get(t, t) or declared[name][nr] for nr, t in enumerate(types)]
            assert types == declared[name][: len(types)], verb
            numbers = [int(n) for n in re.findall(r"\$(\d+)", call.text)]
            assert sorted(set(numbers)) == list(range(1, max(numbers, default=0) + 1)), verb


@pytest.mark.slow
def test_settings_by_default_are_the_same_in_sql_and_python(migrated):
    ((in_sql,),) = ask(migrated, "select turnabout.default_settings()")
    row = settings_row(QueueSettings())
    assert in_sql == {name: row[name] for name in in_sql}
    assert {name for name, value in row.items() if value is not None} <= set(in_sql)
    # One that has no dead-letter queue, and so gives up on nothing.
    ((columns,),) = ask(migrated, "select to_jsonb(turnabout.queue_create('a-dead'))")
    assert {name: columns[name] for name in row} == {**row, "max_attempts": None}


@pytest.mark.slow
def test_a_queue_is_the_same_whether_created_or_sent_to(migrated):
    with turnabout.connect(migrated) as mq:
        mq.queue("a").create()
        assert isinstance(mq.queue("b").send("x"), Sent)
        entries = {entry.name: entry for entry in mq.queues()}
    created, sent_to = entries["a"], entries["b"]
    assert created.settings == sent_to.settings == QueueSettings()
    assert (created.dead_letter, sent_to.dead_letter) == ("a-dead", "b-dead")


# --- up and status -------------------------------------------------------------------------------


@pytest.mark.slow
def test_up_once_and_again(postgres_url):
    wanted = core().migrations()[-1].number
    names = tuple(step.name for step in install.migrations())
    before = install.status(postgres_url)
    assert (before.current, before.wanted, before.pending) == (0, wanted, names)
    assert ask(postgres_url, "select to_regnamespace('turnabout')") == [(None,)]  # it only looks

    assert install.up(postgres_url) == (*names, *SETS)
    after = install.status(postgres_url)
    assert (after.current, after.wanted, after.pending) == (wanted, wanted, ())
    noted = "select slice, number, name, functions, applied_at from turnabout.version"
    applied = ask(postgres_url, noted)
    assert install.up(postgres_url) == ()
    assert applied == ask(postgres_url, noted)


@pytest.mark.slow
def test_killed_in_the_middle_leaves_nothing_and_runs_again(postgres_url):
    raised: list[BaseException] = []

    def up() -> None:
        try:
            install.up(postgres_url)
        except BaseException as error:  # noqa: BLE001 (looked at below)
            raised.append(error)

    ask(postgres_url, "create schema turnabout")
    with psycopg.connect(postgres_url) as other:
        # A name that is taken but not committed stops the migration between its tables.
        other.execute("create table turnabout.history (id int)")
        thread = threading.Thread(target=up)
        thread.start()
        (pid,) = eventually(
            postgres_url,
            "select pid from pg_stat_activity where datname = current_database()"
            " and wait_event_type = 'Lock'",
        )
        ask(postgres_url, "select pg_terminate_backend(%s)", pid)
        thread.join(20)
        other.rollback()
    assert len(raised) == 1
    assert isinstance(raised[0], Disconnected)
    tables = "select relname from pg_class where relnamespace = 'turnabout'::regnamespace"
    assert ask(postgres_url, tables) == []
    assert install.status(postgres_url).current == 0
    assert len(install.up(postgres_url)) == len(install.migrations()) + len(SETS)
    with turnabout.connect(postgres_url) as mq:
        assert isinstance(mq.queue("q").send("x"), Sent)


# --- other versions ------------------------------------------------------------------------------

NEWER = (
    "insert into turnabout.version (slice, number, name, functions, oldest)"
    " values ('', 9000, 'x', 'y', %s)"
)


@pytest.mark.slow
def test_tables_that_leave_this_library_behind_are_refused_by_all_who_meet_them(migrated):
    ask(migrated, NEWER, REVISION + 1)
    with pytest.raises(WrongVersion, match=r"step 9000.*git pull"):
        install.up(migrated)
    with turnabout.connect(migrated) as mq, pytest.raises(WrongVersion, match="git pull"):
        mq.queue("q").send("x")
    status = install.status(migrated)
    assert (status.current, status.pending, status.too_new) == (9000, (), True)
    assert ask(migrated, "select count(*) from turnabout.message") == [(0,)]


@pytest.mark.slow
def test_newer_tables_are_used_as_long_as_nobody_says_otherwise(migrated):
    ask(migrated, NEWER, REVISION)
    assert install.up(migrated) == ()
    status = install.status(migrated)
    assert (status.current, status.pending, status.too_new) == (9000, (), False)
    with turnabout.connect(migrated) as mq:
        assert isinstance(mq.queue("q").send("x"), Sent)


OTHER = "update turnabout.revision set digest = 'old' where slice = ''"


@pytest.mark.slow
def test_other_functions_are_refused_until_up_has_run(migrated):
    ask(migrated, OTHER)
    for place in ("turnabout", schema()):
        ask(migrated, f"drop function {place}.free_slots")
        ask(migrated, f"create function {place}.long_gone() returns int language sql as 'select 1'")
    assert install.status(migrated).pending == (f"functions {install.digest()}",)
    for _ in range(2):  # a refusal is not remembered as a success
        with turnabout.connect(migrated) as mq, pytest.raises(WrongVersion) as refused:
            mq.queue("q").send("x")
    assert "turnabout migrate up --url 'postgresql://" in str(refused.value)
    assert install.up(migrated) == (f"functions {install.digest()}",)
    assert names_in(migrated, schema()) == set(FILES)
    assert names_in(migrated, "turnabout") == set(FILES) | LATEST | {MAY_SEND}
    with turnabout.connect(migrated) as mq:
        assert isinstance(mq.queue("q").send("x"), Sent)


def names_in(url: str, place: str) -> set[str]:
    names = "select proname from pg_proc where pronamespace = %s::regnamespace"
    return {name for (name,) in ask(url, names, place)}


@pytest.mark.slow
def test_one_store_is_refused_and_then_served_when_up_has_run(migrated):
    ask(migrated, OTHER)
    with turnabout.connect(migrated) as mq:
        with pytest.raises(WrongVersion):
            mq.queue("q").send("x")
        install.up(migrated)
        assert isinstance(mq.queue("q").send("x"), Sent)


@pytest.mark.slow
def test_functions_may_be_replaced_while_stores_are_connected(migrated):
    """The set is dropped and made anew in one transaction: a running program sees no gap."""
    with turnabout.connect(migrated) as mq:
        queue = mq.queue("q")
        for n in range(8):
            queue.send(f"{n}")
        (m,) = queue.receive()
        ask(migrated, OTHER)
        install.up(migrated)
        assert isinstance(m.ack(), turnabout.Acked)
        assert len(queue.receive(10)) == 7
        assert isinstance(queue.send("x"), Sent)


@pytest.mark.slow
def test_prune_drops_older_sets_and_nothing_of_yours(migrated):
    older = schema(revision=REVISION - 1)
    ask(migrated, f"create schema {older}")
    ask(migrated, f"create function {older}.send() returns int language sql as 'select 1'")
    columns, number = "place, slice, number, core, digest, kinds, views", REVISION - 1
    row = f"'{older}', '', {number}, {number}, 'old', '{{}}', '{{}}'"
    ask(migrated, f"insert into turnabout.revision ({columns}) values ({row})")
    ask(migrated, f"create view mine as select {older}.send() as n")
    assert install.status(migrated).revisions == (REVISION - 1, REVISION)
    with pytest.raises(UsageError, match="view mine depends on function"):
        install.prune(migrated)
    ask(migrated, "drop view mine")
    assert install.prune(migrated) == (older,)
    assert install.prune(migrated) == ()
    assert install.status(migrated).revisions == (REVISION,)
    assert ask(migrated, "select to_regnamespace(%s)", older) == [(None,)]


@pytest.mark.slow
def test_nothing_is_pruned_before_this_version_is_installed(migrated):
    ask(migrated, OTHER)
    with pytest.raises(UsageError, match="turnabout migrate up"):
        install.prune(migrated)


@pytest.mark.slow
def test_a_table_in_use_is_waited_for_with_patience_and_then_is_busy(postgres_url, monkeypatch):
    """A lock that waits makes all who come later wait: up gives way, and tries again."""
    monkeypatch.setattr(install, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(install, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(install, "TRIES", 5)
    ask(postgres_url, "create schema turnabout")
    with psycopg.connect(postgres_url) as other:
        other.execute("create table turnabout.history (id int)")
        with pytest.raises(Busy):
            install.up(postgres_url)
        other.rollback()
    assert install.status(postgres_url).current == 0
    assert install.up(postgres_url)


@pytest.mark.slow
def test_a_database_that_was_never_migrated_says_so(postgres_url):
    with turnabout.connect(postgres_url) as mq, pytest.raises(WrongVersion) as refused:
        mq.queue("q").receive()
    assert "turnabout migrate up --url 'postgresql://" in str(refused.value)


# --- the script ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_script_by_psql_makes_the_same_schema(postgres_server, postgres_url, migrated):
    steps = ";\n".join(["begin", *install.steps(), "commit;"])
    said = psql(postgres_server, postgres_url, steps)
    assert (said.returncode, said.stdout) == (0, ""), said.stderr
    assert catalog.of_postgres(postgres_url) == catalog.of_postgres(migrated)
    assert install.status(postgres_url).pending == ()
    assert install.up(postgres_url) == ()
    with turnabout.connect(postgres_url) as mq:
        assert isinstance(mq.queue("q").send("x"), Sent)


@pytest.mark.slow
def test_the_steps_one_by_one_in_the_transaction_of_another_tool(postgres_url, migrated):
    """Each is a single statement (a prepared one cannot be more); a rollback takes all back."""
    with psycopg.connect(postgres_url) as connection:
        for undo in (True, False):
            connection.execute("create table mine (id int)")
            for statement in install.steps():
                connection.execute(statement.encode(), prepare=True)
            if undo:
                connection.rollback()
                assert ask(postgres_url, "select to_regclass('mine')") == [(None,)]
                assert install.status(postgres_url).current == 0
        connection.execute("drop table mine")
    assert catalog.of_postgres(postgres_url) == catalog.of_postgres(migrated)
    assert install.up(postgres_url) == ()


def test_nothing_in_the_steps_looks_like_a_parameter_to_sqlalchemy():
    """Alembic's `op.execute` takes a word behind a colon for one."""
    found = [re.findall(r"(?<![:\w\\]):(\w+)(?!:)", statement) for statement in install.steps()]
    assert [names for names in found if names] == []


def test_a_text_is_cut_into_statements_where_they_end():
    quoted = "do $a$ begin perform 'x;'; execute $b$ ; $b$; end $a$"
    texts = ["select ';', \"a;b\"", "-- one; comment\nselect 1 /* ; */", quoted, "select $$;$$"]
    assert statements(";\n".join([*texts, "-- nothing"])) == texts


@pytest.mark.slow
def test_the_script_changes_nothing_where_it_ran_before(migrated):
    with psycopg.connect(migrated) as connection, pytest.raises(psycopg.errors.DuplicateObject):
        connection.execute(";\n".join(install.steps()).encode())
    assert install.status(migrated).pending == ()
