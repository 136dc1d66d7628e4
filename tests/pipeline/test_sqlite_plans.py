"""How SQLite finds the rows of the pipeline's statements and views: see tests/sqlite/test_plans."""

import pytest

from tests.support.each import each
from tests.support.sqlite_plans import check_plan, check_searches, plan_of
from turnabout.pipeline.sqlite import statements as own
from turnabout.pipeline.verbs import (
    VERBS,
    EpochLease,
    LogNext,
    LogPurge,
    Publish,
    Stage,
    StagedMessage,
    SubscriptionOpen,
    WatermarkSet,
)
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Outgoing
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import Ack, QueueCreate, Receive, Send

FILES = sorted(file.stem for file in own.FOLDER.glob("*.sql"))
STEPS = [(file, step) for file in FILES for step in own.statements(file)]

HOT = {
    ("epoch", "add_messages"): ["INTEGER PRIMARY KEY"],
    ("epoch", "held"): [
        "PRIMARY KEY (subscription_id=? AND epoch=? AND part=?)",
        "INTEGER PRIMARY KEY",
    ],
    ("epoch", "receipts"): ["PRIMARY KEY (subscription_id=? AND epoch=? AND part=?)"],
    ("epoch", "extend"): [
        "PRIMARY KEY (subscription_id=? AND epoch=? AND part=?)",
        "INTEGER PRIMARY KEY",
    ],
    ("epoch", "epochs"): ["PRIMARY KEY (subscription_id=? AND epoch>? AND epoch<?)"],
    ("epoch", "parts"): ["PRIMARY KEY (subscription_id=? AND epoch=?)"],
    ("epoch", "drop_messages"): ["PRIMARY KEY (subscription_id=? AND epoch=?)"],
    ("publish", "staged"): ["stage_attempt (attempt=?)"],
    ("publish", "queues"): ["stage_attempt (attempt=?)"],
    ("publish", "send"): [
        "stage_attempt (attempt=?)",
        "sqlite_autoindex_turnabout_queue_1 (name=?)",
    ],
    ("publish", "published"): ["PRIMARY KEY (sink=? AND batch=?)"],
    ("unstage", "attempts"): ["stage_attempt (attempt=?)"],
    ("unstage", "old"): ["stage_age (staged_at<?)"],
    ("log", "nth"): ["PRIMARY KEY (queue_id=? AND seq>?)"],
    ("log", "count"): ["PRIMARY KEY (queue_id=? AND seq>? AND seq<?)"],
    ("log", "at_or_after"): ["PRIMARY KEY (queue_id=? AND seq>?)"],
    ("log_purge", "last"): ["PRIMARY KEY (queue_id=? AND seq<?)"],
    ("log_purge", "purge"): ["PRIMARY KEY (queue_id=? AND seq<?)"],
}

MAY_SORT = {("publish", "queues")}  # the names that the batch itself has staged
MAY_WALK = {  # over what has few rows
    ("log", "queues"),
    ("subscription_list", "all"),
    ("watermark_list", "all"),
    ("subscription_open", "generation"),
}

VIEWS = {
    "select * from turnabout_epoch_rows"
    " where subscription = ? and epoch = ? and part = ? order by place": [
        "subscription_1 (name=?)",
        "PRIMARY KEY (subscription_id=? AND epoch=? AND part=?)",
        "PRIMARY KEY (subscription_id=? AND epoch=? AND part=?)",
        "INTEGER PRIMARY KEY",
    ],
    "select channel from turnabout_log_rows"
    " where queue_id = ? and seq > ? and seq <= ? order by seq": [
        "INTEGER PRIMARY KEY",
        "PRIMARY KEY (queue_id=? AND seq>? AND seq<?)",
    ],
    "select channel from turnabout_log_rows where namespace = ? and outcome = ?": [
        "queue_namespace (<expr>=?)",
        "PRIMARY KEY (queue_id=?)",
    ],
    "select * from turnabout_dead_rows": [
        "queue_by_dead_letter (dead_letter_id=?)",
        "message_of_queue (queue_id=?)",
    ],
}


def load(store: SqliteStore) -> None:
    for queue in ("a", "b"):
        store.run(QueueCreate(queue, QueueSettings()))
        store.run(Send(queue, tuple(Outgoing(b"x", channel=f"c{n % 90}") for n in range(2_000))))
        held = store.run(Receive(queue, 500)).deliveries
        store.run(Ack(queue, tuple(delivery.receipt for delivery in held)))
    store.run(SubscriptionOpen("s", "tests"))
    store.run(EpochLease("s", 1, ("a", "b"), 0, 500, 60_000, parts=4))
    staged = tuple(StagedMessage("a", Outgoing(b"x")) for _ in range(500))
    for attempt in "xyz":
        store.run(Stage(attempt, staged))
    store.run(Publish("k", 0, ("x",), 500))
    position = store.run(LogNext("", 300)).until
    store.run(WatermarkSet("archive", position, 300))
    store.run(LogPurge(position, 2**50, 10))
    for n in range(20):
        store.run(Send(f"n{n}/a", (Outgoing(b"x"),)))


@pytest.fixture(scope="module", params=["new", "analyzed"])
def connection(request):
    store = SqliteStore("sqlite://")
    connection = store._opened.writer.connection
    store.run(SubscriptionOpen("tests", "tests"))  # what makes the engine ready
    if request.param == "analyzed":
        load(store)
        connection.execute("analyze")
    yield connection
    store.close()


@each(("file", "step"), STEPS)
def test_no_statement_reads_a_table_or_sorts(connection, file, step):
    plan = plan_of(connection, own.statements(file)[step])
    check_plan(plan, may_walk=(file, step) in MAY_WALK, may_sort=(file, step) in MAY_SORT)


@each(("file", "step"), HOT)
def test_a_hot_statement_takes_its_index(connection, file, step):
    check_searches(plan_of(connection, own.statements(file)[step]), HOT[file, step])


def test_every_verb_has_a_file_of_statements():
    assert {verb.name for verb in VERBS} <= set(FILES)


@each("query", VIEWS)
def test_a_part_of_a_view_is_found_by_its_keys(connection, query):
    plan = plan_of(connection, query)
    check_plan([line.replace("TABLE SCAN turnabout_queue", "") for line in plan])
    check_searches(plan, VIEWS[query])
