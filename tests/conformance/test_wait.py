"""Waiting for messages: a send ends the wait at once. Here the clock is the one on the wall."""

import threading
import time

import pytest

from tests.conformance.steps import sent, texts

pytestmark = [pytest.mark.real_time, pytest.mark.needs("sharing")]


@pytest.mark.parametrize("delay_seconds", [0, 0.3])
def test_a_send_from_another_connection_ends_the_wait(door, delay_seconds):
    name = door.name_of_a_queue()
    with door.open(real_time=True) as mq:
        mq.queue(name).create()

        def send():
            time.sleep(0.3)
            with door.open(real_time=True) as other:
                sent(other.queue(name), "hello", delay_seconds=delay_seconds)

        sender = threading.Thread(target=send)
        began = time.monotonic()
        sender.start()
        batch = mq.queue(name).receive(wait_seconds=20)
        took = time.monotonic() - began
        sender.join()
    assert texts(batch) == ["hello"]
    assert 0.3 + delay_seconds <= took < 15 + delay_seconds


def test_what_falls_due_ends_the_wait(door):
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        queue.create()
        began = time.monotonic()
        sent(queue, "later", delay_seconds=0.4)
        assert texts(queue.receive(wait_seconds=20)) == ["later"]
        assert 0.4 <= time.monotonic() - began < 15


def test_a_wait_ends_with_nothing_when_nothing_comes(door):
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        queue.create()
        began = time.monotonic()
        assert texts(queue.receive(wait_seconds=0.4)) == []
        assert 0.4 <= time.monotonic() - began < 15


def test_a_message_that_is_there_is_not_waited_for(door):
    with door.open(real_time=True) as mq:
        queue = mq.queue(door.name_of_a_queue())
        sent(queue, "here")
        began = time.monotonic()
        assert texts(queue.receive(wait_seconds=20)) == ["here"]
        assert time.monotonic() - began < 15
