"""How SQLite finds tokens and namespaces: see tests/sqlite/test_plans."""

from tests.support.sqlite_plans import Plans, connections, searches_of
from turnabout.server.sqlite import tenants as own
from turnabout.server.verbs import VERBS, Scope, TokenCreate, TokenList
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Outgoing
from turnabout.words.schedules import Schedule
from turnabout.words.verbs import RedriveStart, ScheduleSet, Send

FILES = tuple(sorted(file.stem for file in own.FOLDER.glob("*.sql")))

HOT = searches_of("""
namespace_delete left: queue_namespace (<expr>=?), schedule_namespace (<expr>=?)
namespace_delete redrives: redrive_namespace (<expr>=?)
namespace_delete tokens, token_list of_namespace: token_namespace (namespace=?)
token_find find: token_1 (id=?), namespace_1 (name=?)
""")
MAY_WALK = {"namespace_list all", "token_list all"}  # by name, by age


def load(store: SqliteStore) -> None:
    for n, letter in enumerate("abcdefghijklmnopqrst"):
        name = f"n{n}/a"
        store.run(Send(name, (Outgoing(b"x"),)))
        store.run(RedriveStart(f"{name}-dead"))
        store.run(ScheduleSet(Schedule(name, name, Outgoing(b""), every_ms=1_000), next_at=1))
        store.run(TokenCreate(f"tokenaaaaaa{letter}", bytes(32), f"n{n}", "", (Scope("peek"),)))


connection = connections(load, lambda store: store.run(TokenList()))


class TestPlans(Plans):
    files, statements = FILES, staticmethod(own.statements)
    hot, may_walk = HOT, MAY_WALK


def test_every_verb_has_a_file_of_statements():
    assert {verb.name for verb in VERBS} == set(FILES)
