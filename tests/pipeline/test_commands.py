"""`pipeline status`, `release`, `forget`, `lake`, and the jobs' words: what needs no Java."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import turnabout
from tests.pipeline.lake.lakes import run as archive
from tests.pipeline.spark.places import finish
from tests.support.each import each
from tests.support.postgres import migrated
from turnabout.pipeline.commands import jobs
from turnabout.pipeline.jobs import replay as replaying
from turnabout.pipeline.lake import Lake
from turnabout.pipeline.results import Status
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.verbs import EpochLease, LogState, SubscriptionList, SubscriptionOpen
from turnabout.words.limits import PAYLOAD_BYTES_MAX
from turnabout.words.value import replace

Run = Any


@pytest.fixture
def access(door_url: str) -> Iterator[Access]:
    opened = Access(door_url)
    yield opened
    opened.close()


def test_status_of_a_database_without_pipelines(run, opened):
    ran = run("pipeline", "status")
    assert "No lease streams" in ran.err
    assert "No archives" in ran.err
    assert run("pipeline", "status", "--fail-over-lag", "1h", code=1).err.endswith(
        "There is no archive and no stream.\n"
    )


@pytest.mark.slow
def test_status_and_its_alarm(run, opened, access, lake):
    finish(opened, 3)
    archive(access, lake)
    finish(opened, 2)
    found = run("pipeline", "status", "--json").document()
    assert found["log"]["waiting_seconds"] is None or found["log"]["waiting_seconds"] >= 0
    (mark,) = found["archives"]
    assert (mark["archive"], mark["messages"], mark["lag"], found["ok"]) == ("archive", 3, 2, True)
    assert "archive" in run("pipeline", "status", "--fail-over-lag", "1h").out
    late = run("pipeline", "status", "--fail-over-lag", "0", "--json", code=1)
    assert late.document()["ok"] is False
    assert "Over the lag: archive" in late.err
    archive(access, lake)
    run("pipeline", "status", "--fail-over-lag", "0")


def test_release_gives_a_stream_s_messages_back(run):
    with migrated() as url, turnabout.connect(url) as opened:
        run, store = partial(run, TURNABOUT_URL=url), opened.store
        opened.queue("mail").send_many([turnabout.message("x"), turnabout.message("y")])
        reader = store.run(SubscriptionOpen("mailer", "host 1"))
        store.run(EpochLease("mailer", reader.generation, ("mail",), 0, 10, 60_000))
        shown = run("pipeline", "status").out
        assert [word for word in ("mailer", "mail", "host 1") if word not in shown] == []
        (stream,) = run("pipeline", "status", "--json").document()["subscriptions"]
        assert (stream["unfinished"], stream["oldest_ready_seconds"]) == (2, 0)
        run("pipeline", "status", "--fail-over-lag", "1h")
        (now,) = store.run(SubscriptionList())
        late = Status((replace(now, oldest_ready_ms=5_001),), (), LogState("", "", None))
        assert (late.behind(5), late.behind(6)) == (("mailer",), ())
        assert "there: mailer" in run("pipeline", "release", "other", "--yes", code=2).err
        assert "repeat with --yes" in run("pipeline", "release", "mailer", code=2).err
        assert opened.queue("mail").stats().leased == 2
        ran = run("pipeline", "release", "mailer", "--forget", "--yes", "--json").document()
        assert ran == {"subscription": "mailer", "messages": 2, "forgotten": True}
        assert opened.queue("mail").stats().ready == 2
        assert run("pipeline", "status", "--json").document()["subscriptions"] == []


def test_jobs_without_spark(run, opened, lake):
    folder, local = str(lake), ("--engine", "local")
    opened.queue("emails").create(history_payload=True)
    finish(opened, 3)
    said = run("pipeline", "run", "archive", "--lake", folder, *local).out
    assert said == "Archived 3 rows in 1 batch by this process; archive has 3 in all.\n"
    assert "became" in run("pipeline", "run", "compact", "--lake", folder).out
    sent = run(
        *("pipeline", "run", "replay", "--lake", folder, "--run-id", "a", "--to", "again"),
        *("--yes", *local),
    )
    assert sent.out == "Run a: 3 of 3 sent by this process.\n"
    assert opened.queue("again").stats().ready == 3


def test_a_replay_sends_what_another_program_was_allowed_to(run, opened, door_url, lake):
    payload = b"x" * (PAYLOAD_BYTES_MAX + 1)
    opened.queue("films").create(history_payload=True)
    with turnabout.connect(door_url, max_payload_bytes=len(payload)) as other:
        other.queue("films").send(payload)
    opened.queue("films").receive()[0].ack()
    how = ("--lake", str(lake), "--engine", "local")
    run("pipeline", "run", "archive", *how)
    run("pipeline", "run", "replay", "--run-id", "a", "--to", "again", "--yes", *how)
    assert opened.queue("again").receive()[0].payload == payload


def test_a_replay_names_what_it_can_not_send(run, opened, lake, monkeypatch):
    opened.queue("films").create(history_payload=True)
    too_long = 0
    for size in (10, 30, 10):
        opened.queue("films").send(b"x" * size)
        (message,) = opened.queue("films").receive()
        message.ack()
        too_long = message.id if size == 30 else too_long
    monkeypatch.setattr(replaying, "SinkAgain", partial(replaying.SinkAgain, max_bytes=20))
    how = ("--lake", str(lake), "--engine", "local")
    run("pipeline", "run", "archive", *how)
    replay = ("pipeline", "run", "replay", "--run-id", "a", "--to", "again", "--yes", *how)
    error = run(*replay, code=2).err
    assert f"message {too_long} can't be sent again: the payload has 30 bytes" in error
    assert "again" not in {queue.name for queue in opened.queues()}
    said = run(*replay, "--skip-invalid").out
    assert said.startswith(f"Run a: 2 of 3 sent by this process; can't be sent: {too_long} (the ")
    assert opened.queue("again").stats().sent == 2
    assert "left out" not in run(*replay).out, "it is over"


def test_a_replay_lets_a_message_have_all_the_headers_that_it_had(run, opened, lake):
    opened.queue("films").create(history_payload=True)
    headers = {f"h{n}": "x" for n in range(64)}
    opened.queue("films").send("x", headers=headers)
    opened.queue("films").receive()[0].ack()
    how = ("--lake", str(lake), "--engine", "local")
    run("pipeline", "run", "archive", *how)
    run("pipeline", "run", "replay", "--run-id", "a", "--to", "again", "--yes", *how)
    assert opened.queue("again").receive()[0].headers == headers


def test_of_a_file_nothing_is_leased(run, opened):
    assert "there: none" in run("pipeline", "release", "mailer", "--yes", code=2).err


def test_purge_forget_and_lake(run, opened, access, lake):
    folder = str(lake)
    finish(opened, 3)
    assert "there is no archive" in run("pipeline", "run", "purge", "--lake", folder, code=1).err
    archive(access, lake)
    purge = ("pipeline", "run", "purge", "--lake", folder)
    assert run(*purge, "--keep", "0s", "--dry-run").out.startswith(
        "Would remove 3 rows; checked 1 file"
    )
    assert run(*purge, "--keep", "0s", "--quick", "--json").document()["rows"] == 3
    assert "in all" not in run("pipeline", "lake", folder).out
    assert run("pipeline", "lake", folder, "--files").out.splitlines() == lake.paths()
    found = run("pipeline", "lake", folder, "--deep", "--json").document()
    assert (found["archives"][0]["rows"], found["archives"][0]["files"]) == (3, 1)
    Path(lake.paths()[0]).unlink()
    error = run("pipeline", "lake", folder, "--json", code=1).error()
    assert error["code"] == "lake_damaged"
    assert run(*purge, "--json", code=1).error()["code"] == "lake_damaged"
    assert "Forgot the archive" in run("pipeline", "forget", "archive", "--yes").out
    run("pipeline", "forget", "archive", "--yes", code=2)


def test_what_is_wrong_is_said_before_java_starts(run, opened, tmp_path):
    assert "needs a name" in run("pipeline", "run", "replay", "--lake", "x", code=2).err
    assert (
        "repeat with --yes"
        in run("pipeline", "run", "replay", "--lake", "x", "--run-id", "a", code=2).err
    )
    assert "there is no archive in" in run("pipeline", "lake", "nowhere", code=2).err
    assert (
        "no database"
        in run(
            "pipeline", "run", "archive", "--lake", "x", "--url", "sqlite:///none.db", code=2
        ).err
    )
    assert run("pipeline", "run", "archive", code=2).err.count("TURNABOUT_LAKE") == 1


def test_lakes_and_archives_are_looked_for_before_java_starts(
    run, opened, access, tmp_path, monkeypatch
):
    monkeypatch.setattr("turnabout.pipeline.spark.sessions.session", None)
    finish(opened, 1)
    lake = Lake(tmp_path / "lake")
    archive(access, lake)
    here, other = str(lake), str(tmp_path / "other")

    def job(*words: str) -> str:
        return run("pipeline", "run", *words, code=2).err

    assert "there is no archive in" in job("compact", "--lake", other)
    for words in (("compact",), ("replay", "--dry-run")):
        assert "has no b: it has archive" in job(*words, "--lake", here, "--archive", "b")
    assert "1 row in another lake" in job("archive", "--lake", other)
    assert "--master is Spark's" in job(
        "archive", "--lake", here, "--engine", "local", "--master", "local"
    )
    assert "AWS_REGION" in job("archive", "--lake", here, "--storage-option", "x")
    away = "postgresql://nobody@127.0.0.1:1/none"
    run("pipeline", "run", "archive", "--lake", here, "--url", away, code=3)


@each("number", [signal.SIGINT, signal.SIGTERM])
def test_a_job_is_told_to_stop_and_a_second_time_broken(number):
    before = signal.getsignal(number)
    with jobs._stopping() as stop:
        os.kill(os.getpid(), number)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before
