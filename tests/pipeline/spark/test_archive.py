"""The archive, compaction and replay with Spark: what goes in comes out. On both stores replay;
the archive's steps without Spark are in `tests/pipeline/lake`.
"""

from typing import Any

import pytest

import turnabout
from tests.pipeline.spark.places import finish, on_sqlite
from turnabout.pipeline import archive, compact, read_lake, replay
from turnabout.pipeline.jobs.replay import WithoutValue
from turnabout.words.errors import UsageError

FAR = 4e9
"""Seconds: long after everything."""


def lived(mq: turnabout.Turnabout) -> None:
    """Messages that ended in every way, with all that a row can have."""
    mail = mq.queue("mail")
    mail.create(max_attempts=1, history_payload=True)
    mail.send_many(
        turnabout.message({"n": n}, channel=f"c{n % 2}", headers={"a": "1", "b": "ü"})
        for n in range(4)
    )
    for n, message in enumerate(mail.receive(max_messages=4)):
        if n < 3:
            message.ack(result={"n": n})
        else:
            message.fail("no such user\n550")
    mail.cancel([mail.send("never").id])
    mq.queue("acme/mail").create(history_payload=True)
    mq.queue("acme/mail").send(b"\x00\xff", content_type="application/x-own")
    (other,) = mq.queue("acme/mail").receive()
    other.ack()


def plain(rows: list[Any]) -> list[tuple[Any, ...]]:
    """Rows without their order."""
    return sorted((tuple(sorted(row.asDict().items(), key=str)) for row in rows), key=str)


def test_the_lake_holds_what_the_history_holds(spark, place, mq, tmp_path):
    folder = tmp_path / "lake"
    lived(mq)
    assert archive(place, folder, spark=spark).rows == 6
    assert archive(place, folder, spark=spark).rows == 0
    finish(mq, 1, "mail")
    assert archive(place, folder, spark=spark, max_rows=1).total == 7
    history = (
        spark.read.format("turnabout")
        .options(url=place, mode="history", includeHeaders="true")
        .load()
        .collect()
    )
    rows = read_lake(spark, folder).collect()
    assert plain(rows) == plain(history)
    assert len(rows) == 7
    done = compact(folder, now=FAR)
    assert (done.before, done.after) == (2, 1)
    assert plain(read_lake(spark, folder).collect()) == plain(rows)
    assert archive(place, folder).rows == 0  # nor by the other engine


@pytest.mark.driving
def test_replay_sends_once_for_a_run(spark, place, mq, tmp_path, monkeypatch):
    folder = tmp_path / "lake"
    lived(mq)
    archive(place, folder, spark=spark)
    monkeypatch.setattr("turnabout.pipeline.jobs.replay.BATCH_ROWS", 2)
    how: dict[str, Any] = {"queues": ["mail"], "outcomes": ["done", "dead"], "to": "again"}
    would = replay(place, folder, spark=spark, run_id="one", dry_run=True, **how)
    assert [(c.outcome, c.rows, c.without_value) for c in would.chosen] == [
        ("dead", 1, 0),
        ("done", 3, 0),
    ]
    # Killed after a batch was sent, before that was noted.
    run = "turnabout.pipeline.jobs._plan.JobRun.note"
    with monkeypatch.context() as patch:
        patch.setattr(run, lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            replay(place, folder, spark=spark, run_id="one", **how)
    assert mq.queue("again").stats().ready == 2
    finish(mq, 2, "mail")
    archive(place, folder, spark=spark)  # what comes later is no part of the run
    done = replay(place, folder, spark=spark, run_id="one", **how)
    assert (done.rows, done.sent, done.done) == (4, 4, True)
    assert replay(place, folder, spark=spark, run_id="one", **how).sent == 4
    with pytest.raises(UsageError, match="another target or other filters"):
        replay(place, folder, spark=spark, run_id="one", **{**how, "to": "elsewhere"})
    got = list(mq.queue("again").receive(max_messages=10))
    assert sorted((m.json()["n"], m.channel) for m in got) == [
        (0, "c0"),
        (1, "c1"),
        (2, "c0"),
        (3, "c1"),
    ]
    first = next(m for m in got if m.json()["n"] == 0)
    assert first.headers["b"] == "ü"
    assert first.headers["replay-run"] == "one"
    assert int(first.headers["replayed-from"]) > 0
    assert not list((folder / "_replay" / "one").glob("rows-*"))

    # In another lake a run of that name is another one.
    archive(place, tmp_path / "second", spark=spark, archive="second")
    done = replay(place, tmp_path / "second", spark=spark, run_id="one", **how)
    assert (done.rows, done.sent) == (6, 6)
    assert mq.queue("again").stats().sent == 10


@on_sqlite
def test_replay_of_rows_without_a_payload(spark, place, mq, tmp_path):
    folder = tmp_path / "lake"
    lived(mq)
    finish(mq, 2)
    archive(place, folder, spark=spark)
    with pytest.raises(WithoutValue, match="2 of 8 rows"):
        replay(place, folder, spark=spark, run_id="all")
    done = replay(
        place, folder, spark=spark, run_id="all", skip_without_value=True, per_second=100_000
    )
    assert (done.sent, done.left_out) == (6, 2)
    assert mq.queue("acme/mail").stats().ready + mq.queue("acme/mail").stats().scheduled == 1
    assert mq.queue("emails").stats().ready == 0


@on_sqlite
def test_an_archive_of_one_namespace(spark, place, mq, tmp_path):
    lived(mq)
    done = archive(place, tmp_path / "lake", spark=spark, namespace="acme", include_value=False)
    assert done.rows == 1
    (row,) = read_lake(spark, tmp_path / "lake").collect()
    assert (row.queue, row.value) == ("mail", None)
    with pytest.raises(UsageError, match="holds the namespace 'acme'"):
        archive(place, tmp_path / "lake", spark=spark)
