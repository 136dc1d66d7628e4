"""Mode `lease` without a JVM: the readers, called as Spark calls them, and killed at each step."""

import dataclasses
import logging
import math
import pickle
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

import turnabout
from tests.conformance.steps import finished
from tests.pipeline.spark.places import on_postgres
from tests.pipeline.spark.played import KILLS, Killed, Query
from tests.support.doors import Clock
from turnabout import Policy, _connect
from turnabout.pipeline import verbs as p
from turnabout.pipeline.spark import lease
from turnabout.words.errors import Forbidden, QueueNotFound, UsageError

pytestmark = [on_postgres, pytest.mark.slow]

Made = Any


@pytest.fixture
def query(place: str) -> Iterator[Made]:
    """Makes queries on the queue `emails`; what they open is closed."""
    made: list[Query] = []

    def make(**options: Any) -> Query:
        given = {"mode": "lease", "subscription": "s", "maxOffsetsPerTrigger": 10, **options}
        if "subscribePattern" not in given:
            given.setdefault("subscribe", "emails")
        made.append(Query(place, **given))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture(autouse=True)
def _quick(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(lease, "IDLE_SECONDS", 0)
    monkeypatch.setattr(lease, "MAINTAIN_SECONDS", 0.1)


def send(mq: turnabout.Turnabout, count: int, queue: str = "emails", **how: Any) -> list[str]:
    texts = [f"{queue}-{n}" for n in range(count)]
    for text in texts:
        mq.queue(queue).send(text, **how)
    return texts


def subscription(mq: turnabout.Turnabout, name: str = "s") -> p.Subscription:
    return next(one for one in mq.store.run(p.SubscriptionList()) if one.name == name)


def test_every_message_once_and_acknowledged(mq, query):
    sent = send(mq, 25)
    stream = query().start(available_now=True)
    assert stream.run() == 3
    assert stream.seen() == sent
    assert [len(rows) for rows in stream.sink.values()] == [10, 10, 5]
    stats = mq.queue("emails").stats()
    assert (stats.done, stats.leased, stats.ready) == (25, 0, 0)
    assert subscription(mq).owner == lease.owner()


def test_rows_carry_what_a_message_is(mq, query):
    sent = mq.queue("emails").send(
        {"to": "ann"}, channel="ann", priority=3, headers={"trace": "1", "käse": "ß"}
    )
    stream = query(includeHeaders=True, leaseSeconds=60).start()
    (row,) = stream.trigger()
    assert row["message_id"] == sent.ids[0]
    assert (row["namespace"], row["queue"], row["channel"]) == ("", "emails", "ann")
    assert (row["value"], row["content_type"]) == (b'{"to":"ann"}', "application/json")
    assert dict(row["headers"]) == {"trace": "1", "käse": "ß"}
    assert (row["priority"], row["attempt"], row["failures"], row["epoch"]) == (3, 1, 0, 1)
    assert row["sent_at"] <= row["leased_at"]
    assert (row["lease_until"] - row["leased_at"]).total_seconds() == pytest.approx(60, abs=1)


def test_a_narrow_schema_reads_only_its_columns(mq, query):
    send(mq, 3)
    stream = query()
    stream.ddl = "channel string, message_id bigint"
    assert {tuple(row) for row in stream.start().trigger()} == {("channel", "message_id")}


@pytest.mark.share(4)
@pytest.mark.parametrize("kill", KILLS)
def test_a_driver_killed_anywhere_loses_and_mixes_nothing(mq, query, kill):
    sent = send(mq, 25)
    stream = query().start()
    stream.trigger()
    with pytest.raises(Killed):
        stream.trigger(kill)
    done_before = dict(stream.sink)
    stream.start(available_now=True)
    stream.run()
    assert stream.seen() == sent  # a repeated batch is the same batch, so the sink has each once
    assert all(stream.sink[batch] == rows for batch, rows in done_before.items())
    assert mq.queue("emails").stats().done == 25


def test_a_clean_restart_acknowledges_what_the_commit_log_holds(mq, query):
    send(mq, 10)
    stream = query().start()
    stream.trigger()
    assert mq.queue("emails").stats().leased == 10  # nobody but the next run can know
    assert stream.start(available_now=True).run() == 0
    assert mq.queue("emails").stats().done == 10


def test_commit_alone_acknowledges_too(mq, query):
    send(mq, 10)
    stream = query().start()
    stream.trigger()
    stream.reader.commit({"epoch": 1})
    assert mq.queue("emails").stats().done == 10


def test_the_next_epoch_is_leased_while_spark_works(mq, query):
    sent = send(mq, 35)
    stream = query().start()
    # A full batch: more is waiting, so the one after it is leased, too.
    for done, leased in [(0, 20), (10, 20), (20, 15)]:
        stream.trigger()
        stream.reader._driver.ahead.join()
        stats = mq.queue("emails").stats()
        assert (stats.done, stats.leased) == (done, leased)
    stream.start(available_now=True).run()
    assert stream.seen() == sent
    assert mq.queue("emails").stats().done == 35


def test_available_now_ends_while_producers_go_on(mq, query):
    send(mq, 25)
    stream = query().start(available_now=True)
    batches = 0
    while stream.trigger() is not None:
        batches += 1
        send(mq, 10)
    assert batches == 3
    assert len(stream.seen()) == 25


def test_a_released_subscription_says_so(mq, query):
    send(mq, 5)
    stream = query().start()
    stream.trigger()
    assert mq.store.run(p.SubscriptionRelease("s")) == 5
    with pytest.raises(Forbidden, match="pipeline release"):
        stream.trigger()
    assert mq.queue("emails").stats().ready == 5


# --- poison ---------------------------------------------------------------------------------------


class Passing(threading.Event):
    """Where the driver waits, the store's time passes instead."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return super().wait(timeout)
        self.clock.advance(timeout or 0)
        return False


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the readers' stores."""
    clock, database = Clock(), _connect.database
    monkeypatch.setattr(_connect, "database", lambda url: database(url, clock))
    return clock


def supervised(stream: Query, clock: Clock, is_over: Callable[[], bool]) -> int:
    """Start the query again ten seconds after it has failed, or ended; how often it failed."""
    failed = 0
    while not is_over():
        with suppress(Killed):
            stream.start()
            stream.reader._driver.stopping = Passing(clock)
            failed += 1
            while stream.trigger() is not None:
                pass
            failed -= 1
        clock.advance(10)
    return failed


def test_an_outage_of_half_an_hour_leaves_nothing_dead(mq, query, clock, caplog):
    mq.queue("emails").create(max_attempts=2)
    mq.queue("emails").send_many([turnabout.message(str(n)) for n in range(1000)])
    stream = query(maxOffsetsPerTrigger=1000)
    until = clock.now + 1_800_000
    stream.fails = lambda rows: bool(rows) and clock.now < until
    assert supervised(stream, clock, lambda: clock.now >= until) > 50
    assert mq.queue("emails").stats().dead == 0
    assert "message 1 is set aside\n" in caplog.text
    assert "failed 3 times with 1 message; message 2 is set aside; nothing else" in caplog.text
    assert "got through: waiting 16 s" in caplog.text
    clock.advance(3600)
    assert supervised(stream, clock, lambda: mq.queue("emails").stats().done == 1000) == 0
    assert sorted(map(int, stream.seen())) == [*range(1000)]
    assert {(row.failures, row.crashes) for row in finished(mq.queue("emails"))} == {(0, 0)}


def test_the_progress_tells_what_waits_and_what_goes_wrong(mq, query):
    send(mq, 25)
    mq.queue("other").send("not subscribed to")
    stream = query(maxOffsetsPerTrigger=10, maxBatchFailures=1).start()
    stream.fails = bool
    with pytest.raises(Killed):
        stream.trigger()
    stream.start()
    stream.reader.partitions({"epoch": 0}, {"epoch": 1})
    told = stream.reader.reportLatestOffset()
    assert (told["epoch"], told["unfinished"]) == (1, 25)
    assert told["oldest_ready_seconds"] >= 0
    assert re.match(r"epoch 1 failed once; \d messages went back", told["trouble"])
    stream.fails = lambda _: False
    stream.run()
    assert "trouble" not in stream.reader.reportLatestOffset()


def test_a_poison_message_does_not_stop_the_stream(mq, query, clock, caplog):
    """And is found in a number of batches that grows with the logarithm of their size."""
    mq.queue("emails").send_many([turnabout.message(str(n)) for n in range(1000)])
    stream = query(maxOffsetsPerTrigger=1000)
    stream.fails = lambda rows: any(row["value"] == b"613" for row in rows)
    failed = supervised(stream, clock, lambda: mq.queue("emails").stats().dead == 1)
    assert failed <= 3 * math.log2(1000)
    assert supervised(stream, clock, lambda: mq.queue("emails").stats().done == 999) == 0
    assert sorted(map(int, stream.seen())) == [n for n in range(1000) if n != 613]
    (dead,) = mq.queue("emails-dead").peek()
    assert dead.text() == "613"
    assert dead.origin.last_error.startswith("the batch of the stream 's' failed with this message")
    assert (
        f"message {dead.id} is dead: it failed alone twice while others got through" in caplog.text
    )


def test_asked_twice_in_one_run_is_no_failure(mq, query):
    send(mq, 10)
    stream = query(maxBatchFailures=1).start()
    end = stream.reader.latestOffset({"epoch": 0}, stream.reader.getDefaultReadLimit())
    for _ in range(3):
        assert len(stream.read({"epoch": 0}, end)) == 10


# --- what goes wrong ------------------------------------------------------------------------------


def test_lost_leases_are_left_out_or_fail_the_batch(mq, query, caplog):
    send(mq, 10)
    stream = query().start()
    with pytest.raises(Killed):
        stream.trigger(KILLS[1])
    mq.queue("emails").purge(state="leased", channel="")
    send(mq, 3)
    assert stream.start().trigger() == []
    assert "leased no more" in caplog.text

    strict = query(subscription="t", failOnLeaseLost=True).start()
    with pytest.raises(Killed):
        strict.trigger(KILLS[1])
    mq.queue("emails").purge(state="leased", channel="")
    with pytest.raises(UsageError, match=r"\d messages of epoch 1 .* failOnLeaseLost=false"):
        strict.start().trigger()


def test_an_older_copy_of_the_checkpoint_is_no_silent_loss(mq, query):
    send(mq, 30)
    stream = query().start(available_now=True)
    stream.run()
    del stream.offsets[3:]
    stream.committed = 1  # that copy had no batch under way
    with pytest.raises(UsageError, match=r"is at epoch 2 .* up to 3 are acknowledged"):
        stream.start().trigger()
    stream.committed = 0  # batch 1 was planned in that copy, and not committed
    with pytest.raises(UsageError, match=r"asks for epoch 2 .* up to 3 are acknowledged"):
        stream.start().trigger()
    stream.options["failOnDataLoss"] = False
    assert stream.start().trigger() == []


def test_an_older_database_is_no_silent_loss(mq, query):
    send(mq, 5)
    stream = query().start()
    stream.offsets += ['{"epoch": 70}', '{"epoch": 71}']
    stream.committed = 0
    with pytest.raises(UsageError, match=r"asks for epoch 71 .* newest there is 0.*backup"):
        stream.start().trigger()


def test_a_queue_that_is_not_there(mq, query):
    send(mq, 1)
    with pytest.raises(QueueNotFound, match="'emial'"):
        query(subscribe="emails,emial").start()
    assert mq.store.run(p.SubscriptionList()) == ()  # nothing was taken


def test_options_that_are_missing(mq, query):
    for options, said in [
        ({"subscribe": ""}, "subscribe.*emails"),
        ({"subscription": ""}, "subscription.*each query has its own"),
        ({"subscribePattern": "e.*", "subscribe": "emails"}, "not both"),
        ({"leaseSeconds": "700000"}, "leaseSeconds is 1 to 604,800"),
        ({"asyncProgressTrackingEnabled": True}, "asyncProgressTrackingEnabled cannot be used"),
        ({"startingOffsets": "latest"}, "option of mode=log"),
    ]:
        with pytest.raises(UsageError, match=said):
            query(**options).start()


# --- queues, order, policies ----------------------------------------------------------------------


def test_queues_of_a_pattern_join_while_it_runs(mq, query):
    stream = query(subscribePattern="report-.*").start()
    assert stream.trigger() is None
    send(mq, 3, "report-a")
    send(mq, 3, "other-report-b")
    assert {row["queue"] for row in stream.trigger()} == {"report-a"}
    send(mq, 3, "report-b")
    assert {row["queue"] for row in stream.trigger()} == {"report-b"}
    mq.queue("report-a").delete()
    send(mq, 1, "report-b")
    assert len(stream.trigger()) == 1
    assert mq.queue("other-report-b").stats().ready == 3


def test_key_order(mq, query):
    queue = mq.queue("emails")
    for n in range(60):
        queue.send(str(n), channel=f"c{n % 7}")
    stream = query(maxOffsetsPerTrigger=60, numPartitions=3, preserveKeyOrder=True).start()
    start = {"epoch": 0}
    end = stream.reader.latestOffset(start, stream.reader.getDefaultReadLimit())
    executor = pickle.loads(pickle.dumps(stream.reader))
    where: dict[str, set[int]] = {}
    seen: dict[str, list[int]] = {}
    for at, part in enumerate(stream.reader.partitions(start, end)):
        for batch in executor.read(part):
            for row in batch.to_pylist():
                where.setdefault(row["channel"], set()).add(at)
                seen.setdefault(row["channel"], []).append(int(row["value"]))
    assert len(where) == 7
    assert len({min(at) for at in where.values()}) == 3
    assert all(len(at) == 1 for at in where.values())
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_policies_hold(mq, query):
    queue = mq.queue("emails")
    queue.create()
    queue.channel("narrow").set_policy(Policy(max_concurrency=2))
    queue.channel("fifo").set_policy(Policy(max_concurrency=1))
    for n in range(5):
        queue.send(str(n), channel="narrow")
        queue.send(str(n), channel="fifo")
        queue.send(str(n), channel="free")
    queue.send("later", channel="free", delay_seconds=3600)
    stream = query(maxOffsetsPerTrigger=100).start()
    got = Counter(row["channel"] for row in stream.trigger())
    assert got == {"narrow": 2, "fifo": 1, "free": 5}
    got = Counter(row["channel"] for row in stream.trigger())
    assert got == {"narrow": 2, "fifo": 1}


def test_several_queues_share_few_tasks(mq, query):
    for n in range(6):
        send(mq, 4, f"q-{n}")
    stream = query(subscribePattern="q-.*", maxOffsetsPerTrigger=100).start()
    start = {"epoch": 0}
    end = stream.reader.latestOffset(start, stream.reader.getDefaultReadLimit())
    assert len(stream.reader.partitions(start, end)) == 2
    assert len(stream.read(start, end)) == 24


# --- the heartbeat --------------------------------------------------------------------------------


def test_the_heartbeat_beats_by_itself(mq, query, monkeypatch):
    send(mq, 5)
    stream = query().start()
    beats: list[bool] = []
    several = threading.Event()
    extend = stream.reader.extend

    def counted() -> bool:
        beats.append(extend())
        if len(beats) == 3:
            several.set()
        return beats[-1]

    monkeypatch.setattr(stream.reader, "extend", counted)
    stream.reader._settings = dataclasses.replace(stream.reader._settings, lease_ms=300)
    end = stream.reader.latestOffset({"epoch": 0}, stream.reader.getDefaultReadLimit())
    stream.reader._driver.stopping.set()  # the beat of the old length
    stream.reader._driver.beating.join()
    stream.reader._driver.stopping.clear()
    stream.reader._open()
    assert several.wait(20)
    assert all(beats)
    assert end == {"epoch": 1}


def test_the_heartbeat_ends_when_spark_is_silent(mq, query, caplog):
    send(mq, 5)
    stream = query(leaseSeconds=1, maxBatchSeconds=1).start()
    stream.reader._driver.called_at -= 5
    stream.reader._driver.beating.join(20)
    assert not stream.reader._driver.beating.is_alive()
    assert "maxBatchSeconds" in caplog.text
