"""How SQLite finds the rows of the pipeline's statements and views: see tests/sqlite/test_plans."""

from tests.support.each import each
from tests.support.sqlite_plans import (
    Plans,
    check_plan,
    check_searches,
    connections,
    plan_of,
    searches_of,
)
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

FILES = tuple(sorted(file.stem for file in own.FOLDER.glob("*.sql")))
PART = "PRIMARY KEY (subscription_id=? AND epoch=? AND part=?)"

HOT = searches_of(f"""
epoch add_messages: INTEGER PRIMARY KEY
epoch held, epoch extend: {PART}, INTEGER PRIMARY KEY
epoch receipts: {PART}
epoch epochs: PRIMARY KEY (subscription_id=? AND epoch>? AND epoch<?)
epoch parts, epoch drop_messages: PRIMARY KEY (subscription_id=? AND epoch=?)
publish staged, publish queues, unstage attempts: stage_attempt (attempt=?)
publish send: stage_attempt (attempt=?), sqlite_autoindex_turnabout_queue_1 (name=?)
publish published: PRIMARY KEY (sink=? AND batch=?)
unstage old: stage_age (staged_at<?)
log nth, log at_or_after: PRIMARY KEY (queue_id=? AND seq>?)
log count: PRIMARY KEY (queue_id=? AND seq>? AND seq<?)
log_purge last, log_purge purge: PRIMARY KEY (queue_id=? AND seq<?)
""")

MAY_SORT = {"publish queues"}  # the names that the batch itself has staged
MAY_WALK = {  # over what has few rows
    "log queues",
    "subscription_list all",
    "watermark_list all",
    "subscription_open generation",
}

VIEWS = {
    "select * from turnabout_epoch_rows"
    " where subscription = ? and epoch = ? and part = ? order by place": [
        "subscription_1 (name=?)",
        PART,
        PART,
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


connection = connections(load, lambda store: store.run(SubscriptionOpen("tests", "tests")))


class TestPlans(Plans):
    files, statements = FILES, staticmethod(own.statements)
    hot, may_walk, may_sort = HOT, MAY_WALK, MAY_SORT


def test_every_verb_has_a_file_of_statements():
    assert {verb.name for verb in VERBS} <= set(FILES)


@each("query", VIEWS)
def test_a_part_of_a_view_is_found_by_its_keys(connection, query):
    plan = plan_of(connection, query)
    check_plan([line.replace("TABLE SCAN turnabout_queue", "") for line in plan])
    check_searches(plan, VIEWS[query])
