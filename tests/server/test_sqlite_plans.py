"""How SQLite finds tokens and namespaces: see tests/sqlite/test_plans."""

import pytest

from tests.support.each import each
from tests.support.sqlite_plans import check_plan, check_searches, plan_of
from turnabout.server.sqlite import tenants as own
from turnabout.server.verbs import VERBS, Scope, TokenCreate, TokenList
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Outgoing
from turnabout.words.schedules import Schedule
from turnabout.words.verbs import RedriveStart, ScheduleSet, Send

FILES = sorted(file.stem for file in own.FOLDER.glob("*.sql"))
STEPS = [(file, step) for file in FILES for step in own.statements(file)]

HOT = {
    ("namespace_delete", "left"): [
        "queue_namespace (<expr>=?)",
        "schedule_namespace (<expr>=?)",
    ],
    ("namespace_delete", "redrives"): ["redrive_namespace (<expr>=?)"],
    ("namespace_delete", "tokens"): ["token_namespace (namespace=?)"],
    ("token_find", "find"): ["token_1 (id=?)", "namespace_1 (name=?)"],
    ("token_list", "of_namespace"): ["token_namespace (namespace=?)"],
}
MAY_WALK = {("namespace_list", "all"), ("token_list", "all")}  # by name, by age


def load(store: SqliteStore) -> None:
    for n, letter in enumerate("abcdefghijklmnopqrst"):
        name = f"n{n}/a"
        store.run(Send(name, (Outgoing(b"x"),)))
        store.run(RedriveStart(f"{name}-dead"))
        store.run(ScheduleSet(Schedule(name, name, Outgoing(b""), every_ms=1_000), next_at=1))
        store.run(TokenCreate(f"tokenaaaaaa{letter}", bytes(32), f"n{n}", "", (Scope("peek"),)))


@pytest.fixture(scope="module", params=["new", "analyzed"])
def connection(request):
    store = SqliteStore("sqlite://")
    connection = store._opened.writer.connection
    store.run(TokenList())  # what makes the engine ready
    if request.param == "analyzed":
        load(store)
        connection.execute("analyze")
    yield connection
    store.close()


@each(("file", "step"), STEPS)
def test_no_statement_reads_a_table_or_sorts(connection, file, step):
    plan = plan_of(connection, own.statements(file)[step])
    check_plan(plan, may_walk=(file, step) in MAY_WALK, may_sort=False)


@each(("file", "step"), HOT)
def test_a_hot_statement_takes_its_index(connection, file, step):
    check_searches(plan_of(connection, own.statements(file)[step]), HOT[file, step])


def test_every_verb_has_a_file_of_statements():
    assert {verb.name for verb in VERBS} == set(FILES)
