"""Reading in bulk: statements, types, batches of bounded size, and whose fault it is."""

from collections.abc import Generator
from contextlib import closing
from typing import Any, cast

import psycopg
import pytest

import turnabout
from tests.pipeline.spark.places import finish
from tests.support.until import until
from turnabout.pipeline import schema
from turnabout.pipeline import verbs as p
from turnabout.pipeline.spark import kept, rows
from turnabout.pipeline.spark.access import Access
from turnabout.pipeline.spark.filters import Condition, Names
from turnabout.words.errors import Disconnected, Forbidden, UsageError, WrongVersion

ALL = tuple(schema.LOG)


def ids(access: Access, *where: Condition, **how: Any) -> list[int]:
    found = rows.read(access, "log_rows", ["message_id"], where, **how)
    return [row for batch in found for row in batch.column("message_id").to_pylist()]


def test_all_columns_in_their_types(mq: turnabout.Turnabout, place: str) -> None:
    finish(mq, 2, headers={"a": "1"})
    (batch,) = rows.read(Access(place), "log_rows", ALL)
    assert batch.schema.equals(schema.arrow_schema(ALL))
    assert list(rows.read(Access(place), "dead_rows", tuple(schema.DEAD))) == []


def test_batches_are_bounded(
    mq: turnabout.Turnabout, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mq.queue("big").create(history_payload=True)
    for _ in range(30):
        mq.queue("big").send(b"x" * 50_000)
    mq.queue("big").ack([m.receipt for m in mq.queue("big").receive(100)])
    monkeypatch.setattr(rows, "BATCH_BYTES", 200_000)
    monkeypatch.setattr(rows, "_ROWS_FIRST", 2)
    batches = list(rows.read(Access(place), "log_rows", ["value"]))
    assert sum(batch.num_rows for batch in batches) == 30
    assert len(batches) >= 6
    assert max(batch.nbytes for batch in batches) < 500_000


def test_ranges_and_conditions(mq: turnabout.Turnabout, place: str) -> None:
    access = Access(place)
    with closing(access):
        first, middle = finish(mq, 3, "a"), access.run(p.LogLook()).end
        second, end = finish(mq, 3, "b"), access.run(p.LogLook()).end
        assert ids(access, of=rows.Span("", middle)) == first
        assert ids(access, of=rows.Span(middle, end)) == second
        assert ids(access, of=rows.Span(end, end)) == []
        assert ids(access, of=rows.Span("", "")) == []
        assert ids(access, Condition("queue", "in", ("a", "x'; --"))) == first
        assert ids(access, Condition("queue", "not in", ("a",))) == second
        assert ids(access, names=Names(queues=())) == []
        assert ids(access, names=Names(globs=("b*", "c"))) == second
        assert ids(access, names=Names(pattern="[ac]")) == first
        assert ids(access, Condition("channel", "=", "\\' ?%s {}")) == []


def test_text_that_sql_might_take_for_its_own(mq: turnabout.Turnabout, place: str) -> None:
    odd = 'it\'s "?1" \\ %s {x} ; -- ä'
    (found,) = finish(mq, 1, channel=odd)
    finish(mq, 1)
    assert ids(Access(place), Condition("channel", "=", odd)) == [found]
    assert ids(Access(place), Condition("channel", "starts", odd[:9])) == [found]


def test_a_glob_means_stars_only(mq: turnabout.Turnabout, place: str) -> None:
    found = finish(mq, 1, "a_b")
    finish(mq, 1, "axb")
    assert ids(Access(place), names=Names(globs=("a_*",))) == found


def test_unknown_columns_are_refused(place: str) -> None:
    for columns in (["queue", "1; drop table message"], []):
        with pytest.raises(UsageError, match="has the columns"):
            rows.read(Access(place), "log_rows", columns)


def test_a_database_that_is_not_there(place: str, tmp_path: Any) -> None:
    missing = (
        f"sqlite:///{tmp_path}/none.db"
        if place.startswith("sqlite")
        else "postgresql://app:hunter2@127.0.0.1:1/none"
    )
    with pytest.raises(Disconnected) as caught:
        list(rows.read(Access(missing), "log_rows", ["queue"]))
    assert "hunter2" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_roles_and_old_databases_on_postgresql(place: str) -> None:
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("create role reader_of_nothing login")
        try:
            other = place.replace("postgres@", "reader_of_nothing@")
            with pytest.raises(Forbidden, match="may not read in bulk"):
                list(rows.read(Access(other), "log_rows", ["queue"]))
            connection.execute("drop view turnabout.log_rows cascade")
            with pytest.raises(WrongVersion, match="migrate up"):
                list(rows.read(Access(place), "log_rows", ["queue"]))
        finally:
            connection.execute("drop role reader_of_nothing")


@pytest.mark.parametrize("place", ["postgres"], indirect=True)
@pytest.mark.slow
def test_a_kept_connection_is_used_again_and_replaced_when_it_is_dead(
    mq: turnabout.Turnabout, place: str
) -> None:
    access = Access(place)
    found = finish(mq, 2)

    def server_processes() -> list[int]:
        with psycopg.connect(place) as connection:
            return [
                row[0]
                for row in connection.execute(
                    "select pid from pg_stat_activity where application_name = 'turnabout spark' "
                    "and datname = current_database()"
                )
            ]

    try:
        assert ids(access, keep=True) == found
        (first,) = until(lambda: len(there := server_processes()) == 1 and there)
        assert ids(access, keep=True) == found
        assert server_processes() == [first]
        with psycopg.connect(place, autocommit=True) as connection:
            connection.execute("select pg_terminate_backend(%s, 5000)", (first,))
        assert ids(access, keep=True) == found
        (second,) = server_processes()
        assert second != first
        # Left in the middle of a result, it is of no use to anybody.
        read = rows.read(access, "log_rows", ["message_id"], keep=True)
        half = cast("Generator[Any]", read)
        next(half)
        half.close()
        assert ids(access, keep=True) == found
        assert second not in server_processes()
    finally:
        kept.drop()


class Wire:
    """Counts what is opened and closed."""

    opened = 0

    def __init__(self) -> None:
        Wire.opened += 1
        self.is_open = True

    def close(self) -> None:
        self.is_open = False


def test_what_is_kept_and_what_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        with kept.using("a", Wire) as first, kept.using("a", Wire) as second:
            assert first is not second  # each has its own
        assert (first.is_open, second.is_open) == (True, False)
        with kept.using("a", Wire) as again:
            assert again is first
            assert not kept.has("a")
        with pytest.raises(KeyError), kept.using("a", Wire):
            raise KeyError
        assert not first.is_open
        assert not kept.has("a")

        # The newest are kept, and none of a parent's, or that has been idle for long.
        for name in range(kept.MOST + 1):
            with kept.using(name, Wire):
                pass
        assert [kept.has(name) for name in range(kept.MOST + 1)] == [False] + [True] * kept.MOST
        opened = Wire.opened
        with monkeypatch.context() as patch:
            patch.setattr(kept.os, "getpid", lambda: -1)
            assert not kept.has(1)

        monkeypatch.setattr(kept, "IDLE_SECONDS", -1.0)
        with kept.using(1, Wire):
            assert Wire.opened == opened + 1
    finally:
        kept.drop()
