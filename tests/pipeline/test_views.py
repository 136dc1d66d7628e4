"""The views for bulk reading: the same columns in each store, and they tell what the verbs tell."""

import json

import pytest

from tests.conformance.steps import finished, grave_of, sent
from tests.pipeline.steps import LEASE_MS, on_postgres
from turnabout import Failure, QueueSettings, message
from turnabout.words import verbs as v

COLUMNS = {
    "log_rows": """namespace queue channel message_id outcome attempt failures crashes sent_at
        leased_at finished_at error result result_type value content_type headers""",
    "epoch_rows": """subscription epoch part place namespace queue channel message_id attempt
        priority failures crashes sent_at leased_at lease_until value content_type headers state""",
    "dead_rows": """namespace queue channel message_id source_queue reason died_at failures crashes
        redrives first_error last_error sent_at value content_type headers""",
}
PLACE = {True: ["queue_id", "tid", "xid"], False: ["queue_id", "seq"]}
TEXT = set(
    """subscription namespace queue channel outcome error result_type content_type headers
    source_queue reason first_error last_error""".split()  # noqa: SIM905
)
BYTES = {"result", "value", "state"}


def columns(pipe, view):
    if pipe.is_postgres:
        rows = pipe.select(
            "select column_name as name, data_type as type from information_schema.columns"
            " where table_schema = 'turnabout' and table_name = ? order by ordinal_position",
            view,
        )
    else:
        rows = pipe.select(f"select name, type from pragma_table_info('turnabout_{view}')")
    return {row["name"]: row["type"] for row in rows}


@pytest.mark.parametrize("view", COLUMNS)
def test_a_view_has_its_columns(pipe, view):
    wanted = COLUMNS[view].split() if view != "epoch_rows" or pipe.is_postgres else []
    if view == "log_rows":
        wanted = sorted([*wanted, *PLACE[pipe.is_postgres]])
        assert sorted(columns(pipe, view)) == wanted
    else:
        assert sorted(columns(pipe, view)) == sorted(wanted)


@pytest.fixture
def full(pipe, clock):
    """A queue that has, or had, one of everything; what it answers is compared with its rows."""
    queue = pipe.queue(history_payload=True, max_attempts=2, backoff_seconds=0)
    headers = {"ü": 'a"b', "n": "1"}
    sent(queue, "plain")
    sent(queue, b"\x00\xff", content_type="x/y", channel="ü/ä", headers=headers, priority=-2)
    clock.advance(1)
    return queue


def as_row(value):
    return None if value is None else bytes(value)


def test_log_rows_are_the_history(pipe, clock, full):
    (second,), began = full.receive(1), pipe.end()
    second.fail("first error")
    clock.advance(1)
    first, second = sorted(full.receive(2), key=lambda m: m.id)
    clock.advance(1)
    full.ack([first.receipt], results=[{"n": 1}])
    second.fail("last error", retry=False)
    told = {entry.id: entry for entry in finished(full)}
    rows = {row["message_id"]: row for row in pipe.log(began)}
    assert set(rows) == set(told)
    assert len(rows) == 2
    for number, row in rows.items():
        entry = told[number]
        for name in "channel outcome attempt failures crashes sent_at leased_at".split():  # noqa: SIM905
            assert row[name] == getattr(entry, name), name
        assert (row["finished_at"], row["error"]) == (entry.finished_at, entry.error)
        result = entry.result
        assert as_row(row["result"]) == (None if result is None else result.data)
        assert row["result_type"] == (None if result is None else result.content_type)
        assert (as_row(row["value"]), row["content_type"]) == (entry.payload, entry.content_type)
        check_headers(row, entry.headers)
        check_types(row)
        assert (row["namespace"], row["queue"]) == ("", full.name)


@on_postgres
def test_epoch_rows_are_what_receive_would_give(pipe, clock, full):
    (second,) = full.receive(1)
    second.defer(state=b"saved")
    reader = pipe.reader(full)
    reader.lease(0)
    clock.advance(1)
    peeked = {m.id: m for m in full.peek(10)}
    rows = reader.rows(1)
    assert {row["message_id"] for row in rows} == set(peeked)
    for row in rows:
        m = peeked[row["message_id"]]
        for name in "channel attempt priority failures crashes sent_at content_type".split():  # noqa: SIM905
            assert row[name] == getattr(m, name), name
        assert as_row(row["value"]) == m.payload
        assert as_row(row["state"]) == m.saved_state
        assert (row["lease_until"], m.state) == (m.due_at, "leased")
        assert (row["leased_at"], row["lease_until"]) == (clock.now - 1000, m.due_at)
        assert m.due_at == row["leased_at"] + LEASE_MS
        assert (row["subscription"], row["epoch"]) == (reader.subscription, 1)
        assert (row["namespace"], row["queue"]) == ("", full.name)
        check_headers(row, m.headers)
        check_types(row)
    assert {as_row(row["state"]) for row in rows} == {None, b"saved"}


