"""How SQLite finds the rows of every statement: by which index, and never by reading a table."""

from pathlib import Path

import turnabout.sqlite
from tests.support.sqlite_plans import Plans, connections, searches_of
from turnabout.sqlite._statements import statements
from turnabout.sqlite.store import SqliteStore
from turnabout.words.administration import ADMINISTRATION
from turnabout.words.entities import Failure, Outgoing
from turnabout.words.policy import DEDUP_MODES, QueueSettings
from turnabout.words.schedules import Schedule
from turnabout.words.verbs import (
    VOCABULARY,
    Ack,
    Fail,
    PolicySet,
    QueueCreate,
    Receive,
    RedriveStart,
    ScheduleSet,
    Send,
)

FILES = sorted(p.stem for p in (Path(turnabout.sqlite.__file__).parent / "sql").glob("*.sql"))

DUE, LATER = (f"message_timer (queue_id=? AND status=? AND at>?{end})" for end in (" AND at<?", ""))
PLACES = "message_ready (queue_id=?), message_limited (queue_id=?), message_timer (queue_id=?)"
ROWIDS = "INTEGER PRIMARY KEY (rowid<?), INTEGER PRIMARY KEY (rowid>?)"
GIVEN = "INTEGER PRIMARY KEY (rowid=?), INTEGER PRIMARY KEY (rowid<?)"
STALE = "message_expiry (queue_id=? AND expires_at>? AND expires_at<?)"
HOT = searches_of(f"""
queue counts: sqlite_autoindex_turnabout_queue_1 (name=?), {GIVEN}, PRIMARY KEY (queue_id=?)
channel rows, channel change, receive served: PRIMARY KEY (queue_id=? AND name=?)
held held, finish drop, finish drop_held, finish keep_dead, finish move,
  defer put_back, fail put_back, extend extend, release release, receive crash,
  queue count_done_if_same, receive lease, receive stale, receive crash_at_end, event note,
  dedup replace, finish block, cancel request, retry retry, endings unfinished: INTEGER PRIMARY KEY
finish keep, finish keep_held, finish keep_one_held: INTEGER PRIMARY KEY, INTEGER PRIMARY KEY
receive timers: {DUE}, {DUE}, channel_timer (queue_id=? AND wake_at>? AND wake_at<?), {STALE}
receive due: INTEGER PRIMARY KEY, message_timer (queue_id=? AND status=? AND at>?
receive expired: {DUE}
receive wake: PRIMARY KEY (queue_id=? AND name=?), channel_timer (queue_id=?
receive hop: message_ready (queue_id=? AND channel>? AND channel<?),
  message_ready (queue_id=? AND channel>? AND channel<?), INTEGER PRIMARY KEY,
  message_ready (queue_id=? AND channel=?)
receive is_quiet: INTEGER PRIMARY KEY, PRIMARY KEY (queue_id=?), {DUE}, {DUE}, {STALE}
receive next: INTEGER PRIMARY KEY, message_ready (queue_id=? AND channel>?),
  message_ready (queue_id=?)
queue last_id: {GIVEN}
queue use_block: INTEGER PRIMARY KEY, {GIVEN}
queue last_id_if_plain: INTEGER PRIMARY KEY (rowid=?), PRIMARY KEY (queue_id=?),
  INTEGER PRIMARY KEY (rowid<?)
receive first: message_ready (queue_id=? AND channel>? AND channel<?)
receive has_others: message_ready (queue_id=? AND channel>?),
  message_ready (queue_id=? AND channel<?)
receive heads: message_ready (queue_id=? AND channel=?)
receive any_awake: channel_awake (queue_id=?)
receive awake: channel_awake (queue_id=? AND name>? AND name<?)
receive move_over: INTEGER PRIMARY KEY, message_ready (queue_id=? AND channel=?)
receive limited_heads: message_limited (queue_id=? AND channel=? AND status=?)
receive next_timer: {LATER}, {LATER}, channel_timer (queue_id=? AND wake_at>?),
  message_expiry (queue_id=? AND expires_at>?)
expire any, expire stale: {STALE}
events after: event_order (queue_id=? AND rowid>?)
dedup find: PRIMARY KEY (queue_id=? AND scope=? AND key=?), INTEGER PRIMARY KEY
finish keep_payloads: PRIMARY KEY (queue_id=? AND seq>?), INTEGER PRIMARY KEY
finish keep_result: PRIMARY KEY (queue_id=? AND seq=?)
finish waiting: message_ready (queue_id=? AND channel=?),
  message_limited (queue_id=? AND channel=? AND status=?),
  message_scheduled (queue_id=? AND channel=?)
endings ended: PRIMARY KEY (queue_id=? AND seq=?), history_id (id=? AND queue_id=?)
redrive_step near: INTEGER PRIMARY KEY (rowid>? AND rowid<?), INTEGER PRIMARY KEY (rowid>?)
redrive_step next: INTEGER PRIMARY KEY, {PLACES}
schedule_list due: schedule_due (next_at<?), schedule_1 (name=?)
schedule_fire is_unfinished: INTEGER PRIMARY KEY, queue_1 (name=?)
maintain done_to: PRIMARY KEY (queue_id=? AND seq>?), PRIMARY KEY (queue_id=? AND seq>?)
maintain sweep_done, maintain last_done: PRIMARY KEY (queue_id=? AND seq>? AND seq<?)
maintain any_failed, maintain last_failed: history_failed (queue_id=? AND finished_at<?)
maintain sweep_failed: PRIMARY KEY (queue_id=? AND seq=?),
  history_failed (queue_id=? AND finished_at<?)
maintain old_events: event_order (queue_id=?)
maintain sweep_events: event_order (queue_id=? AND rowid<?)
maintain any_dedup: dedup_sweep (queue_id=? AND until_ms<?),
  dedup_sweep (queue_id=? AND until_ms=?), dedup_sweep (queue_id=? AND until_ms=?)
maintain windows_over: dedup_sweep (queue_id=? AND until_ms<?), INTEGER PRIMARY KEY
maintain without_window: PRIMARY KEY (queue_id=? AND scope=? AND key=?)
maintain ended_dedup: dedup_sweep (queue_id=? AND until_ms=? AND message_id>?), INTEGER PRIMARY KEY
maintain redrives: redrive_running (queue_id=?)
maintain idle: channel_idle (queue_id=? AND tat_us<?)
stats of_namespace: queue_namespace (<expr>=? AND name>?), {GIVEN}, {LATER}, {LATER}, {DUE},
  {ROWIDS}, message_ready (queue_id=?), message_limited (queue_id=?), {DUE}, INTEGER PRIMARY KEY
queue_list of_namespace: queue_namespace (<expr>=? AND name>?), INTEGER PRIMARY KEY
redrive_list of_namespace: redrive_namespace (<expr>=?)
schedule_list of_namespace: schedule_namespace (<expr>=? AND name>?)
queues_due by_timers: message_timer (queue_id>?), message_expiry (queue_id>?),
  message_timer (queue_id=? AND status=? AND at>? AND at<?), {STALE}, INTEGER PRIMARY KEY
totals of_namespace: queue_namespace (<expr>=?), {GIVEN}, message_ready (queue_id=?),
  INTEGER PRIMARY KEY, message_limited (queue_id=?), {DUE}, {DUE}
totals bytes, queue_delete messages, purge choose: INTEGER PRIMARY KEY, {PLACES}
""")

