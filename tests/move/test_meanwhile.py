"""What users of the file, or of the target, notice while it is copied; and how long that takes."""

import contextlib
import sqlite3
import threading
from typing import Any

import pytest

import turnabout
from tests.move.endpoints import Endpoints, one_version
from tests.support.doors import migrate
from tests.support.postgres import Server, fresh_database
from turnabout import Busy, Disconnected, QueueNotFound, UsageError, WrongVersion, message
from turnabout.move import _copy, _move, _target, abort, move
from turnabout.move._report import CannotTell
from turnabout.sqlite._moving import target_of

pytestmark = [one_version, pytest.mark.slow]
HASTY = "?busy_seconds=0.05"


class StoppedHere(Exception):
    pass


def at(step: str, then: Any) -> Any:
    """What a move is to call at a step, once."""
    left = [then]

    def call(progress: Any) -> None:
        if progress.step == step and left:
            left.pop()()

    return call


def stop() -> None:
    raise StoppedHere


def test_a_writer_is_told_why_and_sends_afterwards(endpoints: Endpoints) -> None:
    with (
        turnabout.connect(endpoints.source + HASTY) as mq,
        contextlib.closing(sqlite3.connect(endpoints.path, timeout=0.05)) as own,
    ):
        jobs = mq.queue("jobs")
        jobs.send("x")

        def use() -> None:
            with pytest.raises(Busy, match=r"being moved to postgresql.*repeat"):
                jobs.send("y")
            with pytest.raises(Busy, match="it is moved to postgresql"):
                jobs.within(own).send("z")
            own.rollback()
            assert [m.text() for m in jobs.peek()] == ["x"], "readers go on"
            assert jobs.stats().ready == 1
            stop()

        with pytest.raises(StoppedHere):
            endpoints.move(progress=at("comparing", use))
        assert target_of(mq.store._place.path) is None
        assert jobs.send("y").id


def test_a_writer_that_waits_is_told_where_the_queues_are(endpoints: Endpoints) -> None:
    told: list[Exception] = []
    with turnabout.connect(endpoints.source) as mq:
        jobs = mq.queue("jobs")
        jobs.send("x")

        def wait() -> None:
            try:
                while True:
                    with contextlib.suppress(Busy):
                        jobs.send("y")
            except WrongVersion as moved:
                told.append(moved)

        waiter = threading.Thread(target=wait)
        endpoints.move(progress=at("copying", waiter.start))
        waiter.join(30)
        assert "moved to postgresql" in str(told[0])


def test_a_sign_that_a_killed_move_left_says_nothing(endpoints: Endpoints) -> None:
    with turnabout.connect(endpoints.source + HASTY) as mq:
        mq.queue("jobs").send("x")
        path = mq.store._place.path
        path.with_name(f"{path.name}-moving").write_text("postgresql://nowhere")
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("begin immediate")
            with pytest.raises(Busy, match="held the write lock"):
                mq.queue("jobs").send("y")
            other.execute("rollback")
    assert endpoints.move().messages == 1
    assert not path.with_name(f"{path.name}-moving").exists()


def test_nobody_sees_anything_there_before_it_is_committed(endpoints: Endpoints) -> None:
    with turnabout.connect(endpoints.source) as mq, turnabout.connect(endpoints.target) as there:
        mq.queue("jobs").send("x")

        def look() -> None:
            assert there.queues() == ()
            with pytest.raises(QueueNotFound):
                there.queue("jobs").stats()

        endpoints.move(progress=at("closed", look))
        assert there.queue("jobs").stats().ready == 1


def test_what_is_sent_there_while_it_is_copied_comes_behind_it(endpoints: Endpoints) -> None:
    """To a queue that is there and empty, or to another one: their ids are above the file's."""
    with turnabout.connect(endpoints.source) as mq, turnabout.connect(endpoints.target) as there:
        mq.queue("jobs").send_many([message(str(n)) for n in range(9)])
        there.queue("jobs").create()
        there.queue("other").create()
        endpoints.move(progress=at("copying", lambda: there.queue("other").send("theirs")))
        assert there.queue("other").peek()[0].id < there.queue("jobs").send("new").id
        assert there.queue("jobs").stats().sent == 10


def test_two_at_once(endpoints: Endpoints) -> None:
    with turnabout.connect(endpoints.source) as mq:
        mq.queue("jobs").send("x")

    def again() -> None:
        with pytest.raises(Busy, match="is running"):
            endpoints.move()

    assert endpoints.move(progress=at("copying", again)).messages == 1
    with pytest.raises(UsageError, match="nothing to do"):
        endpoints.move()


@pytest.mark.parametrize("committed", [True, False])
def test_a_commit_whose_answer_is_lost_is_asked_for(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    plain = _target.Target.commit

    def lost(self: Any) -> None:
        monkeypatch.setattr(_target.Target, "commit", plain)
        if committed:
            self.commit()
        raise Disconnected("lost")

    def lose() -> None:
        monkeypatch.setattr(_target.Target, "commit", lost)

    with turnabout.connect(endpoints.source) as mq:
        mq.queue("jobs").send("x")
        if committed:
            assert endpoints.move(progress=at("closed", lose)).messages == 1
        else:
            with pytest.raises(Disconnected, match="lost"):
                endpoints.move(progress=at("closed", lose))
            assert mq.queue("jobs").send("y").id


def test_a_file_stays_closed_while_nobody_can_tell(
    endpoints: Endpoints, postgres_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(_: Any) -> None:
        raise Disconnected("away")

    with turnabout.connect(endpoints.source) as mq:
        mq.queue("jobs").send("x")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_target.Target, "reconnect", away)
            patch.setattr(_move, "TRIES", 2)
            with pytest.raises(CannotTell, match="stays closed until `turnabout move` is run"):
                endpoints.move()
        with pytest.raises(Busy, match="being moved to postgresql"):
            mq.queue("jobs").send("y")
    with fresh_database(postgres_server, fill=migrate) as other:
        for verb in (move, abort):
            with pytest.raises(UsageError, match="name that database"):
                verb(endpoints.source, other)
    assert endpoints.move().messages == 1


def test_a_copy_that_differs_stops_it(
    endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turnabout.connect(endpoints.source) as mq:
        mq.queue("jobs").send("x", channel="a")
        plain = _copy._rows.made

        def wrong(table: str, queues: Any, xid: str) -> Any:
            found = plain(table, queues, xid)
            return {**found, "payload": lambda _: b"y"} if table == "message" else found

        monkeypatch.setattr(_copy._rows, "made", wrong)
        monkeypatch.setattr(_copy._rows, "summer", lambda _: lambda _: 1)
        with pytest.raises(turnabout.BrokenInvariant, match="messages are not the same"):
            endpoints.move()
        assert mq.queue("jobs").send("y").id


def test_a_hundred_thousand_messages_take_seconds(endpoints: Endpoints) -> None:
    with turnabout.connect(endpoints.source) as mq:
        for first in range(0, 100_000, 10_000):
            mq.queue("jobs").send_many(
                [message(b"x" * 160, channel=str(n % 100)) for n in range(first, first + 10_000)]
            )
    moved = endpoints.move()
    print(f"100,000 messages: {moved.seconds} s")  # noqa: T201
    assert moved.messages == 100_000
    assert moved.seconds < 60
