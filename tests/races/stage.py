"""Support for interleavings staged by hand on PostgreSQL.

One side is plain psycopg with a transaction left open, as a producer's or a worker's own would be;
the other side is the library. Whatever must not wait is run in a thread that has five seconds.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

Cursor = psycopg.Connection[Any]


@contextmanager
def transaction(url: str) -> Iterator[Cursor]:
    """A connection with a transaction; it is rolled back unless the test commits it."""
    connection = psycopg.connect(url)
    try:
        connection.execute("set lock_timeout = '20s'")
        connection.commit()
        yield connection
        connection.rollback()
    finally:
        connection.close()


def soon(action: Callable[..., Any], *args: Any, seconds: float = 5.0, **options: Any) -> Any:
    """What the action answers, which it must do in a few seconds."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append((action(*args, **options), None))
        except Exception as error:  # noqa: BLE001 (handed on to the test's own thread)
            answers.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    assert answers, f"still waiting after {seconds} s: somebody's open transaction blocks it"
    answer, error = answers[0]
    if error is not None:
        raise error
    return answer


# --- verbs as plain SQL, in the caller's transaction ---


def sql_send(connection: Cursor, queue: str, text: str, channel: str = "") -> int:
    row = connection.execute(
        "select ids from turnabout.send(queue => %s, payloads => %s::bytea[], channels => %s)",
        [queue, [text.encode()], [channel]],
    ).fetchone()
    assert row is not None
    return row[0][0]


def sql_receive(connection: Cursor, queue: str, most: int = 1) -> list[tuple[int, int]]:
    rows = connection.execute(
        "select id, attempt from turnabout.receive(queue => %s, max_messages => %s)"
        " where id is not null",
        [queue, most],
    )
    return rows.fetchall()


def sql_ack(connection: Cursor, queue: str, *receipts: Any) -> list[str | None]:
    """Per receipt None if it was acked, else what the message is now."""
    row = connection.execute(
        "select turnabout.ack(queue => %s, ids => %s, attempts => %s)",
        [queue, [r.id for r in receipts], [r.attempt for r in receipts]],
    ).fetchone()
    assert row is not None
    return [None] * len(receipts) if row[0] is None else list(row[0])


def sql_pause(connection: Cursor, queue: str, channel: str) -> None:
    connection.execute(
        "select turnabout.policy_set(%s, %s, '{\"paused\": true}'::jsonb)", [queue, channel]
    )


def opposite(url: str, first: Any, second: Any) -> None:
    """Two transactions do the same two things in opposite orders; both must end."""
    with transaction(url) as one, transaction(url) as two:
        first(one)
        second(two)
        threads = [
            threading.Thread(target=lambda: (second(one), one.commit()), daemon=True),
            threading.Thread(target=lambda: (first(two), two.commit()), daemon=True),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "two transactions wait for each other"
        for connection in (one, two):
            assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
