"""What moves of pipelines, what stays behind, and what they are told."""

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec import convert

import turnabout
from tests.move.endpoints import Endpoints, one_version
from tests.support.each import each
from turnabout import WrongVersion, message
from turnabout.move import Left, Moved, plan
from turnabout.move._source import Source
from turnabout.pipeline import verbs as p

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The store of a file that somebody had open while it was moved."""
    path = tmp_path_factory.mktemp("closed") / "a.db"
    with turnabout.connect(f"sqlite:///{path}") as mq:
        mq.queue("jobs").send("x")
        with contextlib.closing(Source(f"sqlite:///{path}")) as file:
            with file.locked("postgresql://host/db"):
                file.shut("token", "postgresql://host/db")
            file.finish("token", "postgresql://host/db")
        yield mq.store


@one_version
def test_a_batch_that_a_pipeline_has_published_is_not_published_again(endpoints: Endpoints) -> None:
    staged = (p.StagedMessages("jobs", [b"x"]),)
    with turnabout.connect(endpoints.source) as mq:
        mq.store.run(p.Stage("first", staged))
        assert mq.store.run(p.Publish("sink", 7, ("first",), 1)) == p.Published(1)
    assert endpoints.move().sink_batches == 1
    with turnabout.connect(endpoints.target) as mq:
        mq.store.run(p.Stage("again", staged))
        assert mq.store.run(p.Publish("sink", 7, ("again",), 1)) == p.AlreadyPublished(1)
        assert [m.payload for m in mq.queue("jobs").peek(9)] == [b"x"]


@one_version
def test_what_pipelines_had_open_stays_behind_and_the_report_says_so(endpoints: Endpoints) -> None:
    with turnabout.connect(endpoints.source) as mq:
        store, jobs = mq.store, mq.queue("jobs")
        jobs.send_many([message(str(n)) for n in range(5)])
        jobs.ack([m.receipt for m in jobs.receive(1)])
        store.run(p.WatermarkSet("lake", store.run(p.LogNext("")).until, 1))
        store.run(p.Stage("attempt", (p.StagedMessages("jobs", [b"x", b"y"]),)))
    left = Left(staged=2, watermarks=1)
    assert plan(endpoints.source, endpoints.target).left == left
    moved = endpoints.move()
    assert moved.left == left
    assert convert(msgspec.json.decode(msgspec.json.encode(moved)), Moved) == moved, (
        "as the ledger keeps it"
    )
    with turnabout.connect(endpoints.target) as mq:
        store = mq.store
        assert store.run(p.WatermarkList()) == ()
        rows = store.run(p.LogNext(p.START))
        assert rows.messages == 1, "the history has moved, and is the beginning of the log"


@each(
    "verb",
    [
        p.Stage("attempt", (p.StagedMessages("jobs", [b"x", b"y"]),)),
        p.Publish("sink", 0, (), 0),
        p.Unstage(()),
        p.LogNext(p.START),
        p.LogAt(0),
        p.LogLook(),
        p.LogPurge("1=1", 0),
        p.WatermarkSet("lake", "1=1", 1),
        p.WatermarkDelete("lake"),
        p.WatermarkList(),
    ],
)
def test_a_pipeline_that_has_the_file_open_is_told_where_to_go(closed: Any, verb: Any) -> None:
    with pytest.raises(WrongVersion, match="moved to postgresql"):
        closed.run(verb)
