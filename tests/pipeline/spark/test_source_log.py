"""Mode `log` without a JVM: the history as a stream, and reading in batches."""

import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from pyspark.sql import datasource as spark_filters

import turnabout
from tests.pipeline.spark.places import finish, on_postgres
from tests.pipeline.spark.played import Killed, Query, read, rows_of, source, struct
from turnabout.pipeline import schema
from turnabout.pipeline import verbs as p
from turnabout.pipeline.spark import lease, log
from turnabout.pipeline.spark.filters import Condition, pushed
from turnabout.server import verbs as c
from turnabout.words.errors import Forbidden, QueueNotFound, Unauthorized, UsageError

Made = Any
IDS = "message_id bigint"


@pytest.fixture(autouse=True)
def _quick(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(log, "IDLE_SECONDS", 0)
    monkeypatch.setattr(lease, "IDLE_SECONDS", 0)


@pytest.fixture
def query(place: str) -> Iterator[Made]:
    made: list[Query] = []

    def make(ddl: str | None = IDS, **options: Any) -> Query:
        made.append(
            Query(place, ddl, **{"maxOffsetsPerTrigger": 10, "numPartitions": 1, **options})
        )
        return made[-1]

    yield make
    for one in made:
        one.kill()


def ids_of(stream: Query) -> list[int]:
    return [row["message_id"] for batch in sorted(stream.sink) for row in stream.sink[batch]]


@pytest.mark.driving
def test_everything_once_in_batches(mq, query):
    ids = finish(mq, 25)
    stream = query().start(available_now=True)
    assert stream.run() in (3, 4)
    assert ids_of(stream) == ids
    more = finish(mq, 5)
    stream.start(available_now=True).run()
    assert ids_of(stream) == ids + more


@pytest.mark.driving
def test_a_replay_is_exact(mq, query):
    finish(mq, 10)
    stream = query().start()
    with pytest.raises(Killed):
        stream.trigger("after the sink")
    before = stream.sink[0]
    finish(mq, 10)
    assert stream.start().trigger() == before


def test_available_now_ends_where_the_log_did(mq, query):
    first = finish(mq, 12, "a"), finish(mq, 12, "b")
    stream = query().start(available_now=True)
    while stream.trigger() is not None:
        finish(mq, 5, "a")
        finish(mq, 5, "0")
    assert sorted(ids_of(stream)) == sorted(first[0] + first[1])


def test_where_a_new_checkpoint_begins(mq, query):
    old = finish(mq, 4)
    end = mq.store.run(p.LogLook()).end
    latest = query(startingOffsets="latest").start()
    given = query(startingOffsets=f'{{"position": "{end}"}}').start()
    new = finish(mq, 3)
    timed = query(startingTimestamp="2020-01-01T00:00:00Z").start()
    future = query(startingTimestamp="2222-01-01").start()
    for stream, expected in [(latest, new), (given, new), (timed, old + new), (future, None)]:
        found = stream.trigger()
        assert (found and [row["message_id"] for row in found]) == expected


def test_it_waits_for_enough_but_not_for_ever(mq, query, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(log.time, "monotonic", lambda: now[0])
    stream = query(minOffsetsPerTrigger=5, maxTriggerDelay="2m").start()
    finish(mq, 1)
    assert len(stream.trigger()) == 1  # the first batch does not wait
    finish(mq, 3)
    assert stream.trigger() is None
    now[0] += 121
    assert len(stream.trigger()) == 3
    finish(mq, 6)
    assert len(stream.trigger()) == 6


def test_the_lag_can_be_seen(mq, query):
    finish(mq, 12)
    stream = query().start()
    stream.trigger()
    assert stream.reader.reportLatestOffset() != stream.offsets[-1]
    assert stream.reader.reportLatestOffset() == {"position": mq.store.run(p.LogLook()).end}


@pytest.mark.driving
def test_history_that_is_gone(mq, query, caplog):
    finish(mq, 5)
    stream = query().start()
    stream.trigger()
    finish(mq, 5)
    removed = mq.store.run(p.LogPurge(mq.store.run(p.LogLook()).end, 10**14))
    assert removed == 10
    left = finish(mq, 2)
    with pytest.raises(UsageError, match=r"was removed before it was read.*failOnDataLoss"):
        stream.trigger()
    stream.options["failOnDataLoss"] = False
    stream.start()
    found = stream.trigger()
    assert found is not None
    assert [row["message_id"] for row in found] == left
    # The same where the run is bound.
    bound = query(failOnDataLoss=False).start(available_now=True)
    bound.run()
    assert ids_of(bound) == left


def test_rows_that_go_between_plan_and_read(mq, query):
    finish(mq, 5)
    stream = query(numPartitions=2).start()
    end = stream.reader.latestOffset({"position": ""}, stream.reader.getDefaultReadLimit())
    planned = stream.reader.partitions({"position": ""}, end)
    mq.store.run(p.LogPurge(end["position"], 10**14))
    with pytest.raises(UsageError, match=r"\d rows of history between .* were removed"):
        list(stream.reader.read(planned[0]))


@pytest.mark.parametrize("whose", [{"subscribe": "emails"}, {"subscribePattern": "e.*"}])
def test_rows_that_go_between_plan_and_read_where_not_all_are_wanted(mq, place, query, whose):
    finish(mq, 1)
    begin = mq.store.run(p.LogLook()).end
    finish(mq, 5)
    offset = f'{{"position": "{begin}"}}'
    stream = query(startingOffsets=offset, **whose).start()
    batch: Any = source(place, startingOffsets=offset, **whose).reader(struct(IDS))
    end = stream.reader.latestOffset({"position": begin}, stream.reader.getDefaultReadLimit())
    planned = stream.reader.partitions({"position": begin}, end), batch.partitions()
    mq.queue("emails").clear("done")
    for reader, partitions in zip((stream.reader, batch), planned, strict=True):
        with pytest.raises(UsageError, match=r"was removed before it was read"):
            [row for part in partitions for row in reader.read(part)]


def test_a_batch_goes_on_where_history_is_gone_if_it_may(mq, place):
    finish(mq, 1)
    offset = f'{{"position": "{mq.store.run(p.LogLook()).end}"}}'
    finish(mq, 3)
    mq.queue("emails").clear("done")
    left = finish(mq, 2)
    with pytest.raises(UsageError, match="was removed before it was read"):
        read(place, IDS, startingOffsets=offset)
    found = read(place, IDS, startingOffsets=offset, failOnDataLoss=False)
    assert [row["message_id"] for row in found] == left


def test_another_database_is_told(mq, place, query):
    finish(mq, 1)
    position = "999999999.1" if place.startswith("postgres") else "1=999999"
    stream = query(startingOffsets=f'{{"position": "{position}"}}').start()
    with pytest.raises(UsageError, match=r"beyond it.*backup"):
        stream.trigger()


# --- whose rows -----------------------------------------------------------------------------------


def test_only_queues_that_are_wanted(mq, query):
    made = {name: finish(mq, 4, name) for name in ("emails", "report-a", "report-b")}
    for options, expected in [
        ({"subscribe": "emails"}, made["emails"]),
        ({"subscribe": "emails, report-b"}, made["emails"] + made["report-b"]),
        ({"subscribePattern": "report-."}, made["report-a"] + made["report-b"]),
        ({"subscribePattern": "report"}, []),
    ]:
        stream = query(**options).start(available_now=True)
        stream.run()
        assert sorted(ids_of(stream)) == sorted(expected)
    with pytest.raises(QueueNotFound):
        query(subscribe="nobody").start()


def token(mq: turnabout.Turnabout, namespace: str, *scopes: str) -> str:
    id_, secret, digest = c.new_token()
    mq.store.run(c.TokenCreate(id_, digest, namespace, "test", c.scopes(scopes)))
    return c.token_text(id_, secret)


@pytest.mark.driving
def test_namespaces_and_tokens(mq, place, query):
    acme, other = finish(mq, 3, "acme/emails"), finish(mq, 3, "zeta/emails")
    reports, free = finish(mq, 3, "acme/reports"), finish(mq, 3, "emails")
    everything = sorted(acme + other + reports + free)

    def seen(**options: Any) -> list[int]:
        return sorted(row["message_id"] for row in read(place, IDS, numPartitions=1, **options))

    assert seen() == everything
    assert seen(namespace="acme") == sorted(acme + reports)
    assert seen(namespace="acme", subscribe="emails") == acme
    assert seen(namespace="acme", subscribePattern="em.*") == acme
    assert seen(subscribe="acme/emails,emails") == sorted(acme + free)
    assert seen(token=token(mq, "acme", "operate:*")) == sorted(acme + reports)
    narrow = token(mq, "acme", "history:rep*")
    assert seen(token=narrow) == reports
    stream = query(token=narrow).start(available_now=True)
    stream.run()
    assert ids_of(stream) == reports

    with pytest.raises(Forbidden, match="history for 'emails'"):
        seen(token=narrow, subscribe="emails")
    with pytest.raises(Forbidden, match="allows peek"):
        read(place, IDS, mode="dead", token=narrow)
    with pytest.raises(Forbidden, match="another namespace"):
        seen(token=narrow, namespace="zeta")
    with pytest.raises(UsageError, match="slash"):
        seen(token=narrow, subscribe="zeta/emails")
    with pytest.raises(Unauthorized):
        seen(token=narrow[:-2] + "xx")
    with pytest.raises(Unauthorized):
        seen(token="nonsense")
    mq.store.run(c.TokenRevoke(c.parse_token(narrow)[0]))  # type: ignore[index]
    with pytest.raises(Unauthorized):
        seen(token=narrow)


@on_postgres
def test_a_token_leases_what_it_covers(mq, query):
    for name in ("acme/emails", "acme/reports", "zeta/emails"):
        mq.queue(name).send("x")
    worker = token(mq, "acme", "consume:emails")
    stream = query(None, mode="lease", token=worker, subscription="s", subscribePattern=".*")
    (row,) = stream.start().trigger()
    assert (row["namespace"], row["queue"]) == ("acme", "emails")
    assert [one.name for one in mq.store.run(p.SubscriptionList())] == ["acme/s"]
    with pytest.raises(Forbidden, match="receive for 'reports'"):
        query(None, mode="lease", token=worker, subscription="t", subscribe="reports").start()


# --- batches --------------------------------------------------------------------------------------


def test_history_as_it_is_shown(mq, place):
    queue = mq.queue("emails")
    queue.create(history_payload=True)
    sent = queue.send({"a": 1}, channel="ann", headers={"h": "1"})
    (message,) = queue.receive()
    message.ack(result={"ok": True})
    (row,) = read(place, mode="history", includeHeaders=True)
    assert row["message_id"] == sent.ids[0]
    assert (row["namespace"], row["queue"], row["channel"]) == ("", "emails", "ann")
    assert (row["outcome"], row["attempt"], row["value"]) == ("done", 1, b'{"a":1}')
    assert (row["result"], row["result_type"]) == (b'{"ok":true}', "application/json")
    assert dict(row["headers"]) == {"h": "1"}
    assert row["sent_at"] <= row["leased_at"] <= row["finished_at"]
    assert row["finished_at"].utcoffset().total_seconds() == 0
    assert "value" not in read(place, mode="history", includeValue=False)[0]


def test_the_log_between_two_places(mq, place):
    first = finish(mq, 3)
    middle = mq.store.run(p.LogLook()).end
    second = finish(mq, 3)
    at = f'{{"position": "{middle}"}}'
    assert [r["message_id"] for r in read(place, IDS, endingOffsets=at)] == first
    assert [r["message_id"] for r in read(place, IDS, startingOffsets=at)] == second
    assert read(place, IDS, endingTimestamp="2020-01-01") == []
    nobody: Any = source(place).reader(struct(IDS))
    assert list(nobody.read(spark_filters.InputPartition(None))) == []  # as Spark makes for none
    with pytest.raises(UsageError, match="startingOffsets is earliest or a position such as"):
        read(place, startingOffsets="latest")


def test_history_between_two_instants(mq, place):
    ids = finish(mq, 3)
    (first, *_, last) = read(place, "finished_at timestamp", mode="history")
    start = int(first["finished_at"].timestamp() * 1000)
    end = int(last["finished_at"].timestamp() * 1000) + 1
    between = {"startingTimestamp": start, "endingTimestamp": end}
    assert [r["message_id"] for r in read(place, IDS, mode="history", **between)] == ids
    assert read(place, IDS, mode="history", startingTimestamp=end) == []
    assert read(place, IDS, mode="history", endingTimestamp=start) == []


DAYS = (40, 3_000, 700)
"""Rows of a day that was never made, so with the rest; of today, and of tomorrow."""


@pytest.fixture
def days(mq: turnabout.Turnabout, place: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a history of several files, of different sizes."""
    mq.queue("emails").create()
    with psycopg.connect(place, autocommit=True) as connection:
        for day, rows in enumerate(DAYS):
            connection.execute(
                "insert into turnabout.history (id, sent_at, leased_at, finished_at, queue_id,"
                " attempt, failures, crashes, outcome, channel, xid)"
                " select i + 10000 * %(day)s, n.ms, n.ms, n.ms, q.id, 1, 0, 0, 1, 'c', '10'"
                " from turnabout.queue q, generate_series(1, %(rows)s) i, lateral"
                " (select turnabout.clock_ms() + (%(day)s - 1) * 86400000 as ms) n"
                " where q.name = 'emails'",
                {"day": day, "rows": rows},
            )
        yield connection


@on_postgres
@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2, 3, 8, 1_000])
def test_history_is_read_by_block(place, days, parts):
    reader = source(place, mode="history", numPartitions=parts).reader(struct(IDS))
    planned = reader.partitions()
    counts = [sum(batch.num_rows for batch in reader.read(part)) for part in planned]
    found = [row["message_id"] for part in planned for row in rows_of(reader, part)]
    assert sorted(found) == [
        n + 10_000 * d for d, rows in enumerate(DAYS) for n in range(1, rows + 1)
    ]
    if parts <= 3:
        assert len(planned) == parts
        assert max(counts) - min(counts) < 300, "two blocks of each file, about"


@on_postgres
def test_history_that_moves_while_it_is_read(place, days):
    reader = source(place, mode="history", numPartitions=2).reader(struct(IDS))
    first, last = reader.partitions()
    before = [row["message_id"] for row in rows_of(reader, first)]
    days.execute("delete from turnabout.history where id = any(%s)", (before[:100],))
    assert len(list(rows_of(reader, first))) == len(before) - 100, "what went is not there, no more"
    days.execute("vacuum full turnabout.history")
    for part in (first, last):
        with pytest.raises(UsageError, match=r"history was moved .* read it again"):
            list(rows_of(reader, part))
    assert len(read(place, IDS, mode="history")) == sum(DAYS) - 100


@pytest.mark.driving
def test_what_a_running_transaction_holds_back_is_history_but_not_log(mq, place):
    if not place.startswith("postgres"):
        assert mq.store.run(p.LogLook()).waiting_ms is None  # one writer: nothing ever waits
        return
    with psycopg.connect(place) as held:
        held.execute("select pg_current_xact_id()")
        ids = finish(mq, 3)
        assert read(place, IDS, mode="log") == []
        assert sorted(r["message_id"] for r in read(place, IDS, mode="history")) == ids
    assert [r["message_id"] for r in read(place, IDS, mode="log")] == ids


@pytest.mark.driving
def test_the_dead(mq, place):
    for name in ("emails", "reports"):
        queue = mq.queue(name)
        queue.create(max_attempts=1)
        queue.send(name)
        (message,) = queue.receive()
        message.fail("no such address")
    found = read(place, mode="dead")
    assert {row["queue"] for row in found} == {"emails-dead", "reports-dead"}
    for subscribe in ("emails", "emails-dead"):
        (row,) = read(place, mode="dead", subscribe=subscribe)
        assert (row["queue"], row["source_queue"]) == ("emails-dead", "emails")
        assert (row["value"], row["last_error"]) == (b"emails", "no such address")
        assert row["failures"] == 1
        assert row["died_at"] >= row["sent_at"]
    scoped = token(mq, "", "peek:*-dead")
    assert len(read(place, mode="dead", token=scoped)) == 2
    assert len(read(place, mode="dead", token=scoped, subscribe="emails")) == 1


@pytest.mark.driving
def test_filters_reach_the_database(mq, place):
    ids = finish(mq, 3, channel="ann") + finish(mq, 3, channel="Ärger")
    every = read(place, mode="history", includeValue=False)
    at = every[2]["finished_at"]
    of = spark_filters
    cases: list[tuple[Any, Any]] = [
        (of.EqualTo(("channel",), "ann"), lambda r: r["channel"] == "ann"),
        (of.Not(of.EqualTo(("channel",), "ann")), lambda r: r["channel"] != "ann"),
        (of.In(("message_id",), (ids[0], ids[4])), lambda r: r["message_id"] in (ids[0], ids[4])),
        (of.GreaterThan(("finished_at",), at), lambda r: r["finished_at"] > at),
        (of.LessThanOrEqual(("finished_at",), at), lambda r: r["finished_at"] <= at),
        (of.GreaterThan(("channel",), "b"), lambda r: r["channel"].encode() > b"b"),
        (of.IsNull(("error",)), lambda r: r["error"] is None),
        (of.IsNotNull(("error",)), lambda r: r["error"] is not None),
        (of.StringStartsWith(("channel",), "Är"), lambda r: r["channel"].startswith("Är")),
        (of.LessThan(("attempt",), 2), lambda r: r["attempt"] < 2),
    ]
    for given, expected in cases:
        made = source(place, mode="log", numPartitions=1)
        reader: Any = made.reader(struct("message_id bigint, channel string"))
        assert list(reader.pushFilters([given])) == []
        found = {r["message_id"] for part in reader.partitions() for r in rows_of(reader, part)}
        assert found == {r["message_id"] for r in every if expected(r)}, given


def test_instants_between_milliseconds_are_rounded_to_the_side_that_is_the_same():
    half = datetime(1970, 1, 1, 0, 0, 0, 1_500, UTC)  # a millisecond and a half
    of, at = spark_filters, ("finished_at",)
    for given, op, operand in [
        (of.GreaterThan(at, half), ">", 1),
        (of.GreaterThanOrEqual(at, half), ">=", 2),
        (of.LessThan(at, half), "<", 2),
        (of.LessThanOrEqual(at, half), "<=", 1),
    ]:
        assert pushed([given], schema.LOG) == ([Condition("finished_at", op, operand)], [])
    left = [of.EqualTo(at, half), of.In(at, (half,)), of.EqualTo(at, half.replace(tzinfo=None))]
    assert pushed(left, schema.LOG) == ([], left)


def test_spark_asks_no_reader_for_pushdown_where_it_is_off(place):
    """The check that Spark makes before it refuses a reader with filters of its own."""
    reader = source(place, mode="history").reader(struct(IDS))
    base = spark_filters.DataSourceReader.pushFilters
    assert getattr(reader.pushFilters, "__func__", None) is base
    kept = spark_filters.EqualTo(("nobody",), datetime(2026, 1, 1, tzinfo=UTC))
    assert list(reader.pushFilters([kept])) == [kept]
