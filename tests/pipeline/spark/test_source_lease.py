"""Mode `lease` without a JVM: the readers, called as Spark calls them, and killed at each step."""

import dataclasses
import logging
import pickle
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import turnabout
from tests.pipeline.spark.places import on_postgres
from tests.pipeline.spark.played import KILLS, Killed, Query
from turnabout import Policy
from turnabout.pipeline import verbs as p
from turnabout.pipeline.spark import lease
from turnabout.words.errors import Forbidden, QueueNotFound, UsageError

pytestmark = on_postgres

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


def test_a_poison_message_does_not_stop_the_stream(mq, query, caplog):
    """With a supervisor that starts the query again each time it fails."""
    sent = send(mq, 30)
    poison = sent[13]
    stream = query(maxOffsetsPerTrigger=20, maxBatchFailures=2)
    stream.fails = lambda rows: any(row["value"].decode() == poison for row in rows)
    failed = 0
    while True:
        stream.start(available_now=True)
        try:
            stream.run()
        except Killed:
            failed += 1
            assert failed < 15
            continue
        break
    assert Counter(stream.seen()) == Counter(one for one in sent if one != poison)
    stats = mq.queue("emails").stats()
    assert (stats.done, stats.dead, stats.leased, stats.ready) == (29, 1, 0, 0)
    (dead,) = mq.queue("emails-dead").peek()
    assert dead.text() == poison
    assert "ended as dead" in caplog.text


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
