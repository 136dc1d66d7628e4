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
    LogNext,
    LogPurge,
    Publish,
    Stage,
    StagedMessages,
    WatermarkSet,
)
from turnabout.sqlite.store import SqliteStore
from turnabout.words.entities import Outgoing
from turnabout.words.policy import QueueSettings
from turnabout.words.verbs import Ack, QueueCreate, Receive, Send

FILES = tuple(sorted(file.stem for file in own.FOLDER.glob("*.sql")))
REFUSED = ("subscription_", "epoch_")  # verbs that a file does not carry out

HOT = searches_of("""
publish staged: stage_attempt (attempt=?)
publish count, unstage attempts: stage_attempt (attempt=?)
publish published: PRIMARY KEY (sink=? AND batch=?)
unstage old: stage_age (staged_at<?)
log nth, log at_or_after: PRIMARY KEY (queue_id=? AND seq>?)
log count: PRIMARY KEY (queue_id=? AND seq>? AND seq<?)
log_purge last, log_purge purge: PRIMARY KEY (queue_id=? AND seq<?)
""")

MAY_WALK = {"log queues", "watermark_list all"}  # over what has few rows

VIEWS = {
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
        "INTEGER PRIMARY KEY",
        *(f"message_{name} (queue_id=?)" for name in ("ready", "limited", "timer")),
    ],
}


def load(store: SqliteStore) -> None:
    for queue in ("a", "b"):
        store.run(QueueCreate(queue, QueueSettings()))
        store.run(Send(queue, tuple(Outgoing(b"x", channel=f"c{n % 90}") for n in range(2_000))))
        held = store.run(Receive(queue, 500)).deliveries
        store.run(Ack(queue, tuple(delivery.receipt for delivery in held)))
    staged = tuple(StagedMessages("a", [b"x"]) for _ in range(500))
    for attempt in "xyz":
        store.run(Stage(attempt, staged))
    store.run(Publish("k", 0, ("x",), 500))
    position = store.run(LogNext("", 300)).until
    store.run(WatermarkSet("archive", position, 300))
    store.run(LogPurge(position, 2**50, 10))
    for n in range(20):
        store.run(Send(f"n{n}/a", (Outgoing(b"x"),)))


connection = connections(load, lambda store: store.run(Stage("tests", ())))


class TestPlans(Plans):
    files, statements = FILES, staticmethod(own.statements)
    hot, may_walk = HOT, MAY_WALK


def test_every_verb_has_a_file_of_statements():
    none = (*REFUSED, "log_files")  # the answer of this one is always the same
    assert {v.name for v in VERBS if not v.name.startswith(none)} <= set(FILES)


@each("query", VIEWS)
def test_a_part_of_a_view_is_found_by_its_keys(connection, query):
    plan = plan_of(connection, query)
    check_plan([line.replace("TABLE SCAN turnabout_queue", "") for line in plan])
    check_searches(plan, VIEWS[query])
