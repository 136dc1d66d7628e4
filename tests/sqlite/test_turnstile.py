"""Whose turn it is to write, by a clock that only sleeping moves."""

import fcntl
import os
import sqlite3
from types import SimpleNamespace

import pytest

from turnabout.sqlite import _turnstile
from turnabout.sqlite._turnstile import Turnstile
from turnabout.sqlite._url import place
from turnabout.words.errors import Busy


@pytest.fixture
def slept(monkeypatch):
    """The pauses so far; what is called in each of them is in `meanwhile`."""
    pauses = []
    clock = SimpleNamespace(now=100.0, meanwhile=lambda: None, pauses=pauses)

    def sleep(seconds):
        clock.now += seconds
        pauses.append(seconds)
        clock.meanwhile()

    monkeypatch.setattr(
        _turnstile, "time", SimpleNamespace(monotonic=lambda: clock.now, sleep=sleep)
    )
    return clock


@pytest.fixture
def writers(path, url):
    """Two processes' ways to the lock of a file: turnstile and connection of each."""
    made = []
    for _ in range(2):
        connection = sqlite3.connect(path, isolation_level=None, timeout=0)
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table if not exists t (x)")
        made.append((Turnstile(place(f"{url}?busy_seconds=5")), connection))
    yield made
    for turnstile, connection in made:
        turnstile.close()
        connection.close()


def write(turnstile, connection):
    turnstile.begin(connection)
    connection.execute("insert into t values (1)")
    connection.execute("commit")


@pytest.fixture
def stand_there(path):
    """Somebody stands in the turnstile from now on."""
    files = []

    def stand():
        files.append(os.open(f"{path}-wal", os.O_RDONLY))
        fcntl.flock(files[-1], fcntl.LOCK_EX)

    yield stand
    for file in files:
        os.close(file)


def test_in_its_turn_a_process_passes_who_waits_and_afterwards_not(writers, slept, stand_there):
    first, _ = writers
    write(*first)
    stand_there()
    while slept.now < 100 + _turnstile._TURN_SECONDS - 0.000_1:
        write(*first)
        slept.now += 0.000_5
    assert slept.pauses == []
    slept.now += _turnstile._TURN_SECONDS
    write(*first)
    assert sum(slept.pauses) >= _turnstile._COURTESY_SECONDS


def test_who_waits_rarely_tries_while_another_has_its_turn(writers, slept):
    first, second = writers
    first[0].begin(first[1])

    def in_the_end():
        if slept.now > 100.1:
            first[1].execute("commit")
            slept.meanwhile = lambda: None

    slept.meanwhile = in_the_end
    write(*second)
    assert _turnstile._PATIENCE_SECONDS / 2 <= slept.pauses[0] <= _turnstile._PATIENCE_SECONDS
    assert max(slept.pauses[1:]) <= _turnstile._INSIDE_SECONDS
    assert len(slept.pauses) > 500, "then it tries as soon as may be"


def test_it_gives_up_after_busy_seconds(writers, slept):
    first, second = writers
    first[0].begin(first[1])
    with pytest.raises(Busy, match="5 s"):
        second[0].begin(second[1])
    assert 105 <= slept.now < 105.1


def test_a_turn_that_somebody_else_cut_short_is_over(writers, slept):
    first, second = writers
    write(*first)
    second[0].begin(second[1])
    slept.meanwhile = lambda: second[1].in_transaction and second[1].execute("commit")
    write(*first)
    assert slept.pauses, "it waited as everybody else"