@on_postgres
def test_epoch_rows_go_with_their_lease(pipe, clock, full):
    reader = pipe.reader(full)
    reader.lease(0)
    clock.advance(ms=LEASE_MS)
    assert len(reader.rows(1)) == 2, "nobody has noticed"
    (worker,) = full.receive(1)
    assert len(reader.rows(1)) <= 1
    assert worker.id not in [row["message_id"] for row in reader.rows(1)]
    reader.lease(1)
    assert reader.rows(1) == []


def test_dead_rows_are_what_is_in_dead_letter_queues(pipe, clock, full):
    for error in ("first error", "last error"):
        held = full.receive(2)
        full.fail([Failure(m.receipt, error) for m in held])
        clock.advance(1)
    grave = grave_of(full)
    told = {m.id: m for m in grave.peek(10)}
    rows = dead(pipe, grave)
    assert {row["message_id"] for row in rows} == set(told)
    assert len(rows) == 2
    for row in rows:
        m = told[row["message_id"]]
        assert (row["channel"], row["sent_at"]) == (m.channel, m.sent_at)
        assert (row["source_queue"], row["reason"]) == (m.origin.queue, m.origin.reason)
        for name in "died_at failures crashes redrives first_error last_error".split():  # noqa: SIM905
            assert row[name] == getattr(m.origin, name), name
        assert (row["first_error"], row["last_error"]) == ("first error", "last error")
        assert (as_row(row["value"]), row["content_type"]) == (m.payload, m.content_type)
        assert (row["namespace"], row["queue"]) == ("", grave.name)
        check_headers(row, m.headers)
        check_types(row)
    one_of_them = grave.receive(1)[0]
    assert len(dead(pipe, grave)) == 2, "leased, it is there still"
    one_of_them.ack()
    assert len(dead(pipe, grave)) == 1
    pipe.run(v.RedriveStep(grave.redrive_start().id))
    assert dead(pipe, grave) == []


def test_names_are_split_at_the_namespace(pipe, clock):
    plain, tenant = pipe.name("q"), pipe.name("t")
    began = pipe.end()
    for name in (plain, f"{tenant}/{plain}"):
        pipe.run(v.QueueCreate(name, QueueSettings()))
        pipe.run(v.Send(name, tuple(message(text) for text in ("done", "dead", "left"))))
        done, die = pipe.run(v.Receive(name, 2)).deliveries
        pipe.run(v.Ack(name, (done.receipt,)))
        pipe.run(v.Fail(name, (Failure(die.receipt, "why", retry=False),)))
    split = [("", plain), (tenant, plain)]

    def names(rows):
        return sorted({(row["namespace"], row["queue"]) for row in rows})

    assert names(pipe.log(began)) == split
    rows = pipe.select("select * from dead_rows where queue = ?", f"{plain}-dead")
    assert names(rows) == [(namespace, f"{queue}-dead") for namespace, queue in split]
    assert sorted(row["source_queue"] for row in rows) == sorted([plain, f"{tenant}/{plain}"])


@on_postgres
def test_names_of_what_is_leased_are_split_as_well(pipe):
    plain, tenant = pipe.name("q"), pipe.name("t")
    reader = pipe.reader(subscription=f"{tenant}/{pipe.name()}")
    reader.queues = (plain, f"{tenant}/{plain}")
    for name in reader.queues:
        pipe.run(v.Send(name, (message("x"),)))
    reader.lease(0)
    found = sorted((row["namespace"], row["queue"]) for row in reader.rows(1))
    assert found == [("", plain), (tenant, plain)]
    assert {row["subscription"] for row in reader.rows(1)} == {reader.subscription}


def dead(pipe, queue):
    return pipe.select(
        "select * from dead_rows where namespace = '' and queue = ? order by message_id", queue.name
    )


def check_headers(row, headers):
    """JSON text, or null without any."""
    assert json.loads(row["headers"] or "{}") == dict(headers or {})
    assert row["headers"] is None or isinstance(row["headers"], str)
    assert bool(row["headers"]) == bool(headers)


def check_types(row):
    for name, value in row.items():
        if name in ("xid", "tid") or value is None:
            continue
        kind = str if name in TEXT else (bytes, memoryview) if name in BYTES else int
        assert isinstance(value, kind), (name, value)
        assert not isinstance(value, bool)
