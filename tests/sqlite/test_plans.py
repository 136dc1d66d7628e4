"""How SQLite finds the rows of every statement: by which index, and never by reading a table.

Asked twice: of a new file, and of a loaded one after ANALYZE, as users run it now and then.
"""

import re
from pathlib import Path

import pytest

import penstock.sqlite
from penstock.sqlite._statements import statements
from penstock.sqlite.store import SqliteStore
from penstock.words.entities import Outgoing
from penstock.words.verbs import VOCABULARY, PolicySet, Receive, Send

FILES = sorted(p.stem for p in (Path(penstock.sqlite.__file__).parent / "sql").glob("*.sql"))
STEPS = [(file, step) for file in FILES for step in statements(file)]

# What each hot statement goes through, in this order.
HOT = {
    ("queue", "find"): ["sqlite_autoindex_queue_1 (name=?)", "PRIMARY KEY (queue_id=?)"],
    ("channel", "rows"): ["PRIMARY KEY (queue_id=? AND name=?)"],
    ("channel", "change"): ["PRIMARY KEY (queue_id=? AND name=?)"],
    ("ack", "held"): ["INTEGER PRIMARY KEY"],
    ("held", "held"): ["INTEGER PRIMARY KEY"],
    ("finish", "keep"): ["INTEGER PRIMARY KEY"],
    ("finish", "drop"): ["INTEGER PRIMARY KEY"],
    ("finish", "keep_dead"): ["INTEGER PRIMARY KEY"],
    ("finish", "move"): ["INTEGER PRIMARY KEY"],
    ("defer", "put_back"): ["INTEGER PRIMARY KEY"],
    ("fail", "put_back"): ["INTEGER PRIMARY KEY"],
    ("extend", "extend"): ["INTEGER PRIMARY KEY"],
    ("release", "release"): ["INTEGER PRIMARY KEY"],
    ("receive", "timers"): [
        "message_timer (queue_id=? AND status=? AND at>? AND at<?)",
        "message_timer (queue_id=? AND status=? AND at>? AND at<?)",
        "channel_timer (queue_id=? AND wake_at>? AND wake_at<?)",
    ],
    ("receive", "due"): ["INTEGER PRIMARY KEY", "message_timer (queue_id=? AND status=? AND at>?"],
    ("receive", "expired"): ["message_timer (queue_id=? AND status=? AND at>? AND at<?)"],
    ("receive", "crash"): ["INTEGER PRIMARY KEY"],
    ("receive", "wake"): ["PRIMARY KEY (queue_id=? AND name=?)", "channel_timer (queue_id=?"],
    ("receive", "hop"): [
        "message_ready (queue_id=? AND channel>? AND channel<?)",
        "INTEGER PRIMARY KEY",
        "message_ready (queue_id=? AND channel>? AND channel<?)",
        "INTEGER PRIMARY KEY",
        "message_ready (queue_id=? AND channel=?)",
    ],
    ("receive", "hop_whole"): [
        "message_ready (queue_id=? AND channel>? AND channel<?)",
        "INTEGER PRIMARY KEY",
        "message_ready (queue_id=? AND channel>? AND channel<?)",
        "INTEGER PRIMARY KEY",
        "message_ready (queue_id=? AND channel=?)",
    ],
    ("receive", "heads"): ["message_ready (queue_id=? AND channel=?)"],
    ("receive", "heads_whole"): ["message_ready (queue_id=? AND channel=?)"],
    ("receive", "any_awake"): ["channel_awake (queue_id=?)"],
    ("receive", "awake"): ["channel_awake (queue_id=? AND name>? AND name<?)"],
    ("receive", "move_over"): ["INTEGER PRIMARY KEY", "message_ready (queue_id=? AND channel=?)"],
    ("receive", "limited_heads"): ["message_limited (queue_id=? AND channel=? AND status=?)"],
    ("receive", "served"): ["PRIMARY KEY (queue_id=? AND name=?)"],
    ("receive", "lease"): ["INTEGER PRIMARY KEY"],
    ("receive", "leased"): ["INTEGER PRIMARY KEY"],
    ("receive", "next_timer"): [
        "message_timer (queue_id=? AND status=? AND at>?)",
        "message_timer (queue_id=? AND status=? AND at>?)",
        "channel_timer (queue_id=? AND wake_at>?)",
    ],
    ("tend", "oldest"): ["PRIMARY KEY (queue_id=?)"],
    ("tend", "sweep"): ["PRIMARY KEY (queue_id=? AND seq<?)", "PRIMARY KEY (queue_id=?)"],
    ("tend", "idle"): ["channel_idle (queue_id=? AND tat_us<?)"],
}

# Statements that people wait for, not receivers: they may sort what they show.
MAY_SORT = {
    ("peek", "leased"),
    ("peek", "scheduled"),
    ("stats_of_channels", "count"),
    ("queue_update", "leased_channels"),
}
MAY_WALK = {("stats", "count"), ("queue_list", "entries")}  # over the queues, by name


def load(store: SqliteStore) -> None:
    for queue in ("a", "b"):
        for n in range(20):
            messages = [
                Outgoing(b"x", channel=f"c{(n * 7 + m) % 90}", delay_ms=m % 3 * 10_000)
                for m in range(100)
            ]
            store.run(Send(queue, tuple(messages)))
        for n in range(9):
            store.run(PolicySet(queue, f"c{n}", {"max_concurrency": 1}))
        store.run(Receive(queue, 500))
        store.run(Receive(queue, 500))


@pytest.fixture(scope="module", params=["new", "analyzed"])
def connection(request):
    store = SqliteStore("sqlite://")
    connection = store._opened.writer.connection
    if request.param == "analyzed":
        load(store)
        connection.execute("analyze")
    yield connection
    store.close()


def plan_of(connection, file: str, step: str) -> list[str]:
    statement = statements(file)[step]
    names = re.findall(r":(\w+)", statement)
    values = dict.fromkeys(names) if names else [None] * statement.count("?")
    plan = connection.execute(f"explain query plan {statement}", values)
    return [row["detail"] for row in plan]


@pytest.mark.parametrize(("file", "step"), STEPS, ids=".".join)
def test_no_statement_reads_a_table_or_sorts(connection, file, step):
    plan = plan_of(connection, file, step)
    shown = "\n".join(plan)
    tables = r"^SCAN (queue|message|channel|history)\b"
    if (file, step) not in MAY_WALK:
        assert not any(re.match(tables, line) for line in plan), shown
    if (file, step) not in MAY_SORT:
        assert "TEMP B-TREE" not in shown, shown
    assert "AUTOMATIC" not in shown, shown


@pytest.mark.parametrize(("file", "step"), HOT, ids=".".join)
def test_a_hot_statement_takes_its_index(connection, file, step):
    plan = [line for line in plan_of(connection, file, step) if line.startswith("SEARCH")]
    searches = [line for line in plan if "(subquery" not in line]
    wanted = HOT[file, step]
    assert len(searches) == len(wanted), "\n".join(searches)
    for line, part in zip(searches, wanted, strict=True):
        assert part in line, "\n".join(searches)


def test_every_verb_has_a_file_of_statements():
    assert {verb.name for verb in VOCABULARY} <= set(FILES)