# Statements that people wait for, not receivers: they may sort what they show.
MAY_SORT = {
    "peek leased",  # where few are, or far away: `near` looks first
    "peek scheduled",
    "stats_of_channels count",
    "fairness shares",
    "queue_update leased_channels",
    "redrive_start count",
    "redrive_list of_namespace",
    "endings ended",  # by the order of asking
    "schedule_list due",  # in turn by namespace
    "queues_due by_timers",  # by chance, as the next one
    "queues_due by_old_rows",
}
MAY_WALK = {  # over what has few rows: queues, schedules, redrives
    "stats count",
    "queue_list entries",
    "schedule_list all",
    "redrive_list all",
    "totals all",
    "queues_due by_timers",
    "queues_due by_old_rows",
    "inbox any",  # its first row
    "inbox next",
    "receive is_quiet",
}


def load(store: SqliteStore) -> None:
    for queue in ("a", "b"):
        store.run(QueueCreate(queue, QueueSettings(events="all")))
        for n in range(20):
            messages = [
                Outgoing(
                    b"x",
                    channel=f"c{(n * 7 + m) % 90}",
                    delay_ms=m % 3 * 10_000,
                    ttl_ms=60_000 if m % 5 == 0 else None,
                    dedup_key=f"{n} {m}" if m % 2 else None,
                    dedup_mode=DEDUP_MODES[m % 6] if m % 2 else None,
                )
                for m in range(100)
            ]
            store.run(Send(queue, tuple(messages)))
        for n in range(9):
            store.run(PolicySet(queue, f"c{n}", {"max_concurrency": 1}))
        held = store.run(Receive(queue, 500)).deliveries
        store.run(Ack(queue, tuple(d.receipt for d in held[:300])))
        store.run(Fail(queue, tuple(Failure(d.receipt, retry=False) for d in held[300:])))
        store.run(Receive(queue, 500))
        store.run(RedriveStart(f"{queue}-dead"))
        schedule = Schedule(queue, queue, Outgoing(b""), every_ms=1_000)
        store.run(ScheduleSet(schedule, next_at=1))
    for n in range(20):
        name = f"n{n}/a"
        store.run(Send(name, (Outgoing(b"x"),)))
        store.run(RedriveStart(f"{name}-dead"))
        store.run(ScheduleSet(Schedule(name, name, Outgoing(b""), every_ms=1_000), next_at=1))


connection = connections(load)


class TestPlans(Plans):
    files = tuple(file for file in FILES if file != "doctor")  # which is to look at everything
    statements = staticmethod(statements)
    hot, may_walk, may_sort = HOT, MAY_WALK, MAY_SORT


def test_every_verb_has_a_file_of_statements():
    names = {verb.name for verb in VOCABULARY + ADMINISTRATION}
    assert names - {"repeats"} <= set(FILES), "and that one asks as a send does"
